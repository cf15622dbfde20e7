"""A gateway that dies and restarts at the same address knows no engine, and ids are reused: the planner announces its engines
again. Its notes for its own successor are kept if a full disk prevents new ones."""
import argparse
import json
import os
import signal

from planner import MODEL, Clients, free_endpoint
from processes import Processes, eventually, get, scratch


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    flags = parser.parse_args()
    with scratch() as folder:
        node = Processes(flags.wattle, folder, gpus=1)
        state = os.path.join(folder, "state")
        pids: list[int] = []
        try:
            first, at = node.gateway("--model", MODEL)
            url, admin = at["url"], at["admin"]
            sets = [word for key in ("fleet.0.count=1", "fleet.1.count=0", "fleet.2.count=0", "scaling.period_s=0.5",
                                     "fleet.0.max_load_per_s=50", "fleet.1.max_load_per_s=100",
                                     "fleet.2.max_load_per_s=200") for word in ("--set", key)]
            _, at = node.start("planner", "throttllem-llama2-13b-autoscale", "--recipe", "triton-autoscale", "--gateway",
                               admin, "--slot", f"0=0@{free_endpoint(folder)}", *sets, "--logs", folder, "--state", state)
            engine = lambda: json.loads(get(at["admin"] + "/fleet"))["engines"][0]
            before = engine()
            pids.append(before["pid"])
            note = os.path.join(state, "engine-0.json")
            os.symlink("/dev/full", note + ".new")
            clients = Clients(url)
            clients.send()
            assert clients.count(200) == 1, clients.answers

            node.stop(first, signal.SIGKILL)
            # Worker 0 is another engine now.
            node.start("gateway", "--listen", url.removeprefix("http://"), "--admin", admin.removeprefix("http://"), "--model", MODEL,
                       "--worker", "http://127.0.0.1:9")
            ready = lambda: [w["status"] for w in json.loads(get(admin + "/workers"))["workers"]] == ["not_ready", "ready"]
            eventually("the new gateway has the engine", ready)
            clients.send()
            assert clients.count(200) == 2, clients.answers
            assert engine()["pid"] == before["pid"], "the engine served on; nobody started another"
            eventually("the next note was tried", lambda: not os.path.lexists(note + ".new"))
            assert not os.path.islink(note), "what was not written took its place"
            with open(note, encoding="utf-8") as file:
                assert json.load(file)["offered"], "as it was"
        finally:
            node.end(pids)


if __name__ == "__main__":
    main()
