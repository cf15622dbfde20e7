"""Checks for every real engine behind the gateway, and for the gateway's results about it."""
import csv
import http.client
import json
import os
import pathlib
import subprocess
import threading
import time
from urllib.parse import urlsplit

from processes import PATIENCE_S, Processes, decisions_of, eventually, get, metric, post, requests_of


class Answer:
    """One streamed completion as a client sees it."""

    def __init__(self):
        self.status = 0
        self.events: list[str] = []
        self.problem = ""

    @property
    def chunks(self) -> list[dict]:
        return [json.loads(e) for e in self.events if e != "[DONE]"]

    @property
    def usage(self) -> dict:
        found = [c["usage"] for c in self.chunks if c.get("usage")]
        return found[-1] if found else {}

    @property
    def failed(self) -> bool:
        return any("error" in c for c in self.chunks) or "[DONE]" not in self.events


def body_of(tokens: int, prompt_tokens: int = 20, first: int = 0, **more) -> dict:
    """`first`: prompts that differ in it share no block of a prefix cache."""
    ids = [32 + (first + i) % 180 for i in range(prompt_tokens)]
    return {"model": "tiny", "prompt": ids, "max_tokens": tokens, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}, **more}


def stream(url: str, body: dict, stop_after: int = 0, seen=None, answer: Answer | None = None,
           connection: http.client.HTTPConnection | None = None) -> Answer:
    """`stop_after` events the client hangs up; `seen` is called with each."""
    answer = answer or Answer()
    place = urlsplit(url)
    connection = connection or http.client.HTTPConnection(place.hostname, place.port, timeout=120)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer.status = response.status
        if response.status != 200:
            answer.events.append(response.read().decode())
            return answer
        for line in response:
            text = line.decode().strip()
            if not text.startswith("data: "):
                continue
            answer.events.append(text[6:])
            if seen:
                seen(answer)
            if stop_after and len(answer.events) >= stop_after:
                connection.close()
                return answer
    except (OSError, http.client.HTTPException) as error:
        answer.problem = repr(error)
    return answer


def in_the_background(url: str, body: dict) -> tuple[threading.Thread, Answer]:
    answer = Answer()
    thread = threading.Thread(target=lambda: stream(url, body, answer=answer))
    thread.start()
    return thread, answer


class Stack:
    """Gateway and agent (virtual GPUs, one an engine) in front of real engines."""

    def __init__(self, node: Processes, folder: str, nvml: str, workers: list[str], engines: list[str], recipe: str,
                 ttft_ms: int = 2000, flags: tuple[str, ...] = ()):
        self.run = os.path.join(folder, "run")
        self.agent = None
        agent_flags: list[str] = []
        if engines:
            _, self.agent = node.start("agent", *[w for e in engines for w in ("--engine", e)], "--recipe", recipe,
                                       "--ttft-ms", str(ttft_ms), "--itl-ms", "200", "--nvml", nvml,
                                       "--state", os.path.join(folder, "state"))
            agent_flags = ["--agent", self.agent["admin"]]
        recipe_flags = ["--recipe", recipe] if recipe else []
        self.log = os.path.join(folder, "gateway.log")
        self.tee = subprocess.Popen(["tee", self.log], stdin=subprocess.PIPE)
        self.process, at = node.gateway("--model", "tiny",
                                        *[w for worker in workers for w in ("--worker", worker)], *recipe_flags,
                                        "--ttft-slo-ms", str(ttft_ms), "--itl-slo-ms", "200", *agent_flags, *flags, "--journal", self.run,
                                        log=self.tee.stdin.fileno())
        self.tee.stdin.close()  # the gateway's alone
        self.url, self.admin = at["url"], at["admin"]
        eventually("the gateway finds its engines", lambda: all(w["is_healthy"] for w in self.workers()))

    def workers(self) -> list[dict]:
        return json.loads(get(self.admin + "/workers"))["workers"]

    def fates(self) -> dict[str, int]:
        return {fate: int(metric(self.admin, "wattle_gateway_requests_total", f'fate="{fate}"'))
                for fate in ("finished", "rejected", "failed", "cancelled")}

    def idle(self) -> bool:
        return all(w["view"]["telemetry"] == "idle" for w in self.workers())

    def dropped(self) -> int:
        return int(metric(self.admin, "wattle_gateway_reports_dropped_total"))

    def settle(self) -> None:
        eventually("nothing is in flight", lambda: metric(self.admin, "wattle_gateway_inflight_requests") == 0)

    def stop(self) -> tuple[list[dict], list[dict]]:
        """Requests and decisions of its journal; no message of its was refused."""
        self.process.terminate()
        assert self.process.wait(PATIENCE_S) == 0
        assert self.tee.wait(PATIENCE_S) == 0
        assert "refuses this gateway's commands" not in pathlib.Path(self.log).read_text(), "its agent takes all its messages"
        return requests_of(self.run), decisions_of(self.run)


def complete_answers(stack: Stack, count: int, tokens: int = 24) -> None:
    """One after the other over a kept connection of ours: the gateway's to the engine go stale in between."""
    place = urlsplit(stack.url)
    ours = http.client.HTTPConnection(place.hostname, place.port, timeout=120)
    before = stack.fates()["finished"]
    for i in range(count):
        answer = stream(stack.url, body_of(tokens, 10 + i % 7), connection=ours)
        assert answer.status == 200 and not answer.failed, (i, answer.status, answer.problem, answer.events[-2:])
        assert answer.usage.get("completion_tokens") == tokens, (i, answer.usage)
    stack.settle()
    assert stack.fates()["finished"] == before + count, stack.fates()


def tokens_are_booked(stack: Stack) -> None:
    """Tokens equal the engine's own usage, whatever the texts of its tokens are."""
    answer = stream(stack.url, body_of(40, 33))
    assert not answer.failed and answer.usage, answer.events[-2:]
    stack.settle()
    wanted = {key: answer.usage[theirs] for key, theirs in (("output_tokens", "completion_tokens"),
                                                            ("prompt_tokens", "prompt_tokens"))}
    recent = lambda: json.loads(get(stack.admin + "/usage"))["recent"]  # once its energy is known, too
    eventually(f"one is booked with {wanted}", lambda: any(wanted.items() <= r.items() for r in recent()))


def load_is_known_by_its_header(stack: Stack) -> None:
    """Of a worker with load=orca: an answer as a whole brings its load, and no gauge is read."""
    body = {key: value for key, value in body_of(2).items() if not key.startswith("stream")}

    def known() -> bool:
        status, answer = post(stack.url + "/v1/completions", body)
        assert status == 200, answer
        gauges = stack.workers()[0]["view"].get("gauges", {})
        return gauges.keys() == {"age_ms", "waiting", "kv_share"}

    eventually("its load is known", known)


def a_client_that_leaves_frees_the_engine(stack: Stack, busy) -> None:
    """`busy()`: number of requests by the engine's own metrics."""
    before = stack.fates()["cancelled"]
    stream(stack.url, body_of(3000), stop_after=5)
    eventually("the engine is free again", lambda: busy() == 0)
    eventually("it is counted", lambda: stack.fates()["cancelled"] == before + 1)


def all_stream(running: list[tuple[threading.Thread, Answer]]) -> None:
    """However slow the engine is, for as long as their clients wait for it."""
    while not all(len(answer.events) > 10 for _, answer in running):
        for thread, answer in running:
            assert thread.is_alive(), ("it ended before the engine was killed", answer.status, answer.problem, answer.events[-2:])
        time.sleep(0.02)


def a_killed_engine_fails_each_request_once(stack: Stack, kill, streams: int = 3) -> None:
    before = stack.fates()
    running = [in_the_background(stack.url, body_of(3500, 10 + i)) for i in range(streams)]
    all_stream(running)
    kill()
    for thread, answer in running:
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "a client still waits for a dead engine"
        assert answer.failed, "a client got an answer that claims to be whole"
    stack.settle()
    after = stack.fates()
    assert after["failed"] == before["failed"] + streams, (before, after)
    assert after["finished"] == before["finished"], (before, after)


def profile(wattle: str, url: str, folder: pathlib.Path, *more: str) -> subprocess.CompletedProcess:
    return subprocess.run([wattle, "profile", "--url", url, "--clock-mhz", "1410", "--json", "--out",
                           str(folder / "profile.csv"), *more], capture_output=True, text=True, timeout=300)


def profiling_runs_to_its_end(wattle: str, url: str, folder: pathlib.Path, context: int, *more: str, tokens: int = 64) -> None:
    done = profile(wattle, url, folder, "--concurrency", "1,3", "--prompt", "32", "--output-tokens", str(tokens), "--prefill",
                   f"64,512,{2 * context}", "--context", str(context // 2), *more)
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.returncode
    said = json.loads(done.stdout)
    rows = list(csv.DictReader(line for line in open(folder / "profile.csv") if not line.startswith("#")))
    phases = {row["phase"] for row in rows}
    assert said["rows"] >= 4 and {"prefill", "decode"} <= phases, (said, phases)
    behind = {int(row["prompt_tokens"]): int(row["kv_tokens"]) for row in rows if row["phase"] == "prefill" and int(row["kv_tokens"]) > 64}
    print("computed tokens behind tokens in the prefix cache:", behind)
    assert len(behind) == 2 and all(abs(cached - context // 2) <= 64 for cached in behind.values()), behind
    assert any(str(2 * context) in note and str(context) in note for note in said["notes"]), "what does not fit is said"
    assert not any("http 4" in note or "http 5" in note for note in said["notes"]), said["notes"]


SMALL_REQUESTS = """
name = "small-requests"
llm = "llama-3.1-8b"
[workload]
rate_per_s = 8
requests = 200
prompt_mean = 100
prompt_std = 30
output_mean = 24
output_std = 4
[slo]
ttft_ms = 1000
tbt_ms = 250
[[fleet]]
role = "colocated"
count = 1
gpu = "a100-80g"
tensor_parallel = 1
"""


def loads_are_profiled(node: Processes, nvml: str, url: str, folder: pathlib.Path) -> dict[str, float]:
    """The clock and the power are the fake GPU's, loads and latencies the engine's. Returns the most load."""
    scenario, table = folder / "small-requests.toml", folder / "loads"
    scenario.write_text(SMALL_REQUESTS)
    done = subprocess.run([node.wattle, "profile", "--url", url, "--loads", str(scenario), "--gpu", "0", "--nvml", nvml, "--state",
                           str(folder / "locks"), "--clocks", "1410", "--load-s", "2", "--tolerance", "1.5", "--bends", "0", "--shares",
                           "0.5,1", "--out", str(table)], env=dict(node.env, WATTLE_CACHE="none"), stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    lines = table.read_text().split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith("class,"))
    rows = [{key: float(row[key]) for key in ("load_per_s", "ttft_ms", "tbt_ms")} for row in csv.DictReader(lines[first:])]
    within = [row for row in rows if row["ttft_ms"] <= 1000 and row["tbt_ms"] <= 250]
    assert len(within) >= 3 and within[0]["load_per_s"] == 0, rows
    assert all(row["ttft_ms"] > 0 and row["tbt_ms"] > 0 for row in rows), rows
    assert [row["load_per_s"] for row in within] == sorted({row["load_per_s"] for row in within}), rows
    return within[-1]


def profiling_shows_the_engines_words(wattle: str, url: str, folder: pathlib.Path, model: str, words: str) -> None:
    done = profile(wattle, url, folder, "--model", model, "--concurrency", "1", "--prompt", "32", "--output-tokens", "64",
                   "--prefill", "64")
    assert done.returncode != 0 and words in done.stderr, (done.returncode, done.stderr)
