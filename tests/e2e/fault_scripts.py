"""Scripted faults on an emulated fleet in real time: engines killed, hung and slowed in each phase, the agent killed or stopped,
several at once, some before the first request, and some at random. In every script each request gets one answer and one fate, only
requests whose answer had begun fail if another engine can serve, the ledger adds up, and afterwards the fleet serves again."""
import argparse
import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable

from processes import Processes, eventually, get, scratch
from streams import Requests

MODEL = "llama-3.1-8b"
COLOCATED = ["colocated", "colocated"]
SPLIT = ["prefill", "prefill", "decode", "decode"]


class Fleet:
    """Engines, their agent and a gateway; engines restart on the same ports."""

    def __init__(self, wattle: str, nvml: str, folder: str, roles: list[str], *flags: str):
        self.node = Processes(wattle, folder, gpus=len(roles))
        self.roles, self.places, self.engines = roles, [], []
        for i, role in enumerate(roles):
            process, at = self.node.start("mock-engine", "--role", role, "--gpus", str(i))
            self.engines.append(process)
            self.places.append(at)
        words = [w for i, at in enumerate(self.places) for w in ("--engine", f"{at['fpm']}={i}@{roles[i]}")]
        self.agent_words = ["agent", *words, "--recipe", "static-max", "--gpu", "a100-80g", "--llm", MODEL, "--nvml", nvml, "--state",
                            os.path.join(folder, "locks"), "--admin"]
        self.agent, agent = self.node.start(*self.agent_words, "127.0.0.1:0")
        self.agent_at = agent["admin"]
        workers = [w for i, at in enumerate(self.places) for w in ("--worker", f"{at['url']}={roles[i]},fpm={at['fpm']}")]
        _, at = self.node.gateway("--model", MODEL, "--recipe", "static-max",
                                  "--gpu", "a100-80g", "--llm", MODEL, "--agent", self.agent_at, "--unready-wait-s", "20", *workers, *flags)
        self.admin = at["admin"]
        self.clients = Requests(at["url"], MODEL)

    def kill(self, i: int) -> None:
        self.engines[i].kill()
        self.engines[i].wait()

    def restart(self, i: int) -> None:
        place = self.places[i]
        self.engines[i], _ = self.node.start("mock-engine", "--role", self.roles[i], "--gpus", str(i), "--listen",
                                             place["url"].removeprefix("http://"), "--fpm", place["fpm"])

    def signal(self, i: int, what: signal.Signals) -> None:
        self.engines[i].send_signal(what)

    def restart_agent(self) -> None:
        self.agent, _ = self.node.start(*self.agent_words, self.agent_at.removeprefix("http://"))

    def send(self, count: int, tokens: int = 60, prompt: int = 200) -> None:
        for i in range(count):
            self.clients.send(tokens, prompt, stream=i % 2 == 0)

    def ends(self) -> None:
        self.node.end()


def counts(fleet: Fleet) -> dict:
    page = {line.split(" ")[0]: float(line.rsplit(" ", 1)[1]) for line in get(fleet.admin + "/metrics").splitlines() if line[0] != "#"}
    fates = {fate: page[f'wattle_gateway_requests_total{{fate="{fate}"}}'] for fate in ("finished", "rejected", "failed", "cancelled")}
    return {"arrived": page["wattle_gateway_requests_arrived_total"], **fates}


def killed_in_prefill(f: Fleet) -> None:
    f.send(8, prompt=30_000)  # seconds of prompt
    time.sleep(0.3)
    f.kill(0)


def killed_in_decode(f: Fleet) -> None:
    f.send(8, tokens=400)
    eventually("streams have begun", lambda: f.clients.begun >= 3)
    f.kill(2)


def killed_while_streaming(f: Fleet) -> None:
    for _ in range(8):
        f.clients.send(400, 200)
    eventually("all streams have begun", lambda: f.clients.begun == 8)
    f.kill(0)
    f.clients.settle()
    whole = [events for _, events, end in f.clients.answers if end == "done"]
    assert 0 < len(whole) < 8 and min(whole) >= 400, f"those of one engine are cut, the others complete: {f.clients.answers}"


def killed_between_the_legs(f: Fleet) -> None:
    f.send(10, prompt=8_000)
    f.kill(3)  # prefill ends, and one of the two that could go on is gone
    time.sleep(0.2)
    f.kill(0)


def all_decode_dies_and_comes_back(f: Fleet) -> None:
    f.kill(2), f.kill(3)
    f.send(6)
    time.sleep(1)
    f.restart(2)


def hangs_for_a_while(f: Fleet) -> None:
    f.signal(0, signal.SIGSTOP)
    f.send(8)
    time.sleep(7)
    f.signal(0, signal.SIGCONT)


def hangs_and_is_killed(f: Fleet) -> None:
    f.send(6, tokens=200)
    f.signal(1, signal.SIGSTOP)
    f.send(6)
    time.sleep(1)
    f.kill(1)


def slow(f: Fleet) -> None:
    f.send(8, tokens=100)
    for _ in range(10):
        f.signal(0, signal.SIGSTOP)
        time.sleep(0.15)
        f.signal(0, signal.SIGCONT)
        time.sleep(0.05)


def agent_killed(f: Fleet) -> None:
    f.send(6, tokens=200)
    f.agent.kill()
    f.agent.wait()
    f.send(6)
    time.sleep(0.5)
    f.restart_agent()
    f.send(2)


def agent_stopped(f: Fleet) -> None:
    f.agent.send_signal(signal.SIGSTOP)  # no meter, no clock
    f.send(6)
    time.sleep(6)
    f.agent.send_signal(signal.SIGCONT)


def everything_at_once_before_the_first_request(f: Fleet) -> None:
    f.kill(0)
    f.signal(1, signal.SIGSTOP)
    f.agent.kill()
    f.agent.wait()
    f.send(6)
    time.sleep(1)
    f.signal(1, signal.SIGCONT)
    f.restart_agent()
    f.restart(0)


def killed_again_as_it_comes_back(f: Fleet) -> None:
    for _ in range(3):
        f.kill(0), f.kill(1)
        f.send(3)
        f.restart(0), f.restart(1)
        time.sleep(0.4)


def anything(seed: int) -> Callable[[Fleet], None]:
    """Engines and the agent killed, stopped and restarted at random by the seed, under load."""
    def script(f: Fleet) -> None:
        chance = random.Random(seed)
        away: dict[int, str] = {}
        agent = "runs"

        def back(i: int, how: str) -> None:
            f.restart(i) if how == "kill" else f.signal(i, signal.SIGCONT)

        def agent_back() -> None:
            f.restart_agent() if agent == "killed" else f.agent.send_signal(signal.SIGCONT)

        for _ in range(30):
            f.send(chance.randrange(3), tokens=chance.choice((5, 60, 200)), prompt=chance.choice((10, 2_000, 12_000)))
            i, what = chance.randrange(len(f.roles)), chance.choice(("kill", "stop", "back", "agent", "nothing"))
            if what in ("kill", "stop") and i not in away and len(away) < 2:
                f.kill(i) if what == "kill" else f.signal(i, signal.SIGSTOP)
                away[i] = what
            elif what == "back" and away:
                back(*away.popitem())
            elif what == "agent" and agent != "runs":
                agent_back()
                agent = "runs"
            elif what == "agent":
                agent = chance.choice(("killed", "stopped"))
                f.agent.send_signal(signal.SIGKILL if agent == "killed" else signal.SIGSTOP)
                if agent == "killed":
                    f.agent.wait()
            time.sleep(chance.random() * 0.6)
        for i, how in away.items():
            back(i, how)
        if agent != "runs":
            agent_back()

    script.__name__ = f"anything_{seed}"
    return script


# Script, fleet, and how many requests may fail before their first token: those that lost two engines.
SCRIPTS: list[tuple[Callable[[Fleet], None], list[str], int]] = [
    (killed_while_streaming, COLOCATED, 0), (killed_in_prefill, SPLIT, 0), (killed_in_decode, SPLIT, 0), (killed_between_the_legs, SPLIT, 10),
    (all_decode_dies_and_comes_back, SPLIT, 0), (hangs_for_a_while, COLOCATED, 0), (hangs_and_is_killed, COLOCATED, 0),
    (slow, COLOCATED, 0), (agent_killed, COLOCATED, 0), (agent_stopped, COLOCATED, 0),
    (everything_at_once_before_the_first_request, COLOCATED, 0), (killed_again_as_it_comes_back, COLOCATED, 9),
    (anything(1), SPLIT, 60), (anything(2), COLOCATED, 60)]


def run(wattle: str, nvml: str, script: Callable[[Fleet], None], roles: list[str], may_fail: int) -> None:
    with scratch() as folder:
        fleet = Fleet(wattle, nvml, folder, roles)
        try:
            eventually("all are ready", lambda: [w["status"] for w in json.loads(get(fleet.admin + "/workers"))["workers"]] == ["ready"] * len(roles))
            script(fleet)
            fleet.clients.settle()
            bad = [answer for answer in fleet.clients.answers if answer[2] != "done"]
            begun = [answer for answer in bad if answer[1] > 0]
            assert len(fleet.clients.answers) == len(fleet.clients.threads), "each has one answer"
            assert all(stream and end == "error" for stream, _, end in begun), bad
            assert len(bad) - len(begun) <= may_fail and all(end in ("502", "503", "504") for _, events, end in bad if events == 0), bad
            sent = len(fleet.clients.threads)
            eventually("each has one fate", lambda: counts(fleet)["arrived"] == sent == sum(counts(fleet).values()) - sent)
            assert counts(fleet)["finished"] == sent - len(bad), (counts(fleet), bad)
            eventually("it serves again", lambda: get(fleet.clients.url + "/health") != "")
            fleet.send(4, tokens=5)
            fleet.clients.settle()
            assert [end for _, _, end in fleet.clients.answers[sent:]] == ["done"] * 4, fleet.clients.answers[sent:]
            used = json.loads(get(fleet.admin + "/usage"))
            parts, total = used["energy_j"], used["energy_j"]["total"]
            assert abs(sum(parts[p] for p in ("prefill", "decode", "idle", "residue")) - total) <= 1e-6 * max(total, 1), parts
            print(f"{script.__name__}: {sent} requests, {len(begun)} streams ended with an error, {len(bad) - len(begun)} others failed")
        finally:
            with contextlib.suppress(ProcessLookupError):
                for engine in fleet.engines:
                    engine.send_signal(signal.SIGCONT)
            fleet.ends()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    parser.add_argument("--only", help="one script, by its name")
    flags = parser.parse_args()
    for script, roles, may_fail in SCRIPTS:
        if flags.only in (None, script.__name__):
            run(flags.wattle, flags.nvml, script, roles, may_fail)


if __name__ == "__main__":
    main()
