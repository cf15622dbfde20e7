"""The planner with real processes: an engine starts while another serves, takes over, and the old one drains before it ends;
engines killed while they load, warm up, serve or drain are replaced; every request is answered once; the power of an engine that
loads is booked."""
import contextlib
import csv
import json
import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid

from processes import PATIENCE_S, Processes, arguments, decisions_of, eventually, get, metric, scratch

MODEL = "llama-2-13b"
UNUSED_MW = 52000  # power of a virtual GPU without an engine


def free_endpoint(folder: str) -> str:
    """Not a TCP port: a free one may become the local end of another connection before the engine binds it."""
    return f"ipc://{folder}/fpm-{uuid.uuid4().hex[:8]}"


@contextlib.contextmanager
def sending(send, per_s):
    """Calls `send` at the rate of per_s(), which may change, until the block ends."""
    over = threading.Event()

    def load() -> None:
        while not over.is_set():
            send()
            over.wait(1 / per_s())

    sender = threading.Thread(target=load)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()


def pools_serving(planner: str, gateway: str, request_class: int, pids: set[int]) -> tuple[set, set]:
    """Pools that serve, and those that weights send requests of a class to. Notes the engines' processes."""
    engines = json.loads(get(planner + "/fleet"))["engines"]
    pids.update(e["pid"] for e in engines if e["pid"] > 0)
    weights = json.loads(get(gateway + "/plan"))["weights"]
    return ({e["pool"] for e in engines if e["phase"] == "serving"},
            {w["pool"] for w in weights if w["class"] == request_class and w["weight"] > 0})


class Clients:
    """Requests at a rate until stopped; what became of each."""

    def __init__(self, url: str, model: str = MODEL):
        self.url = url
        self.model = model
        self.lock = threading.Lock()
        self.sent = 0
        self.answers: list[int] = []
        self.threads: list[threading.Thread] = []

    def one(self, tokens: int, prompt_tokens: int, fields: dict[str, str]) -> None:
        body = json.dumps({"model": self.model, "prompt": [7] * prompt_tokens, "max_tokens": tokens,
                           "ignore_eos": True}).encode()
        request = urllib.request.Request(self.url + "/v1/completions", body, {"Content-Type": "application/json", **fields})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                reported = json.loads(answer.read())
                status = 200 if reported["usage"]["completion_tokens"] == tokens else -1
        except urllib.error.HTTPError as error:
            status = error.code
        with self.lock:
            self.answers.append(status)

    def send(self, tokens: int = 20, prompt_tokens: int = 2, **fields: str) -> None:
        """`fields`: of the header, with _ for -."""
        self.sent += 1
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        self.threads.append(threading.Thread(target=self.one, args=(tokens, prompt_tokens, named)))
        self.threads[-1].start()

    def until(self, what: str, holds, rate: float, tokens: int = 20) -> None:
        """Sends requests of so many tokens at this rate until `holds`."""
        def still_sends() -> bool:
            if holds():
                return True
            self.send(tokens)
            return False

        eventually(what, still_sends, every_s=1 / rate)

    def count(self, status: int) -> int:
        for thread in self.threads:
            thread.join()
        return self.answers.count(status)


def check_journal(folder: str, expected: list) -> None:
    """`expected`: (phase, reason) in order, as far as the planner reported it; it may have gone on since."""
    records = decisions_of(folder)
    with open(os.path.join(folder, "run.json"), encoding="utf-8") as file:
        run = json.load(file)
    phases = [r for r in records if r["kind"] == "phase"]
    names = ["spawning", "warming", "serving", "draining", "gone"]
    reported = [(names[r["value"]], r["reason"]) for r in phases]
    assert reported[:len(expected)] == expected, (reported, expected)
    times = [r["at_ns"] for r in phases]
    assert times == sorted(times), times
    assert any(r["kind"] == "scaling" and r["value"] == 1 for r in records), "a plan for the one-GPU engine"
    size = {i["id"]: i["tensor_parallel"] for i in run["facts"]["instances"]}
    assert {r["instance"] for r in phases} == set(size), (phases, size)
    assert size[0] == 4 and size[1] == 1, "the first, and the one that replaced it"
    assert [names[r["value"]] for r in phases if r["instance"] == 1][:3] == ["spawning", "warming", "serving"]
    came, served = (next(r["at_ns"] for r in phases if r["instance"] == 1 and names[r["value"]] == name) / 1e9
                    for name in ("spawning", "serving"))
    with open(os.path.join(folder, "timeseries.csv"), encoding="utf-8") as file:
        drawn = [float(row["power_w"]) for row in csv.DictReader(file)
                 if row["instance_id"] == "1" and came < float(row["time_s"]) < served]
    # The first sample may precede the process.
    assert drawn and min(drawn) >= UNUSED_MW / 1000, f"its GPU draws power all the while, and it is in the ledger: {drawn}"
    assert max(drawn) > UNUSED_MW / 1000, f"one that loads draws more than an unused GPU: {drawn}"
    assert 0 < run["summary"]["mean_gpus"] < 7, run["summary"]["mean_gpus"]


def main() -> None:
    flags = arguments()
    with scratch() as folder:
        node = Processes(flags.wattle, folder, gpus=7)
        try:
            fpm = [free_endpoint(folder) for _ in range(3)]
            gpus = ["0", "1,2", "3,4,5,6"]
            agent = [word for place, which in zip(fpm, gpus) for word in ("--engine", f"{place}={which}")]
            _, agent_at = node.start("agent", *agent, "--recipe", "idle-parking", "--gpu", "a100-40g", "--llm", MODEL,
                                     "--nvml", flags.nvml, "--state", os.path.join(folder, "locks"))
            journal = os.path.join(folder, "run")
            gateway, at = node.gateway("--model", MODEL, "--journal", journal, "--agent", agent_at["admin"])
            url, admin = at["url"], at["admin"]
            slots = [word for i in range(3) for word in ("--slot", f"{i}={gpus[i]}@{fpm[i]}")]
            sets = [word for key in ("spawn.load_s=1.5", "spawn.warm_s=0.6", "scaling.period_s=0.5", "scaling.grace_s=1",
                                     "fleet.0.max_load_per_s=5", "fleet.1.max_load_per_s=1000",
                                     "fleet.2.max_load_per_s=2000") for word in ("--set", key)]
            planner, at = node.start("planner", "throttllem-llama2-13b-autoscale", "--recipe", "triton-autoscale",
                                     "--gateway", admin, *slots, *sets, "--logs", folder)
            fleet = lambda: json.loads(get(at["admin"] + "/fleet"))
            serving = lambda: [e["fleet"] for e in fleet()["engines"] if e["phase"] == "serving"]
            alone = lambda which: [(e["fleet"], e["phase"]) for e in fleet()["engines"]] == [(which, "serving")]
            pid_of = lambda which, phase: next((e["pid"] for e in fleet()["engines"]
                                                if e["fleet"] == which and e["phase"] == phase), None)
            assert serving() == [2], "it begins with what the scenario says"
            clients = Clients(url)

            # Hardly any load: down to the one-GPU engine, without a gap.
            clients.send(400)  # runs on the old one while it drains
            clients.until("the small engine is started", lambda: any(e["url"] for e in fleet()["engines"]
                                                                     if e["phase"] == "spawning"), rate=2)
            loading = next(e for e in fleet()["engines"] if e["phase"] == "spawning")
            try:
                get(loading["url"] + "/health")
                raise AssertionError("an engine that loads is not healthy")
            except urllib.error.HTTPError as error:
                assert error.code == 503, error
            power_of = lambda slot: json.loads(get(agent_at["admin"] + "/engines"))["engines"][slot]["power_mw"]
            eventually("an engine that loads draws more than a GPU that nobody uses", lambda: power_of(0) > UNUSED_MW)
            assert any(e["phase"] == "spawning" for e in fleet()["engines"]), "it still loads"
            clients.until("the small engine serves alone", lambda: alone(0), rate=2)
            reported = [(p["fleet"], p["phase"]) for p in fleet()["phases"]]
            assert reported == [(2, "serving"), (0, "spawning"), (0, "warming"), (0, "serving"), (2, "draining"), (2, "gone")], reported
            assert clients.count(200) == clients.sent, clients.answers
            eventually("the large engine's GPUs are free", lambda: metric(admin, "wattle_gateway_requests_arrived_total") > 0
                       and json.loads(get(agent_at["admin"] + "/engines"))["engines"][2]["power_mw"] == 4 * UNUSED_MW)

            # Load: up, and the one that is starting is killed first.
            clients.until("a larger engine starts", lambda: pid_of(1, "spawning"), rate=20)
            os.kill(pid_of(1, "spawning"), signal.SIGKILL)
            clients.until("its death is noticed", lambda: any(p["phase"] == "gone" and p["fleet"] == 1
                                                              for p in fleet()["phases"]), rate=20)
            assert 0 in serving(), "the old one serves on"
            clients.until("it is started again", lambda: pid_of(1, "warming"), rate=20)
            os.kill(pid_of(1, "warming"), signal.SIGKILL)
            died = lambda: [p["fleet"] for p in fleet()["phases"] if p["reason"] == "it died"]
            clients.until("that is noticed, too", lambda: died() == [1, 1], rate=20)
            assert 0 in serving(), "the old one serves on"
            assert clients.count(200) == clients.sent, "nobody noticed"

            # It takes over, and the old one is killed while it drains: its requests are answered by the new one.
            clients.until("it is started once more", lambda: pid_of(1, "warming"), rate=20)
            clients.until("the old one drains", lambda: pid_of(0, "draining"), rate=20, tokens=400)
            os.kill(pid_of(0, "draining"), signal.SIGKILL)
            held = list(clients.threads)
            clients.until("the new one serves alone", lambda: alone(1), rate=20)
            assert died() == [1, 1, 0], fleet()["phases"]
            clients.until("and has answered it", lambda: not any(one.is_alive() for one in held), rate=20)
            retried = metric(admin, "wattle_gateway_retries_total")
            assert retried >= 1 and set(clients.answers) == {200}, ("it held some", retried, clients.answers)

            # The serving engine is killed: its requests wait up to 5 s for another one, which is started.
            killed = pid_of(1, "serving")
            for _ in range(5):
                clients.send(400)
            time.sleep(0.2)
            os.kill(killed, signal.SIGKILL)
            clients.until("there is another", lambda: alone(1) and pid_of(1, "serving") != killed, rate=20)
            clients.until("which answers", lambda: clients.answers[-3:] == [200, 200, 200], rate=20)
            assert clients.count(200) + clients.count(503) == len(clients.answers) == clients.sent, clients.answers
            assert metric(admin, "wattle_gateway_retries_total") > retried
            assert metric(admin, "wattle_gateway_requests_arrived_total") == clients.sent, "none is counted twice"

            # Only present processes count, and the gateway's journal has all of it, like a simulator's.
            eventually("no old subscription is left", lambda: metric(admin, "wattle_gateway_report_sources") ==
                       len(fleet()["engines"]))
            expected = [(p["phase"], p["reason"]) for p in fleet()["phases"]]
            for process in (planner, gateway):
                process.send_signal(signal.SIGTERM)
                process.wait(PATIENCE_S)
            check_journal(journal, expected)
        finally:
            for process in node.running:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
            deadline = time.monotonic() + 20
            for process in node.running:
                try:
                    process.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    pass
            node.end()


if __name__ == "__main__":
    main()
