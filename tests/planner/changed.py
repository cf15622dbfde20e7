"""A planner that adopts engines and would start some of them otherwise: it replaces these one after the other, leaves the
rest alone, and ends engines on no slot of its own when they are empty. No request fails."""
import argparse
import json
import os
import signal
import subprocess

from planner import MODEL, Clients, free_endpoint, sending
from processes import Processes, eventually, get, scratch
from reshard import pids_left

SETS = ("fleet.0.count=2", "fleet.1.count=0", "fleet.2.count=0", "fleet.0.max_load_per_s=5", "fleet.1.max_load_per_s=10",
        "fleet.2.max_load_per_s=20", "scaling.period_s=0.5", "spawn.load_s=0.3", "spawn.warm_s=0.1")


class Bench:
    """A gateway, and one planner after the other for up to two engines of one GPU."""

    def __init__(self, wattle: str, folder: str):
        self.node = Processes(wattle, folder, gpus=4)
        _, at = self.node.gateway("--model", MODEL)
        self.url, self.admin = at["url"], at["admin"]
        self.state = os.path.join(folder, "state")
        self.log = os.path.join(folder, "log")
        self.words = ["planner", "throttllem-llama2-13b-autoscale", "--recipe", "static-max", "--gateway", self.admin, "--logs",
                      folder, "--state", self.state, "--drain-s", "20"]
        self.endpoints = [free_endpoint(folder), free_endpoint(folder)]
        self.process: subprocess.Popen | None = None
        self.fleet = ""

    def start(self, gpus: tuple[int, ...], *sets: str) -> None:
        """The next planner, with an engine on each of these GPUs."""
        words = [word for gpu, endpoint in zip(gpus, self.endpoints) for word in ("--slot", f"0={gpu}@{endpoint}")]
        merged = dict(key.split("=") for key in (*SETS, *sets))
        words += [word for key, value in merged.items() for word in ("--set", f"{key}={value}")]
        self.process, at = self.node.start(*self.words, *words, log=self.log)
        self.fleet = at["admin"] + "/fleet"

    def leave(self) -> None:
        assert self.process
        self.node.stop(self.process, signal.SIGKILL)

    def serving(self) -> dict[int, int]:
        """Processes by engine, of those that serve; nothing while others come or go."""
        engines = json.loads(get(self.fleet))["engines"]
        if any(e["phase"] != "serving" for e in engines):
            return {}
        return {e["engine"]: e["pid"] for e in engines}

    def replaced(self, which: dict[int, int], of: dict[int, int], why: str) -> dict[int, int]:
        """`which` are gone, and as many others serve beside the rest of `of`."""
        rest = {engine: pid for engine, pid in of.items() if engine not in which}
        now: dict[int, int] = {}

        def done() -> bool:
            now.clear()
            now.update(self.serving())
            return len(now) == len(of) and not which.keys() & now.keys() and rest.items() <= now.items()

        eventually(f"replaced: {why}", done, seen=lambda: get(self.fleet))
        with open(self.log, encoding="utf-8") as file:
            said = file.read()
        assert said.count("it is replaced") == len(which) and why in said, said
        return now

    def command(self, pid: int) -> list[str]:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
            return file.read().split("\0")


def changes(bench: Bench) -> None:
    bench.start((0, 1))
    first = bench.serving()
    assert len(first) == 2, first
    bench.leave()
    bench.start((0, 1), "spawn.load_s=0.2")
    assert bench.serving() == first, "nothing that matters to a running engine has changed"

    clients = Clients(bench.url)
    with sending(lambda: clients.send(60), lambda: 10):
        bench.leave()
        bench.start((0, 1), "engine.max_num_seqs=99")
        second = bench.replaced(first, first, "--max-num-seqs")
        for pid in second.values():
            words = bench.command(pid)
            assert words[words.index("--max-num-seqs") + 1] == "99", words

        bench.leave()
        bench.start((0, 3), "engine.max_num_seqs=99")  # the second slot is on another GPU
        moved = {engine: pid for engine, pid in second.items() if bench.endpoints[1] in bench.command(pid)}
        third = bench.replaced(moved, second, "--gpus 1 instead of 3")

        bench.leave()
        engine = min(third)
        note = os.path.join(bench.state, f"engine-{engine}.json")
        with open(note, encoding="utf-8") as file:
            said = json.load(file)
        with open(note, "w", encoding="utf-8") as file:
            json.dump({**said, "pool": 9999}, file)
        bench.start((0, 3), "engine.max_num_seqs=99")
        bench.replaced({engine: third[engine]}, third, "pool 9999 does not exist")
    assert clients.count(200) == clients.sent, clients.answers


def one_slot_fewer(bench: Bench) -> None:
    clients = Clients(bench.url)
    workers = lambda: json.loads(get(bench.admin + "/workers"))["workers"]
    for _ in range(4):
        clients.send(400)
    eventually("both have requests", lambda: [w["active_requests"] for w in workers()] == [2, 2], seen=workers)
    stays = {pid for pid in bench.serving().values() if bench.endpoints[0] in bench.command(pid)}
    bench.leave()
    bench.start((0,), "engine.max_num_seqs=99", "fleet.0.count=1")
    assert clients.count(200) == 4, f"it was ended before its requests were: {clients.answers}"
    eventually("only the other one is left", lambda: pids_left(bench.state) == stays and len(workers()) == 1, seen=workers)
    assert set(bench.serving().values()) == stays


def the_only_one(bench: Bench) -> None:
    before = bench.serving()
    bench.leave()
    clients = Clients(bench.url)
    with sending(clients.send, lambda: 5):
        bench.start((2,), "engine.max_num_seqs=99", "fleet.0.count=1")
        bench.replaced(before, before, "--gpus 0 instead of 2")
    assert clients.count(200) == clients.sent, f"new requests wait for it: {clients.answers}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    with scratch() as folder:
        bench = Bench(parser.parse_args().wattle, folder)
        try:
            changes(bench)
            one_slot_fewer(bench)
            the_only_one(bench)
        finally:
            bench.node.end(pids_left(bench.state) if os.path.isdir(bench.state) else ())
    print("engines that a planner would start otherwise were replaced, and every request was answered")


if __name__ == "__main__":
    main()
