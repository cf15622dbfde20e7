"""profile -> fit -> predict, end to end on the mock engine: `wattle profile` over HTTP and the fake NVML at two clocks,
`wattle fit` on its file, and the belief against the mock's own step model at points that were not profiled. Then the
clocks: released when it is done, when it is interrupted, and when it is killed."""
import argparse
import csv
import json
import os
import signal
import subprocess

from lateness import repeat_when_late
from processes import a_node, eventually, metric

LIMIT = 0.05
CLOCKS = (1005, 1410)


def mean_step_ms(file: str, phase: str, requests: str) -> float:
    """Of the rows at 1410 MHz with 64-token (decode) or 1024-token (prefill) prompts."""
    lines = [line for line in open(file) if not line.startswith("#")]
    rows = [r for r in csv.DictReader(lines) if (r["phase"], r["requests"], r["clock_mhz"]) == (phase, requests, "1410")]
    rows = [r for r in rows if r["prompt_tokens"] == "1024" or 0 < int(r["kv_tokens"]) < 16 * 300]
    return sum(float(r["step_ms"]) for r in rows) / len(rows)


def measure(flags: argparse.Namespace) -> None:
    with a_node(flags.wattle) as (node, folder):
        _, at = node.start("mock-engine", "--gpus", "1", "--die-with-parent")
        profile, belief = os.path.join(folder, "profile.csv"), os.path.join(folder, "belief.csv")
        command = [flags.wattle, "profile", "--url", at["url"], "--gpu", "1", "--nvml", flags.nvml, "--state",
                   os.path.join(folder, "state"), "--clocks", ",".join(map(str, CLOCKS)), "--note",
                   "mock engine, a simulated A100", "--json"]
        grid = ["--concurrency", "1,16,64", "--prompt", "64,512", "--output-tokens", "128", "--prefill", "512,768,1024,2048,4096",
                "--context", "4096,10240"]
        done = subprocess.run([*command, *grid, "--out", profile], env=node.env, stdout=subprocess.PIPE, text=True)
        assert done.returncode == 0, done
        summary = json.loads(done.stdout)
        print(summary)
        # A starved test machine may lose a cell, with a note; the others must still predict.
        assert not summary["interrupted"] and summary["rows_with_power"] >= 0.8 * 2 * (1 + 5 + 4 + 5 + 3 * 2 * 4), summary
        clock = lambda: metric(at["url"], "wattle_mock_engine_clock_mhz")
        eventually("the clock is released when it is done", lambda: clock() == 1410)

        fit = subprocess.run([flags.wattle, "fit", profile, "--out", belief], stdout=subprocess.PIPE, text=True)
        print(fit.stdout)
        assert fit.returncode == 0, fit
        provenance = open(belief).read()
        assert "locked through NVML" in provenance and "simulated A100" in provenance and "wattle fit" in provenance
        truth = subprocess.run([flags.truth, belief, str(LIMIT), *map(str, CLOCKS)], stdout=subprocess.PIPE, text=True)
        print(truth.stdout)
        assert truth.returncode == 0, f"a prediction is off by more than {LIMIT:.0%}"

        # The engine's own telemetry agrees with the streams.
        reported = os.path.join(folder, "reported.csv")
        subprocess.run([flags.wattle, "profile", "--url", at["url"], "--clock-mhz", "1410", "--telemetry", at["fpm"],
                        "--concurrency", "16", "--prompt", "64", "--output-tokens", "128", "--prefill", "1024", "--out", reported],
                       env=node.env, check=True)
        for phase, requests in (("decode", "16"), ("prefill", "1")):
            streams, metrics = (mean_step_ms(f, phase, requests) for f in (profile, reported))
            print(f"{phase}: {streams:.3f} ms from streams, {metrics:.3f} ms from telemetry")
            assert abs(streams / metrics - 1) < LIMIT

        # VoltanaLLM's grid, its first cells: a batch of 8, and prompts at 10 requests/s.
        named = os.path.join(folder, "named.csv")
        subprocess.run([flags.wattle, "profile", "--url", at["url"], "--clock-mhz", "1410", "--grid", "voltanallm",
                        "--limit", "1", "--rate-s", "1", "--out", named], env=node.env, check=True)
        text = open(named).read()
        assert "\ndecode,1410,8,0," in text and text.count("\nprefill,1410,") >= 2, text
        assert subprocess.run([flags.wattle, "fit", named, "--out", belief]).returncode == 0

        # Ctrl-C and kill -9 in the middle of the first clock.
        for number in (signal.SIGINT, signal.SIGKILL):
            running = subprocess.Popen([*command, "--concurrency", "1", "--output-tokens", "20000", "--prompt", "64", "--prefill",
                                        "64", "--out", os.path.join(folder, "cut.csv")], env=node.env,
                                       stdout=subprocess.PIPE, text=True)
            node.running.append(running)
            eventually("it locks its first clock", lambda: clock() == CLOCKS[0])
            running.send_signal(number)
            running.wait(60)
            eventually(f"the clock is released after {number.name}", lambda: clock() == 1410)
            if number == signal.SIGINT:
                assert running.returncode == 1 and json.loads(running.stdout.read())["interrupted"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    parser.add_argument("--truth", required=True)
    flags = parser.parse_args()
    repeat_when_late(lambda: measure(flags))


if __name__ == "__main__":
    main()
