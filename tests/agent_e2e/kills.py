"""kill -9 of the agent, of its guardian, of both, and of their container, at random moments, again and again: after each, the one that
is left (the guardian, the agent's own end, the next agent's start, or --unlock by an operator or the systemd unit's ExecStopPost) takes
every lock off. The container is a PID namespace whose first process is killed: the kernel kills all in it at once. And a second writer: another
program that sets the clock is overruled and reported; a second agent for the same GPU is turned away; --shadow sets nothing. And SIGSTOP: the guardian of an agent that
is stopped lets its GPUs go until it goes on, and an agent wakes a guardian that is stopped."""
import argparse
import ctypes
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

from processes import PAGE, PATIENCE_S, REBOUND, a_node, answer, eventually, get, metric, refused, state_of


def agent_words(fpm: str, nvml: str, folder: str, state: str = "state") -> list[str]:
    return ["agent", "--engine", f"{fpm}=0", "--recipe", "static-max", "--set", "frequency.clock_mhz=1005", "--nvml", nvml,
            "--state", os.path.join(folder, state)]


def namespaces_are_ours() -> bool:
    """May this process make a PID namespace? (In a child, since the caller would be left in it.)"""
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(0x20000000) == 0 else 1)  # CLONE_NEWPID
    return os.waitpid(child, 0)[1] == 0


def first_of(unshare: int) -> int:
    """The first process of the namespace that this `unshare --fork` has made."""
    return int(pathlib.Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()[0])


def kill_again_and_again(wattle: str, nvml: str, seconds: float, count: int, seed: int) -> None:
    """Runs for this time, or this often if `count` is not 0."""
    chance = random.Random(seed)
    counts = {"agent": 0, "guardian": 0, "both": 0}
    if namespaces_are_ours():
        counts["container"] = 0
    else:
        print("no PID namespace is to be had here: no container is killed")
    with a_node(wattle) as (node, folder):
        _, at = node.start("mock-engine", "--gpus", "0", "--die-with-parent")
        clock = lambda: metric(at["url"], "wattle_mock_engine_clock_mhz")
        words = agent_words(at["fpm"], nvml, folder)
        began = time.monotonic()
        while sum(counts.values()) < count if count else time.monotonic() < began + seconds:
            victim = chance.choice(list(counts))
            if victim == "container":
                node.wattle, wrapped = "unshare", ("--pid", "--fork", wattle)
                agent, said = node.start(*wrapped, *words)
                node.wattle = wattle
            else:
                agent, said = node.start(*words)
            if chance.random() < 0.7:
                eventually("its clock is locked", lambda: clock() == 1005)
            time.sleep(chance.random() * 0.05)
            if victim == "container":
                os.kill(first_of(agent.pid), signal.SIGKILL)
            elif victim != "agent":
                os.kill(said["guardian_pid"], signal.SIGKILL)
            if victim in ("agent", "both"):
                agent.kill()
            elif victim == "guardian":
                agent.terminate()
            agent.wait(PATIENCE_S)
            node.running.remove(agent)
            all_gone = victim in ("both", "container")
            if all_gone and chance.random() < 0.5:
                done = subprocess.run([wattle, "agent", "--unlock", "--nvml", nvml, "--state", os.path.join(folder, "state")],
                                      env=node.env, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
                assert done.returncode == 0, done
            elif all_gone:
                agent, _ = node.start(*words)  # takes the lock off and sets its own
                node.stop(agent)
                assert agent.returncode == 0, agent
            eventually(f"no clock is locked after kill -9 of {victim}", lambda: clock() == 1410)
            counts[victim] += 1
    print(f"{sum(counts.values())} kills in {time.monotonic() - began:.0f} s {counts}: 0 clocks left locked")


def another_writer(wattle: str, nvml: str) -> None:
    with a_node(wattle) as (node, folder):
        _, at = node.start("mock-engine", "--gpus", "0", "--die-with-parent")
        clock = lambda: metric(at["url"], "wattle_mock_engine_clock_mhz")
        _, shadow = node.start(*agent_words(at["fpm"], nvml, folder, "none"), "--shadow")
        _, agent = node.start(*agent_words(at["fpm"], nvml, folder))
        eventually("its clock is locked", lambda: clock() == 1005)
        assert shadow["guardian_pid"] == -1 and metric(shadow["admin"], "wattle_agent_advisory") == 1
        assert not os.path.exists(os.path.join(folder, "none")), "an advisory agent keeps no state"
        modes = "frequency.mode=shadow"  # as an ordinary user without write access
        _, shadow = node.start(*agent_words(at["fpm"], nvml, folder, "no/such/folder"), "--set", modes)
        assert shadow["guardian_pid"] == -1 and metric(shadow["admin"], "wattle_agent_advisory") == 1, shadow
        refused(404, shadow["admin"] + "/nope")
        for path, body in (("/budget", b'{"watts": 500}'), ("/clocks", b"{}"), ("/plan", b"{}")):
            refused(403, shadow["admin"] + path, "POST", headers=PAGE, body=body)
        for path in ("/metrics", "/engines", "/budget"):
            refused(403, shadow["admin"] + path, headers=REBOUND)
            assert answer(shadow["admin"] + path, headers={"Host": "wattle-agent:9100"})[0] == 200, path
        assert json.loads(get(shadow["admin"] + "/budget"))["watts"] is None

        turned_away = subprocess.run([node.wattle, *agent_words(at["fpm"], nvml, folder, "other")], env=node.env,
                                     capture_output=True, text=True, timeout=60)
        assert turned_away.returncode != 0 and "another agent of this machine" in turned_away.stderr, turned_away

        # Another tool sets the clock.
        other = subprocess.Popen([sys.executable, "-c", OTHER, nvml], env=node.env, stdin=subprocess.PIPE, text=True)
        node.running.append(other)
        mismatches = lambda: metric(agent["admin"], "wattle_agent_clock_mismatches_total")
        for times in range(1, 4):
            other.stdin.write("1410\n")
            other.stdin.flush()
            eventually(f"mismatch {times} is seen", lambda: mismatches() >= times)
            eventually("and the clock set again", lambda: clock() == 1005)
        eventually("the alarm is up", lambda: metric(agent["admin"], "wattle_agent_second_writer") == 1)
    print("another writer is overruled three times and reported; a second agent is turned away; --shadow sets nothing")


def stopped(wattle: str, nvml: str) -> None:
    with a_node(wattle) as (node, folder):
        _, at = node.start("mock-engine", "--gpus", "0", "--die-with-parent")
        clock = lambda: metric(at["url"], "wattle_mock_engine_clock_mhz")
        agent, said = node.start(*agent_words(at["fpm"], nvml, folder))
        eventually("its clock is locked", lambda: clock() == 1005)
        os.kill(agent.pid, signal.SIGSTOP)
        eventually("its guardian lets the GPU go", lambda: clock() == 1410)
        os.kill(agent.pid, signal.SIGCONT)
        eventually("it locks its clock again", lambda: clock() == 1005)
        guardian = said["guardian_pid"]
        os.kill(guardian, signal.SIGSTOP)
        time.sleep(0.1)  # a signal takes effect in its time
        eventually("the guardian is woken", lambda: state_of(guardian) not in ("", "T"))
        agent.kill()
        eventually("and does its work", lambda: clock() == 1410)
    print("the GPU of a stopped agent runs at its own clock; a stopped guardian is woken")


OTHER = """
import ctypes, sys
nvml = ctypes.CDLL(sys.argv[1])
assert nvml.nvmlInit_v2() == 0
device = ctypes.c_void_p()
assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
for line in sys.stdin:
    assert nvml.nvmlDeviceSetGpuLockedClocks(device, int(line), int(line)) == 0
"""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--count", type=int, default=0, help="kills, instead of --seconds")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    if not flags.nvml.startswith("amd-smi:"):  # AMD SMI does not say why a clock is lower
        another_writer(flags.wattle, flags.nvml)
    stopped(flags.wattle, flags.nvml)
    kill_again_and_again(flags.wattle, flags.nvml, flags.seconds, flags.count, flags.seed)


if __name__ == "__main__":
    main()
