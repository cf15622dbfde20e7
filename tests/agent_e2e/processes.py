"""Shared by the tests in Python: checks, HTTP, the journal, processes that print where they listen, polling instead of sleeping."""
import argparse
import contextlib
import csv
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from email.message import Message

# Time limit for events on a busy machine.
PATIENCE_S = float(os.environ.get("WATTLE_PATIENCE_S", 25))


def arguments() -> argparse.Namespace:
    """Arguments of a test that runs the program over virtual GPUs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    return parser.parse_args()


def check(condition: object, what: object, run: subprocess.CompletedProcess[str] | None = None) -> None:
    """Ends the test with this message, and with the output of `run`, unless the condition holds."""
    if not condition:
        ran = f"\n  {' '.join(run.args)}\n  exit {run.returncode}\n  {run.stdout}{run.stderr}" if run else ""
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {what}{ran}")


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        return answer.read().decode()


def post(url: str, body: dict | bytes, headers: dict[str, str] | None = None) -> tuple[int, dict]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    status, _, text = answer(url, "POST", {"Content-Type": "application/json", **(headers or {})}, data)
    return status, json.loads(text)


PAGE = {"Origin": "http://evil.example", "Content-Type": "text/plain"}  # a page of another origin
REBOUND = {"Host": "evil.example", "Accept-Language": "en"}  # DNS rebinding: a page whose host name resolves here


NESTED = b"[" * 1_000_000 + b"]" * 1_000_000  # overflows the stack of a program that reads it recursively


def answer(url: str, method: str = "GET", headers: dict[str, str] | None = None, body: bytes | None = None) -> tuple[int, Message, str]:
    """Status, header fields, body."""
    request = urllib.request.Request(url, body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as said:
            return said.status, said.headers, said.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def refused(status: int, url: str, method: str = "GET", **more) -> None:
    """Checks that the request is refused with a reason as JSON; 405 with the allowed methods."""
    got, fields, text = answer(url, method, **more)
    assert got != 405 or "GET" in fields["Allow"] or "POST" in fields["Allow"], (url, fields)
    kind = fields["Content-Type"]
    assert got == status and kind == "application/json" and json.loads(text)["error"]["message"], (method, url, got, kind, text)


def metric(url: str, name: str, label: str = "") -> float:
    for line in get(url + "/metrics").splitlines():
        if line.startswith(name) and line[len(name)] in "{ " and label in line:
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"{url} has no metric {name}")


def eventually(what: str, holds, within_s: float = PATIENCE_S, seen=None, every_s: float = 0.02) -> None:
    """Fails if `holds` does not become true in time. `seen`: describes the state for the message."""
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(every_s)
    raise AssertionError(f"never: {what}" + (f"; {seen()}" if seen else ""))


@contextlib.contextmanager
def scratch():
    """A folder in memory for one test. The guardian of a killed agent may still write there for a moment, so removing it is
    repeated until it is gone."""
    folder = tempfile.mkdtemp(dir="/dev/shm")

    def gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not os.path.exists(folder)

    try:
        yield folder
    finally:
        eventually(f"{folder} is gone", gone)


def state_of(pid: int) -> str:
    """The kernel's letter; empty: there is no such process."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    return ""


def stream_events(answer) -> Iterator[str]:
    """Yields "event" for each event with tokens of a streamed answer, then "done" or "error"."""
    for line in answer:
        if line.strip() == b"data: [DONE]":
            yield "done"
        elif line.startswith(b"data: "):
            if "error" in json.loads(line[6:]):
                yield "error"
                return
            yield "event"


def log_objects(file: str) -> list[dict]:
    """The lines of a log with --log-format json; each has time, level and message."""
    with open(file, encoding="utf-8") as lines:
        objects = [json.loads(line) for line in lines]
    assert all({"time", "level", "message"} <= set(one) for one in objects), objects
    return objects


def requests_of(run: str) -> list[dict[str, str]]:
    """The requests in the journal of a run directory."""
    with open(os.path.join(run, "requests.csv"), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def decisions_of(run: str) -> list[dict]:
    """The decisions in the journal of a run directory."""
    with open(os.path.join(run, "decisions.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


class Processes:
    """The processes of one test, on a board of virtual GPUs in its folder."""

    def __init__(self, wattle: str, folder: str, gpus: int = 2, clock_max: int = 1410):
        self.wattle = wattle
        self.env = dict(os.environ, WATTLE_FAKE_NVML=os.path.join(folder, "board") + f",count={gpus},clock_min=210,clock_max={clock_max}")
        self.running: list[subprocess.Popen] = []

    def start(self, *words: str, log: str | int | None = None) -> tuple[subprocess.Popen, dict]:
        """`log`: a file or descriptor for its stderr."""
        with open(log, "w", encoding="utf-8") if isinstance(log, str) else contextlib.nullcontext(log) as stderr:
            process = subprocess.Popen([self.wattle, *words, "--json"], env=self.env, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.running.append(process)
        line = process.stdout.readline()
        assert line, f"{words[0]} ended at once: {process.wait()}"
        return process, json.loads(line)

    def gateway(self, *words: str, **more) -> tuple[subprocess.Popen, dict]:
        return self.start("gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *words, **more)

    def engine(self, role: str, gpu: int) -> dict:
        """A mock engine on one GPU that ends with the test: where it listens."""
        return self.start("mock-engine", "--role", role, "--gpus", str(gpu), "--die-with-parent")[1]

    def stop(self, process: subprocess.Popen, how: signal.Signals = signal.SIGTERM) -> None:
        process.send_signal(how)
        process.wait(PATIENCE_S)
        self.running.remove(process)

    def end(self, engines: Iterable[int] = ()) -> None:
        """Kills what runs, and these engines, which outlive the planner that started them."""
        for process in self.running:
            if process.poll() is None:
                process.kill()
                process.wait()
        for pid in engines:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def a_node(wattle: str, gpus: int = 2):
    """Processes and their folder, for as long as one test; whatever still runs is killed."""
    with scratch() as folder:
        node = Processes(wattle, folder, gpus)
        try:
            yield node, folder
        finally:
            node.end()
