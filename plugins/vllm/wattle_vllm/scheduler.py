"""vLLM's own schedulers, which also say what each step is.

Where they publish: `--additional-config '{"wattle": {"step_reports": "tcp://127.0.0.1:5557"}}'`, or the environment variable
WATTLE_STEP_REPORTS. A TCP port is that of data-parallel rank 0; rank n takes the n-th after it. Without either they are
vLLM's schedulers and nothing else. `"moment": "ended"` (WATTLE_STEP_MOMENT=ended) reports a step when its output has been
processed, with its duration, as SGLang and Dynamo do; the default is as it is scheduled, which is what clocks want.
"""
from __future__ import annotations

import os
import time
from collections import deque

import msgspec
from vllm.logger import init_logger
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler

from wattle_vllm.report import Publisher, Step

logger = init_logger(__name__)

MOMENTS = ("start", "ended")
QUEUE_LOOKED_AT = 1024  # requests of a longer queue are counted, not read


def settings(vllm_config) -> tuple[str, str]:
    """Endpoint ("": none) and moment."""
    stated = (getattr(vllm_config, "additional_config", None) or {}).get("wattle", {})
    endpoint = stated.get("step_reports") or os.environ.get("WATTLE_STEP_REPORTS", "")
    moment = stated.get("moment") or os.environ.get("WATTLE_STEP_MOMENT", "start")
    if moment not in MOMENTS:
        raise ValueError(f"wattle: moment is {moment!r}; it is one of {', '.join(MOMENTS)}")
    return endpoint, moment


def endpoint_of_rank(endpoint: str, rank: int) -> str:
    scheme, _, place = endpoint.partition("://")
    if scheme != "tcp" or rank == 0:
        return endpoint if rank == 0 else f"{endpoint}.{rank}"
    host, _, port = place.rpartition(":")
    return f"tcp://{host}:{int(port) + rank}"


def tokens_of(output, req_id: str) -> int:
    """That a step gave a request, of a ModelRunnerOutput."""
    place = output.req_id_to_index.get(req_id)
    return len(output.sampled_token_ids[place]) if place is not None and output.sampled_token_ids else 0


class _Reports:
    """Mixed in before one of vLLM's schedulers."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        config = self.vllm_config
        endpoint, moment = settings(config)
        self._wattle_starts = moment == "start"
        self._wattle_out: Publisher | None = None
        self._wattle_idle = True
        self._wattle_running: deque[tuple[Step, float]] = deque()  # scheduled, output not processed
        self._wattle_drafts = getattr(self, "num_spec_tokens", 0) > 0  # else a step gives each one token: nothing to say
        self._wattle_gave: tuple[int, int] | None = None  # Step.gave, not said yet
        self._wattle_ended = 0.0
        if not endpoint:
            logger.warning("wattle: no endpoint for step reports is stated; none are sent")
            return
        rank = getattr(config.parallel_config, "data_parallel_rank", 0)
        endpoint = endpoint_of_rank(endpoint, rank)
        self._wattle_out = Publisher(endpoint, f"vllm-{os.getpid()}", rank, msgspec.msgpack.Encoder().encode)
        self._wattle_out.publish(Step(), self._wattle_starts)
        logger.info("wattle: step reports (%s) on %s", moment, endpoint)

    def schedule(self, *args, **kwargs):
        output = super().schedule(*args, **kwargs)
        if self._wattle_out is not None and output.num_scheduled_tokens:
            step = self._wattle_step(output)
            self._wattle_idle = False
            self._wattle_running.append((step, time.monotonic()))
            if self._wattle_starts:
                self._wattle_publish(step)
        return output

    def update_from_output(self, scheduler_output, model_runner_output, *args, **kwargs):
        result = super().update_from_output(scheduler_output, model_runner_output, *args, **kwargs)
        if self._wattle_out is not None and scheduler_output.num_scheduled_tokens and self._wattle_running:
            step, began = self._wattle_running.popleft()
            if step.decoding:
                given = [tokens_of(model_runner_output, req_id) for req_id in step.decoding]
                self._wattle_gave = len(given), sum(given)
            now = time.monotonic()
            if not self._wattle_starts:
                self._wattle_queue(step)  # as its successor finds it
                self._wattle_publish(step, now - max(began, self._wattle_ended))
            self._wattle_ended = now
            self._wattle_say_idle()
        return result

    def finish_requests(self, *args, **kwargs):
        result = super().finish_requests(*args, **kwargs)
        if self._wattle_out is not None:
            self._wattle_say_idle()
        return result

    def _wattle_say_idle(self) -> None:
        if self._wattle_idle or self.running or self.waiting or getattr(self, "skipped_waiting", None):
            return
        self._wattle_idle = True
        self._wattle_running.clear()
        self._wattle_publish(Step())

    def _wattle_publish(self, step: Step, wall_s: float = 0.0) -> None:
        step.gave, self._wattle_gave = self._wattle_gave, None
        self._wattle_out.publish(step, self._wattle_starts, wall_s)

    def _wattle_step(self, output) -> Step:
        step = Step()
        before = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
        cached = output.scheduled_cached_reqs
        before.update(zip(cached.req_ids, cached.num_computed_tokens))
        now = time.time()
        for req_id, tokens in output.num_scheduled_tokens.items():
            request = self.requests[req_id]
            context = before.get(req_id, 0)
            if context < request.num_prompt_tokens:
                left = max(request.num_prompt_tokens - context - tokens, 0)
                step.prefill(tokens, context, left, now - request.arrival_time)
            else:
                step.decode(context)
                if self._wattle_drafts:
                    step.decoding.append(req_id)
        step.kv_tokens = sum(request.num_computed_tokens for request in self.running)
        self._wattle_queue(step)
        return step

    def _wattle_queue(self, step: Step) -> None:
        waiting = [*self._wattle_some(self.waiting), *self._wattle_some(getattr(self, "skipped_waiting", ()))]
        whole = len(self.waiting) + len(getattr(self, "skipped_waiting", ()))
        resumed = [r for r in waiting if r.num_output_tokens > 0]
        step.queued_prefills = whole - len(resumed)
        step.queued_prompt_tokens = sum(max(r.num_prompt_tokens - r.num_computed_tokens, 0)
                                        for r in waiting if r.num_output_tokens == 0)
        step.queued_decodes = len(resumed)
        step.queued_decode_kv_tokens = sum(r.num_tokens for r in resumed)

    @staticmethod
    def _wattle_some(queue):
        for position, request in enumerate(queue):
            if position == QUEUE_LOOKED_AT:
                return
            yield request


class _Sync(_Reports, Scheduler):
    pass


class _Async(_Reports, AsyncScheduler):
    pass


class StepReports:
    """What --scheduler-cls names: becomes the one that vLLM would have taken. Whether it schedules asynchronously is known last,
    after the platform has had its say (a CPU does not)."""

    def __new__(cls, *, vllm_config, **others):
        wanted = _Async if getattr(vllm_config.scheduler_config, "async_scheduling", False) else _Sync
        return wanted(vllm_config=vllm_config, **others)
