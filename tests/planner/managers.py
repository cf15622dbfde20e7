"""DynamoLLM's managers over real processes: an instance manager beside each engine (the agent), pool managers, a cluster
manager, in one process with the fleet's executor or each in its own. Under load a pool grows by a node and shrinks again
and another one is re-sharded; each manager is killed -9 in turn and takes its work up again from what it observes. Every
request is answered."""
import argparse
import contextlib
import json
import os
import signal
import subprocess
import threading
import time

from planner import Clients, free_endpoint
from processes import PAGE, PATIENCE_S, Processes, eventually, get, post, refused, scratch

MODEL = "llama-2-13b"
SHORT, LONG = 30, 300  # prompt tokens on both sides of the border
SCENARIO = f"""
name = "two-pools"
llm = "{MODEL}"
[workload]
synthetic = "azure-conv"
max_output_tokens = 300
[engine]
gpu_memory_utilization = 0.95
[classes]
prompt_below = [200]
[slo]
ttft_ms = 300
tbt_ms = 22
[spawn]
load_s = 0.5
warm_s = 0.1
[reshard]
sync_s = 0.5
[[fleet]]
role = "colocated"
count = 1
gpu = "h100"
tensor_parallel = 2
max_load_per_s = 5
[[fleet]]
role = "colocated"
count = 0
gpu = "h100"
tensor_parallel = 1
max_load_per_s = 5
"""
# Epochs of seconds in half hours' stead; nodes start at once.
QUICK = ["scaling.rule=up", "scaling.nodes=3", "scaling.epoch_s=8", "scaling.pool_epoch_s=2", "scaling.period_s=0.5",
         "scaling.slot_s=2", "scaling.vm_s=0", "scaling.gpu_init_s=0", "scaling.weights_s=0", "scaling.engine_s=0",
         "scaling.install_s=0.5", "scaling.subset=1", "scaling.pool_margin=0"]
BUSY_PER_S = 11.0  # a node of two GPUs carries 8.2 long requests a second, one GPU 2.1


class Load:
    """Short requests at one a second, long ones at `rate`, until the end."""

    def __init__(self, clients: Clients):
        self.clients = clients
        self.rate = 1.0
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.send, args=(SHORT, lambda: 1.0)),
                        threading.Thread(target=self.send, args=(LONG, lambda: self.rate))]
        for thread in self.threads:
            thread.start()

    def send(self, prompt: int, rate) -> None:
        due = time.monotonic()
        while not self.over.is_set():
            self.clients.send(8, prompt)
            due = max(due + 1 / rate(), time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))

    def end(self) -> None:
        self.over.set()
        for thread in self.threads:
            thread.join()


class Fleet:
    def __init__(self, flags: argparse.Namespace, folder: str, apart: bool):
        self.apart = apart
        self.node = Processes(flags.wattle, folder, gpus=6, clock_max=1980)
        self.node.env["WATTLE_CACHE"] = os.path.join(folder, "cache")
        self.folder = folder
        self.flags = flags
        self.state = os.path.join(folder, "state")
        os.mkdir(self.state)
        self.scenario = os.path.join(folder, "two-pools.toml")
        with open(self.scenario, "w", encoding="utf-8") as file:
            file.write(SCENARIO)
        self.pids: set[int] = set()
        self.running: dict[str, tuple[subprocess.Popen, str]] = {}
        self.words: dict[str, list[str]] = {}

    def start(self, name: str, *words: str) -> str:
        """The same again on the same port, if it ran before."""
        if words:
            self.words[name] = list(words)
        at = self.running[name][1].removeprefix("http://") if name in self.running else "127.0.0.1:0"
        process, said = self.node.start(*self.words[name], "--admin", at)
        self.running[name] = (process, said["admin"])
        return said["admin"]

    def kill(self, name: str) -> None:
        self.node.stop(self.running[name][0], signal.SIGKILL)

    def begin(self) -> str:
        subprocess.run([self.flags.wattle, "profile", "--simulated", self.scenario, "--out",
                        os.path.join(self.folder, "loads")], env=self.node.env, check=True, capture_output=True,
                       timeout=PATIENCE_S)
        # On each node of two GPUs one engine of both, or two of one.
        slots, engines = [], []
        for n in range(3):
            gpus = [str(2 * n), str(2 * n + 1)]
            for shape, some in ((0, gpus), (1, gpus[:1]), (1, gpus[1:])):
                fpm = free_endpoint(self.folder)
                slots += ["--slot", f"{shape}={','.join(some)}@{fpm},node={n}"]
                engines += ["--engine", f"{fpm}={','.join(some)}"]
        agent = self.start("agent", "agent", *engines, "--slots", "--recipe", "dynamollm", "--scenario", self.scenario, "--gpu", "h100",
                           "--llm", MODEL, "--set", "frequency.epoch_s=1", "--nvml", self.flags.nvml, "--state",
                           os.path.join(self.folder, "locks"))
        _, gateway = self.node.gateway("--model", MODEL,
                                       "--scenario", self.scenario, "--recipe", "dynamollm", "--gpu", "h100", "--llm", MODEL,
                                       "--gpu-memory-utilization", "0.95", "--agent", agent)
        self.gateway = gateway["admin"]
        sets = [word for key in QUICK for word in ("--set", key)]
        common = ["planner", self.scenario, "--recipe", "dynamollm", *sets]
        managers = []
        if self.apart:
            above = self.start("cluster", *common, "--level", "cluster")
            for pool in ("0", "1"):
                managers += ["--manager", self.start(f"pool {pool}", *common, "--level", "pool", "--pools", pool, "--above", above)]
        self.start("fleet", *common, "--gateway", self.gateway, *slots, *managers, "--logs", self.folder, "--state", self.state)
        return gateway["url"]

    def fleet(self) -> dict:
        said = json.loads(get(self.running["fleet"][1] + "/fleet"))
        self.pids.update(e["pid"] for e in said["engines"] if e["pid"] > 0)
        return said

    def serving(self) -> list:
        """(pool, GPUs) of the engines, if all of them serve."""
        engines = self.fleet()["engines"]
        return sorted((e["pool"], len(e["gpus"])) for e in engines if e["phase"] == "serving") \
            if all(e["phase"] == "serving" for e in engines) else []

    def pool(self, pool: int) -> int:
        """GPUs of its engines that serve."""
        return sum(len(e["gpus"]) for e in self.fleet()["engines"] if e["pool"] == pool and e["phase"] == "serving")

    def end(self) -> None:
        self.node.end(self.pids)


def check_levels(fleet: Fleet) -> None:
    """What each level was given and passed on can be seen."""
    plan = fleet.fleet()["newest_plan"]["plan"]
    assert plan["sound"], plan
    pools = {level["pool"]: level["given"] for level in plan["levels"] if level["name"] == "pool"}
    passed = {m["pool"]: m for level in plan["levels"] if level["name"] == "cluster" for m in level["passed"]}
    assert set(pools) == {0, 1} == set(passed) and all(pools[p]["gpus"] == passed[p]["gpus"] > 0 for p in pools), plan


def check_errors(admin: str) -> None:
    """A manager's state as JSON; and requests from a page in a browser."""
    refused(404, admin + "/nope")
    refused(405, admin + "/observe")
    refused(403, admin + "/observe", "POST", headers=PAGE, body=b"{}")
    status, said = post(admin + "/observe", b"{}")
    assert status == 400 and said["error"]["message"], said


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    parser.add_argument("--apart", action="store_true", help="each manager in a process of its own")
    flags = parser.parse_args()
    with scratch() as folder:
        fleet = Fleet(flags, folder, flags.apart)
        load = None
        try:
            url = fleet.begin()
            first = sorted((e["pool"], len(e["gpus"])) for e in fleet.fleet()["engines"])
            assert first == [(0, 2), (1, 2)], "as the first plan says: a node each, for the workload's busiest minute"
            clients = Clients(url, MODEL)
            load = Load(clients)
            # One GPU carries so little at less power than two.
            eventually("pools have another layout", lambda: fleet.serving() == [(0, 1), (1, 1)])
            check_levels(fleet)
            for name in ["cluster", "pool 0"] if flags.apart else []:
                check_errors(fleet.running[name][1])
            agent = lambda: json.loads(get(fleet.running["agent"][1] + "/engines"))["engines"]
            low = lambda: any(e.get("pool") == 1 and 0 < e["clock_mhz"] < 1980 for e in agent())
            eventually("the instance manager has lowered a clock", low)

            for _ in range(3):
                load.rate = BUSY_PER_S
                eventually("the large pool has grown by a node", lambda: fleet.pool(1) >= 4)
                load.rate = 1.0
                eventually("and shrunk", lambda: fleet.serving() == [(0, 1), (1, 1)])
                # Unless the cluster manager was there first, and took the whole node.
                if any(step["kind"] == "reshard" and step["reason"] == "done" for step in fleet.fleet()["steps"]):
                    break
            else:
                raise AssertionError("never: an engine of two GPUs is re-sharded into one of one")

            for name in [*(["cluster", "pool 0", "pool 1"] if flags.apart else []), "agent", "fleet"]:
                eventually("nothing changes", lambda: fleet.serving() != [])
                before = fleet.fleet()["engines"]
                fleet.kill(name)
                answered = len(clients.answers)
                eventually(f"requests are answered without {name}", lambda: len(clients.answers) > answered + 6)
                fleet.start(name)
                if name == "fleet":  # no engine is started or ended while it is away
                    after = fleet.fleet()["engines"]
                    assert {(e["pid"], e["pool"]) for e in before} == {(e["pid"], e["pool"]) for e in after}, (before, after)
                answered = len(clients.answers)
                eventually(f"and with it again ({name})", lambda: len(clients.answers) > answered + 6)
                time.sleep(3)  # some epochs: small loads may be planned differently, but no pool loses its last instance or takes a second node
                eventually("pools are as they were", lambda: fleet.serving() in (
                    [(0, 1), (1, 1)], [(0, 1), (1, 2)], [(0, 2), (1, 1)], [(0, 2), (1, 2)]))
            eventually("the instance manager has lowered a clock again", low)

            # All that were killed work: the cluster manager grows the pool, its manager and the executor follow.
            load.rate = BUSY_PER_S
            eventually("the large pool has grown again", lambda: fleet.pool(1) >= 4)
            if flags.apart:
                fleet.kill("cluster")  # in the midst of an epoch, and of what that began
                fleet.start("cluster")
            load.rate = 1.0
            eventually("and shrunk again", lambda: fleet.serving() == [(0, 1), (1, 1)])
            check_levels(fleet)
            load.end()
            load = None
            assert clients.count(200) == clients.sent, clients.answers
            process = fleet.running["fleet"][0]
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
            fleet.node.running.remove(process)
        except AssertionError:
            said = {"fleet": "it does not answer"}
            with contextlib.suppress(OSError):
                said = fleet.fleet()
            print(json.dumps(said if "plan" not in said else {"plan": said["plan"], "newest": said.get("newest_plan"), "engines": said["engines"],
                              "steps": said["steps"][-5:], "gateway": json.loads(get(fleet.gateway + "/plan"))}, indent=1))
            raise
        finally:
            if load is not None:
                load.end()
            fleet.end()


if __name__ == "__main__":
    main()
