"""Real llama.cpp behind the gateway: no step reports, another stream form than OpenAI's, connections it closes."""
import argparse
import json
import os
import pathlib
import signal
import sys

import behind_gateway as b
from processes import a_node, get, metric
from real_engines import CONTEXT, SKIPPED, Missing, llama_cpp, start_llama_cpp


def check(flags: argparse.Namespace, engine, node, folder: str) -> None:
    work = pathlib.Path(folder)
    # No step reports: the agent decides by the gateway's view of the streams.
    endpoint = "tcp://127.0.0.1:1"
    # So little time for a first token that no prompt is computed at the clock of an idle GPU: the clock has to change.
    stack = b.Stack(node, folder, flags.nvml, [f"{engine.url},fpm={endpoint}"], [f"{endpoint}=0"], "eco-freq", ttft_ms=5)
    b.complete_answers(stack, 60)
    print("60 answers one after the other, each whole, as many tokens as asked")
    (worker,) = stack.workers()
    assert worker["view"]["source"] == "streams", worker
    assert stack.dropped() == 0
    b.tokens_are_booked(stack)
    print("prompt and output tokens are booked as the engine counts them")
    b.a_client_that_leaves_frees_the_engine(
        stack, lambda: sum(s["is_processing"] for s in json.loads(get(engine.url + "/slots"))))
    print("a client that leaves frees its slot")
    # Tokens take a third of a millisecond each, so some arrive separately even on a busy machine.
    b.profiling_runs_to_its_end(flags.wattle, engine.url, work, CONTEXT, tokens=1024)
    print("wattle profile ran to its end")
    print("its loads are profiled; the most within the objectives:", b.loads_are_profiled(node, flags.nvml, engine.url, work))
    b.a_killed_engine_fails_each_request_once(stack, lambda: os.killpg(engine.process.pid, signal.SIGKILL))
    print("a killed engine fails each of its requests once:", stack.fates())
    assert metric(stack.agent["admin"], "wattle_agent_telemetry_silent_total") == 0
    requests, decisions = stack.stop()
    reasons = {d["reason"] for d in decisions if d["kind"] == "clock"}
    print("clocks are decided by its streams alone:", sorted(reasons))
    assert any("lost" not in reason and reason != "idle" for reason in reasons), reasons
    failed = [r for r in requests if r["fate"] == "failed"]
    assert len(failed) == 3, requests[-4:]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    parser.add_argument("--engines", type=pathlib.Path, required=True, help="where engines are installed and kept")
    flags = parser.parse_args()
    flags.engines.mkdir(parents=True, exist_ok=True)
    try:
        python = llama_cpp(flags.engines)
    except Missing as why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    with a_node(flags.wattle) as (node, folder):
        engine = start_llama_cpp(python, pathlib.Path(folder))
        try:
            check(flags, engine, node, folder)
        finally:
            engine.end()


if __name__ == "__main__":
    main()
