"""Real vLLM (CPU build, random weights) with our scheduler plugin behind the gateway; with --pair two of them, prefill and decode,
with KV transfer over NIXL."""
import argparse
import os
import pathlib
import signal
import subprocess
import sys

import behind_gateway as b
from processes import PATIENCE_S, a_node, eventually, get, metric
from real_engines import CONTEXT, SKIPPED, Missing, free_port, start_vllm, vllm

START_S = 40 * PATIENCE_S
TIGHT_TTFT_MS = 50  # long prompts then need the highest clock: unchanged clocks are not journaled


def sum_of(url: str, name: str, label: str = "") -> float:
    found = [line for line in get(url + "/metrics").splitlines() if line.startswith(name + "{") and label in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in found)


def busy(engine) -> float:
    return sum_of(engine.url, "vllm:num_requests_running") + sum_of(engine.url, "vllm:num_requests_waiting")


def decided_before_first_token(requests: list[dict], decisions: list[dict], fates=("finished",)) -> None:
    """Of each request that found the engine idle: its clock was decided between its arrival and its first token."""
    clocks = [d["at_ns"] * 1e-9 for d in decisions if d["kind"] == "clock"]
    assert clocks, "no clock was decided"
    late, alone = [], 0
    left_before = 0.0
    for r in sorted(requests, key=lambda row: float(row["arrival_s"])):
        arrival, first = float(r["arrival_s"]), float(r["first_token_s"] or "nan")
        was_idle, left_before = arrival > left_before, max(left_before, float(r["left_s"]))
        if r["fate"] not in fates or int(r["prompt_tokens"]) < 1000 or not was_idle:
            continue
        alone += 1
        between = [c for c in clocks if arrival <= c <= first]
        quarter = [c for c in between if c <= arrival + (first - arrival) / 4]
        print(f"prompt of {r['prompt_tokens']}: first token after {1e3 * (first - arrival):.1f} ms, decided after "
              f"{[f'{1e3 * (c - arrival):.1f} ms, {100 * (c - arrival) / (first - arrival):.1f} %' for c in between][:3]}")
        if not quarter:
            late.append(r["request_id"])
    assert alone >= 3, "no long prompts found the engine idle"
    assert not late, f"decided late or not at all: {late}"


def check_one(flags: argparse.Namespace, python: pathlib.Path, node, folder: str, moment: str) -> None:
    work = pathlib.Path(folder)
    reports = f"tcp://127.0.0.1:{free_port()[0]}"
    engine = start_vllm(python, work, "vllm", reports=reports, moment=moment)
    try:
        engine.wait_until_up(START_S)
        stack = b.Stack(node, folder, flags.nvml, [f"{engine.url},fpm={reports}"], [f"{reports}=0"], "eco-freq",
                        ttft_ms=TIGHT_TTFT_MS)
        b.complete_answers(stack, 30)
        for tokens in (2000, 2500, 3000):
            eventually("the engine has said that it is idle", stack.idle)
            answer = b.stream(stack.url, b.body_of(4, tokens, first=tokens // 100))
            assert not answer.failed, answer.events
            stack.settle()
        print("33 answers, each whole, as many tokens as asked")
        (worker,) = stack.workers()
        assert metric(stack.admin, "wattle_gateway_worker_reports_total") >= 30, "step reports come"
        for dropped in ("wattle_gateway_worker_reports_missed_total", "wattle_gateway_worker_reports_late_total"):
            assert metric(stack.admin, dropped) == 0, dropped
        assert stack.dropped() == 0 and metric(stack.agent["admin"], "wattle_agent_reports_dropped_total") == 0
        print(f"{int(metric(stack.admin, 'wattle_gateway_worker_reports_total'))} step reports, none dropped; view from",
              worker["view"]["source"])
        b.tokens_are_booked(stack)
        print("prompt and output tokens are booked as the engine counts them")
        b.a_client_that_leaves_frees_the_engine(stack, lambda: busy(engine))
        eventually("its blocks are free", lambda: sum_of(engine.url, "vllm:kv_cache_usage_perc") == 0)
        print("a client that leaves frees its blocks")
        asking = os.path.join(folder, "asking")
        os.mkdir(asking)
        by_header = b.Stack(node, asking, flags.nvml, [f"{engine.url},load=orca"], [], "")
        b.load_is_known_by_its_header(by_header)
        by_header.stop()
        print("its load report comes with an answer (ORCA)")
        if moment == "start":
            b.profiling_runs_to_its_end(flags.wattle, engine.url, work, CONTEXT)
            b.profiling_shows_the_engines_words(flags.wattle, engine.url, work, "nope", "The model `nope` does not exist")
        b.profiling_runs_to_its_end(flags.wattle, engine.url, work, CONTEXT, "--telemetry", reports)
        print("wattle profile ran to its end, and repeats what the engine says")
        (core,) = [pid for pid, name in engine.processes().items() if "EngineCore" in name] or [0]
        assert core, engine.processes()
        b.a_killed_engine_fails_each_request_once(stack, lambda: os.kill(core, signal.SIGKILL))
        print("a killed engine core fails each of its requests once:", stack.fates())
        requests, decisions = stack.stop()
        assert len([r for r in requests if r["fate"] == "failed"]) == 3
        decided_before_first_token(requests, decisions)
    finally:
        engine.end()


def check_pair(flags: argparse.Namespace, python: pathlib.Path, node, folder: str) -> None:
    work = pathlib.Path(folder)
    reports = [f"tcp://127.0.0.1:{port}" for port in free_port(2)]
    engines = []
    try:
        for name, endpoint in zip(("prefill", "decode"), reports):
            engines.append(start_vllm(python, work, name, reports=endpoint, kv=True))
        for engine in engines:
            engine.wait_until_up(START_S)
        prefill, decode = engines
        stack = b.Stack(node, folder, flags.nvml, [f"{prefill.url}=prefill,fpm={reports[0]}",
                                                   f"{decode.url}=decode,fpm={reports[1]}"],
                        [f"{reports[0]}=0@prefill", f"{reports[1]}=1@decode"], "voltanallm",
                        flags=("--probe-timeout-s", "60"))  # NIXL's threads spin: on two cores its engines are slow
        count = 20
        for i in range(count):
            answer = b.stream(stack.url, b.body_of(16, 200 + 17 * i))
            assert not answer.failed and answer.usage["completion_tokens"] == 16, (i, answer.events[-2:], answer.problem)
        stack.settle()
        transfers = sum_of(decode.url, "vllm:nixl_xfer_time_seconds_count")
        fates = stack.fates()
        print(f"{count} requests, {transfers:.0f} transfers of KV, fates {fates}")
        assert fates["finished"] == count and transfers == count, (fates, transfers)
        assert metric(stack.admin, "wattle_gateway_pd_missing_transfer_params_total") == 0
        assert stack.dropped() == 0
        # One that leaves in the midst of decoding holds nothing on either side.
        b.a_client_that_leaves_frees_the_engine(stack, lambda: sum(busy(e) for e in engines))
        for engine in engines:
            eventually("its blocks are free", lambda: sum_of(engine.url, "vllm:kv_cache_usage_perc") == 0)
        print("a client that leaves frees blocks of both engines")
        (core,) = [pid for pid, name in decode.processes().items() if "EngineCore" in name] or [0]
        b.a_killed_engine_fails_each_request_once(stack, lambda: os.kill(core, signal.SIGKILL))
        print("a killed decode engine fails each of its requests once:", stack.fates())
        stack.stop()
    finally:
        for engine in engines:
            engine.end()


LISTEN = """
import msgspec, sys, zmq
socket = zmq.Context().socket(zmq.SUB)
socket.connect(sys.argv[1])
socket.setsockopt(zmq.SUBSCRIBE, b"")
while True:
    report = msgspec.msgpack.decode(socket.recv_multipart()[2])
    print(report[5][4], report[7].get("of", 0), report[7].get("tok", 0), flush=True)
"""


def check_drafts(flags: argparse.Namespace, python: pathlib.Path, folder: str) -> None:
    """Of an engine that drafts tokens, what its reports say its steps gave is what its clients got."""
    work = pathlib.Path(folder)
    reports = f"tcp://127.0.0.1:{free_port()[0]}"
    engine = start_vllm(python, work, "drafts", reports=reports, drafts=3)
    heard = work / "heard"
    listener = None
    try:
        engine.wait_until_up(START_S)
        with open(heard, "w") as out:
            listener = subprocess.Popen([python, "-c", LISTEN, reports], stdout=out)
        eventually("its heart beats", lambda: heard.stat().st_size > 0)
        output = 0
        for i in range(3):
            answer = b.stream(engine.url, b.body_of(200, 50 + i, temperature=0))  # drawn by chance, hardly two in 600 are as drafted
            assert not answer.failed, answer.problem
            output += answer.usage["completion_tokens"]
        said = lambda: [[int(x) for x in line.split()] for line in heard.read_text().splitlines()]
        eventually("it says what the last step gave", lambda: sum(tokens for _, _, tokens in said()) >= output - 3)
        steps = sum(of for _, of, _ in said())
        tokens = sum(tokens for _, _, tokens in said())
        print(f"{output} tokens of 3 answers, {tokens} of them said to come from {steps} steps of a decoding request")
        assert sum(decoding for decoding, _, _ in said()) == steps, "each step of a decoding request is said once"
        assert output - 3 <= tokens <= output - 3 + 3 * 3, "all but the first of each; an end cuts off what was accepted beyond"
        assert tokens > steps, "no draft was accepted"
    finally:
        if listener is not None:
            listener.kill()
            listener.wait()
        engine.end()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    parser.add_argument("--engines", type=pathlib.Path, required=True, help="where engines are installed and kept")
    parser.add_argument("--plugin", type=pathlib.Path, required=True)
    parser.add_argument("--moment", choices=("start", "ended"), default="start", help="what its step reports are of")
    parser.add_argument("--pair", action="store_true")
    parser.add_argument("--drafts", action="store_true", help="one that drafts tokens")
    flags = parser.parse_args()
    flags.engines.mkdir(parents=True, exist_ok=True)
    try:
        python = vllm(flags.engines, flags.plugin)
    except Missing as why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    with a_node(flags.wattle) as (node, folder):
        if flags.drafts:
            check_drafts(flags, python, folder)
        elif flags.pair:
            check_pair(flags, python, node, folder)
        else:
            check_one(flags, python, node, folder, flags.moment)


if __name__ == "__main__":
    main()
