"""Planners that restart: with --state engines serve on while a planner ends in order, is killed, finds its port taken or another
planner at work; the next one has the same engines. Without --state running requests end before their engine does. What a
page in a browser sends to a planner is refused, and errors are JSON."""
import argparse
import glob
import json
import os
import shutil
import signal
import socket
import subprocess

from planner import MODEL, Clients, free_endpoint
from processes import PAGE, PATIENCE_S, REBOUND, Processes, answer, eventually, get, post, refused, scratch
from reshard import pids_left


class Bench:
    """A gateway, and planners for one engine behind it."""

    def __init__(self, flags: argparse.Namespace, folder: str):
        self.flags = flags
        self.folder = folder
        self.node = Processes(flags.wattle, folder, gpus=4)
        _, at = self.node.gateway("--model", MODEL)
        self.url, self.admin = at["url"], at["admin"]
        self.state = os.path.join(folder, "new", "state")  # made by the planner
        self.words = ["planner", "throttllem-llama2-13b-autoscale", "--recipe", "static-max", "--gateway", self.admin, "--slot",
                      f"2=0,1,2,3@{free_endpoint(folder)}", "--logs", os.path.join(folder, "logs")]

    def start(self, *more: str, log: str | None = None) -> tuple[subprocess.Popen, str]:
        process, at = self.node.start(*self.words, *more, log=log)
        return process, at["admin"]

    def fails(self, *more: str) -> str:
        """The output of a planner that ends at once."""
        ran = subprocess.run([self.flags.wattle, *self.words, *more], env=self.node.env, capture_output=True, text=True,
                             timeout=PATIENCE_S)
        assert ran.returncode == 3, ran
        return ran.stderr

    def serves(self, what: str) -> None:
        clients = Clients(self.url)
        clients.send()
        assert clients.count(200) == 1, (what, clients.answers)


def engine_of(admin: str) -> int:
    engines = json.loads(get(admin + "/fleet"))["engines"]
    assert [e["phase"] for e in engines] == ["serving"], engines
    return engines[0]["pid"]


def with_state(bench: Bench) -> None:
    keep = ("--state", bench.state)
    disk_full = os.path.join(bench.state, "engine-0.json.new")  # nothing can be written where a folder is
    os.makedirs(os.path.join(disk_full, "full"))
    process, admin = bench.start(*keep)
    first = engine_of(admin)
    shutil.rmtree(disk_full)
    eventually("its note is written once that is possible", lambda: glob.glob(os.path.join(bench.state, "engine-*.json")))

    said = bench.fails(*keep)
    assert "another planner has the engines of this --state" in said and "lock" in said, said
    assert engine_of(admin) == first, "the second planner touched nothing"
    bench.serves("beside a second planner")

    bench.node.stop(process)
    assert process.returncode == 0 and pids_left(bench.state) == {first}, "a planner that ends in order leaves its engine"
    bench.serves("between two planners")
    note, = glob.glob(os.path.join(bench.state, "engine-*.json"))
    with open(note, encoding="utf-8") as file:
        said = json.load(file)
    with open(note, "w", encoding="utf-8") as file:  # as another version may have written it
        json.dump({**said, "weight": "much", "decode": 1.5, "warms": None}, file)
    plan = os.path.join(bench.state, "plan.json")
    with open(plan, "w", encoding="utf-8") as file:
        file.write('{"instances": 3}')
    log = os.path.join(bench.folder, "log")
    process, admin = bench.start(*keep, log=log)
    assert engine_of(admin) == first, "the next one has the same engine"
    with open(log, encoding="utf-8") as file:
        warnings = file.read()
    assert f"left out file={plan}" in warnings, warnings
    os.remove(plan)
    assert all(note in line for line in warnings.splitlines() if "key=" in line), warnings
    assert all(f"key={key}" in warnings for key in ("weight", "decode", "warms")), warnings

    bench.node.stop(process, signal.SIGKILL)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = bench.fails(*keep, "--admin", f"127.0.0.1:{taken.getsockname()[1]}")
        assert "in use" in said, said
    assert pids_left(bench.state) == {first}, "a planner whose port is taken touches no engine"
    bench.serves("after a planner that did not start")
    process, admin = bench.start(*keep)
    assert engine_of(admin) == first
    bench.node.stop(process)

    said = bench.fails("--state", os.path.join(bench.flags.wattle, "state"))
    assert "--state" in said and "cannot be made a folder" in said, said
    bench.words[-1] = os.path.join(bench.flags.wattle, "logs")
    said = bench.fails()
    assert "--logs" in said and "cannot be made a folder" in said, said

    os.kill(first, signal.SIGKILL)
    eventually("the engine is gone", lambda: not pids_left(bench.state))


def without_state(bench: Bench) -> None:
    process, admin = bench.start()
    for path, method in (("/nope", "GET"), ("/plan", "GET"), ("/fleet", "DELETE")):
        refused(404 if path == "/nope" else 405, admin + path, method)
    status, said = post(admin + "/plan", b"nope")
    assert status == 400 and said["error"]["message"], said
    refused(403, admin + "/plan", "POST", headers=PAGE, body=b'{"instances": [], "weights": [], "clocks": [], "steps": []}')
    refused(403, admin + "/fleet", headers=REBOUND)
    assert answer(admin + "/fleet", headers={"Host": "wattle-planner"})[0] == 200, "a program by a name"

    clients = Clients(bench.url)
    clients.send(200)
    running = lambda: sum(w["active_requests"] for w in json.loads(get(bench.admin + "/workers"))["workers"])
    eventually("a request runs", lambda: running() == 1)
    pid = engine_of(admin)
    bench.node.stop(process)
    assert clients.count(200) == 1, "it has its whole answer, though the planner was ended meanwhile"
    eventually("its engine has ended", lambda: not os.path.exists(f"/proc/{pid}"))

    process, admin = bench.start("--drain-s", "0.2")
    clients.send(3000)
    eventually("a long request runs", lambda: running() == 1)
    bench.node.stop(process)
    assert clients.count(200) == 1, "it was not waited for"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    flags = parser.parse_args()
    with scratch() as folder:
        for name, test in (("with", with_state), ("without", without_state)):
            os.mkdir(os.path.join(folder, name))
            bench = Bench(flags, os.path.join(folder, name))
            try:
                test(bench)
            finally:
                bench.node.end(pids_left(bench.state) if os.path.isdir(bench.state) else ())
    print("engines outlived planners, or their requests did")


if __name__ == "__main__":
    main()
