"""Ctrl-C: the requests sent so far are measured and reported; streams end within --drain-s, or at the second signal, in `wattle
replay`, `up` and `gateway` alike. `up` refuses bad input before it measures anything, and removes folders of killed runs."""
import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

from processes import eventually

PATIENCE_S = 60
STREAM_TOKENS = 4000  # longer than any patience here


class Programs:
    def __init__(self, wattle: str, folder: str):
        self.wattle, self.folder, self.running = wattle, folder, []
        self.env = {**os.environ, "TMPDIR": folder, "WATTLE_CACHE": f"{folder}/cache",
                    "WATTLE_FAKE_NVML": f"{folder}/board,count=2,name=a100-80g"}

    def start(self, *words: str) -> subprocess.Popen:
        self.running.append(subprocess.Popen([self.wattle, *words], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return self.running[-1]

    def end(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.kill()
            process.communicate()


def in_flight(admin: str) -> float:
    with urllib.request.urlopen(admin + "/metrics", timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("wattle_gateway_inflight_requests "))


def replays_and_gateway(programs: Programs) -> None:
    engine = json.loads(programs.start("mock-engine", "--json", "--gpus", "0").stdout.readline())
    gateway = programs.start("gateway", "--json", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--model", "llama-3.1-8b",
                             "--worker", engine["url"], "--drain-s", "86400")
    at = json.loads(gateway.stdout.readline())
    trace = pathlib.Path(programs.folder) / "trace.csv"
    # Two short answers, three long ones, and one in an hour; both short ones are over when three are in flight.
    rows = [(40, 2), (40, 2), *((46, STREAM_TOKENS),) * 3]
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" +
                     "".join(f"2023-11-16 18:15:{s}.{n}000000,10,{tokens}\n" for n, (s, tokens) in enumerate(rows)) +
                     "2023-11-16 19:15:46.0000000,10,5\n")

    def replay(*more: str) -> subprocess.Popen:
        process = programs.start("replay", str(trace), "--url", at["url"], "--model", "llama-3.1-8b", "--max-output-tokens",
                                 str(STREAM_TOKENS), "--e2e-slo-ms", "60000", *more)
        eventually("the long ones run", lambda: in_flight(at["admin"]) == 3)
        return process

    drained = replay("--json", "--drain-s", "0")
    drained.send_signal(signal.SIGINT)
    out, error = drained.communicate(timeout=PATIENCE_S)
    said = json.loads(out)
    assert drained.returncode == 0 and said["interrupted"] is True, (out, error)
    assert {key: said["requests"][key] for key in ("arrived", "finished", "cancelled", "failed")} == \
        {"arrived": 5, "finished": 2, "cancelled": 3, "failed": 0}, said
    assert said["slo"]["e2e_attainment"] == 0.4 and said["failures"] == {"interrupted": 3}, said
    eventually("the engine is rid of them", lambda: in_flight(at["admin"]) == 0)

    twice = replay("--drain-s", "86400")
    twice.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert twice.poll() is None, "it drains"
    twice.send_signal(signal.SIGTERM)
    out, error = twice.communicate(timeout=PATIENCE_S)
    assert twice.returncode == 0 and "cancelled 3" in out, (out, error)
    assert "note: interrupted after 6.4 s of the trace; 3 requests were cut off" in out, out
    eventually("the engine is rid of them", lambda: in_flight(at["admin"]) == 0)

    # The gateway: the first signal would wait for a day.
    client = replay("--json")
    gateway.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert gateway.poll() is None, "it drains"
    gateway.send_signal(signal.SIGTERM)
    gateway.communicate(timeout=PATIENCE_S)
    assert gateway.returncode == 0, gateway.returncode
    client.send_signal(signal.SIGINT)
    said = json.loads(client.communicate(timeout=PATIENCE_S)[0])
    assert said["requests"]["failed"] == 3 and said["requests"]["finished"] == 2, said


def ups(programs: Programs) -> None:
    folder = pathlib.Path(programs.folder)
    scenario = folder / "long.toml"
    scenario.write_text(f"""
name = "long"
llm = "llama-3.1-8b"
[workload]
rate_per_s = 4
requests = 1000
prompt_mean = 100
output_mean = {STREAM_TOKENS}
max_output_tokens = {STREAM_TOKENS}
[slo]
ttft_ms = 1000
[[fleet]]
gpu = "a100-80g"
count = 2
""")
    free = ("--port", "0", "--admin-port", "0")

    def folders() -> list[str]:
        return [name for name in os.listdir(folder) if name.startswith("wattle-up-")]

    def until(second: int, *more: str) -> subprocess.Popen:
        up = programs.start("up", "--config", str(scenario), "--recipe", "static-max", *free, *more)
        for line in up.stdout:
            if line.strip().startswith(f"{second}s "):
                return up
        raise AssertionError(up.stderr.read())

    killed = until(1)
    killed.kill()
    killed.communicate()
    left = folders()
    assert len(left) == 1, left

    out_folder = folder / "run"
    up = until(3, "--drain-s", "86400", "-o", str(out_folder))
    assert len(folders()) == 1 and folders() != left, (left, folders())
    up.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert up.poll() is None, "it drains"
    up.send_signal(signal.SIGTERM)
    said, error = up.communicate(timeout=PATIENCE_S)
    assert up.returncode == 0 and "note: interrupted after" in said and "were cut off" in said, (up.returncode, said, error)
    assert "no saving is stated" in said and not folders(), (said, folders())
    assert json.loads((out_folder / "run.json").read_text())["summary"]["requests"]["arrived"] > 0

    # A load profile would be measured first and kept in the cache.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for words, why in ((("--set", "fleet.0.count=1000", *free), "at most 512 GPUs"), (("--port", port, "--admin-port", "0"), port)):
            refused = programs.start("up", "--config", "azure-conv-8", "--recipe", "multi-pool", *words)
            _, error = refused.communicate(timeout=PATIENCE_S)
            assert refused.returncode in (2, 3) and why in error, error
            assert not (folder / "cache").exists(), "it has measured first"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(flags.wattle, folder)
        try:
            replays_and_gateway(programs)
            ups(programs)
        finally:
            programs.end()
    print("ended by a signal: what was sent is said, and nothing waits longer than it is asked to")


if __name__ == "__main__":
    main()
