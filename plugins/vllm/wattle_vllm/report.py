"""One step report: what a scheduler knows of a step, in the form of SGLang's forward-pass metrics, and its way out over ZMQ.
Nothing here needs vLLM.

On the wire, three frames: an empty topic, a sequence number of 8 bytes big-endian, and msgpack:
[version, worker_id, dp_rank, counter_id, wall_time, scheduled[7], queued[6], facts of ours].
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Step:
    """Counts of one step, over all requests in it, and of those that wait."""

    prefill_requests: int = 0
    prefill_tokens: int = 0
    prefill_lengths: list[int] = field(default_factory=list)
    prefill_kv_tokens: int = 0  # of earlier chunks and cached prefixes
    prefill_context_tokens: int = 0  # sum of chunk x (context before it + chunk / 2)
    unfinished_prompt_tokens: int = 0  # of this step's prompts, left for steps after it
    decode_requests: int = 0
    decode_kv_tokens: int = 0
    decode_contexts: list[int] = field(default_factory=list)
    decoding: list[str] = field(default_factory=list)  # these requests, where a step may give them several tokens
    queued_prefills: int = 0
    queued_prompt_tokens: int = 0
    queued_decodes: int = 0  # preempted
    queued_decode_kv_tokens: int = 0
    kv_tokens: int = 0  # resident
    oldest_age_s: float | None = None  # of the requests whose prompt is in this step
    # Decoding requests of the newest step whose output has been processed, and the tokens they got; said once.
    gave: tuple[int, int] | None = None

    def prefill(self, chunk: int, before: int, left: int, age_s: float) -> None:
        self.prefill_requests += 1
        self.prefill_tokens += chunk
        self.prefill_lengths.append(chunk)
        self.prefill_kv_tokens += before
        self.prefill_context_tokens += chunk * (2 * before + chunk) // 2
        self.unfinished_prompt_tokens += left
        self.oldest_age_s = max(age_s, self.oldest_age_s or 0.0)

    def decode(self, context: int) -> None:
        self.decode_requests += 1
        self.decode_kv_tokens += context
        self.decode_contexts.append(context)

    @property
    def idle(self) -> bool:
        return self.prefill_requests == 0 and self.decode_requests == 0


def variance(values: list[int]) -> float:
    if not values:
        return 0.0
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values) / len(values)


def message(step: Step, worker_id: str, dp_rank: int, counter: int, wall_s: float, starts: bool) -> list:
    facts: dict = {"kv": step.kv_tokens, "ctx": step.prefill_context_tokens}
    if step.unfinished_prompt_tokens > 0:
        facts["left"] = step.unfinished_prompt_tokens
    if step.oldest_age_s is not None:
        facts["age_ns"] = max(0, int(step.oldest_age_s * 1e9))
    if step.gave is not None:
        facts["of"], facts["tok"] = step.gave
    if starts:
        facts["start"] = True
    return [
        1, worker_id, dp_rank, counter, wall_s,
        [step.prefill_requests, step.prefill_tokens, variance(step.prefill_lengths), step.prefill_kv_tokens,
         step.decode_requests, step.decode_kv_tokens, variance(step.decode_contexts)],
        [step.queued_prefills, step.queued_prompt_tokens, 0.0, step.queued_decodes, step.queued_decode_kv_tokens, 0.0],
        facts,
    ]


class Publisher:
    """Numbers reports and sends them; repeats the last idle one every second, so that who comes later hears of the engine.
    Never blocks and never raises in the scheduler's thread: a full queue drops, and telemetry does not stop an engine."""

    HEARTBEAT_S = 1.0

    def __init__(self, endpoint: str, worker_id: str, dp_rank: int, encode: Callable[[list], bytes]):
        import zmq

        self._worker_id, self._dp_rank, self._encode = worker_id, dp_rank, encode
        self._socket = zmq.Context.instance().socket(zmq.PUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, 4096)
        self._socket.bind(endpoint)
        self._again = zmq.Again
        self._dont_wait = zmq.DONTWAIT
        self._lock = threading.Lock()  # the heart beats on a thread of its own
        self._counter = 0
        self._idle: tuple[Step, bool] | None = None
        self._last = 0.0
        threading.Thread(target=self._beat, name="wattle-step-reports", daemon=True).start()

    def publish(self, step: Step, starts: bool, wall_s: float = 0.0) -> None:
        with self._lock:
            self._send(step, starts, wall_s)
            step.gave = None
            self._idle = (step, starts) if step.idle and step.queued_prefills + step.queued_decodes == 0 else None

    def _send(self, step: Step, starts: bool, wall_s: float) -> None:
        self._counter += 1
        self._last = time.monotonic()
        body = self._encode(message(step, self._worker_id, self._dp_rank, self._counter, wall_s, starts))
        try:
            self._socket.send_multipart([b"", self._counter.to_bytes(8, "big"), body], flags=self._dont_wait)
        except self._again:
            pass

    def _beat(self) -> None:
        while True:
            time.sleep(self.HEARTBEAT_S / 4)
            with self._lock:
                if self._idle is not None and time.monotonic() - self._last >= self.HEARTBEAT_S:
                    self._send(*self._idle, 0.0)
