"""Plans by POST /plan with real processes: one engine of four GPUs becomes two of two under load and back; a planner that is
killed, also during a re-shard, leaves its engines serving, and the next one continues with them. Every request is answered."""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
import urllib.request

from planner import MODEL, Clients, free_endpoint
from processes import PATIENCE_S, Processes, eventually, get, scratch, state_of


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    flags = parser.parse_args()
    with scratch() as folder:
        node = Processes(flags.wattle, folder, gpus=4)
        state = os.path.join(folder, "state")
        os.mkdir(state)
        engines: set[int] = set()
        try:
            _, at = node.gateway("--model", MODEL)
            url, admin = at["url"], at["admin"]
            slots = [word for slot in (f"2=0,1,2,3@{free_endpoint(folder)}", f"1=0,1@{free_endpoint(folder)}",
                                       f"1=2,3@{free_endpoint(folder)}") for word in ("--slot", slot)]
            sets = [word for key in ("fleet.0.count=0", "fleet.1.count=0", "fleet.2.count=1", "reshard.sync_s=2",
                                     "fleet.0.max_load_per_s=5", "fleet.1.max_load_per_s=10",
                                     "fleet.2.max_load_per_s=20", "scaling.period_s=0.5") for word in ("--set", key)]

            def planner() -> tuple[subprocess.Popen, str]:
                process, at = node.start("planner", "throttllem-llama2-13b-autoscale", "--recipe", "static-max",
                                         "--gateway", admin, *slots, *sets, "--logs", folder, "--state", state)
                return process, at["admin"]

            process, at = planner()

            def phases() -> list:
                all_of = json.loads(get(at + "/fleet"))["engines"]
                engines.update(e["pid"] for e in all_of if e["pid"] > 0)
                return sorted((e["fleet"], e["phase"]) for e in all_of)

            def post(plan: dict) -> None:
                request = urllib.request.Request(at + "/plan", json.dumps(plan).encode())
                with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                    assert answer.status == 202, answer.read()

            pids = lambda: {e["pid"] for e in json.loads(get(at + "/fleet"))["engines"]}
            ids = lambda: [e["engine"] for e in json.loads(get(at + "/fleet"))["engines"]]
            clients = Clients(url)
            over = threading.Event()

            def load() -> None:
                while not over.is_set():
                    clients.send()
                    time.sleep(0.1)

            sender = threading.Thread(target=load)
            sender.start()
            try:
                assert phases() == [(2, "serving")], phases()
                split = {"instances": [{"shape": 1, "count": 2}],
                         "steps": [{"kind": "reshard", "from": ids(), "to": [1, 1], "serves_on": True}]}
                post(split)
                eventually("the old one serves while they load",
                           lambda: phases() == [(1, "spawning"), (1, "spawning"), (2, "serving")])
                eventually("two of two GPUs serve", lambda: phases() == [(1, "serving"), (1, "serving")])

                two = pids()
                node.stop(process, signal.SIGKILL)
                answered = len(clients.answers)
                eventually("requests are answered while no planner lives", lambda: len(clients.answers) > answered + 5)
                process, at = planner()
                assert phases() == [(1, "serving"), (1, "serving")] and pids() == two, "the same engines, none started"

                join = {"instances": [{"shape": 2, "count": 1}],
                        "steps": [{"kind": "reshard", "from": ids(), "to": [2], "serves_on": True}]}
                post(join)
                eventually("the new one loads", lambda: (2, "spawning") in phases())
                node.stop(process, signal.SIGKILL)
                three = pids_left(state)
                process, at = planner()
                eventually("what began is finished by the next planner", lambda: phases() == [(2, "serving")])
                assert pids() <= three, "nothing was started again"
            finally:
                over.set()
                sender.join()
            assert clients.count(200) == clients.sent, clients.answers
            left = pids_left(state)
            node.stop(process)
            assert left and pids_left(state) == left, "a planner that ends in order leaves its engines, too"
        finally:
            node.end(engines | pids_left(state))


def pids_left(state: str) -> set[int]:
    """Engines that run, by their output at the start: on a busy machine a moment after the planner reports them."""
    found = set()
    for name in os.listdir(state):
        if name.endswith(".pid"):
            path = pathlib.Path(state, name)
            eventually(f"{name} is written", lambda: path.read_text(encoding="ascii") != "")
            pid = int(path.read_text(encoding="ascii"))
            if state_of(pid) not in ("", "Z", "X"):
                found.add(pid)
    return found


if __name__ == "__main__":
    main()
