"""An agent without permission to set clocks, next to Zeus' daemon that has it (a stand-in: zeusd_stand_in.py). Both forms of its
API; refusals; locks that are released after kill -9 of the agent, and of both when the next agent starts or --unlock runs."""
import contextlib
import os
import signal
import subprocess
import sys

from processes import PATIENCE_S, a_node, arguments, eventually, metric

HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    flags = arguments()
    with a_node(flags.wattle) as (node, folder):
        socket = os.path.join(folder, "zeusd.sock")
        state = os.path.join(folder, "state")
        _, engine = node.start("mock-engine", "--gpus", "1", "--die-with-parent")
        clock = lambda: metric(engine["url"], "wattle_mock_engine_clock_mhz")
        daemon_env = dict(node.env)
        # The agent's own NVML lets nothing be set, as without root; the daemon's does.
        node.env["WATTLE_FAKE_NVML_FAULTS"] = "set=4,reset=4"
        words = ["agent", "--engine", f"{engine['fpm']}=1", "--recipe", "static-max", "--set", "frequency.clock_mhz=600",
                 "--nvml", flags.nvml, "--state", state]

        @contextlib.contextmanager
        def daemon(*more: str):
            process = subprocess.Popen([sys.executable, os.path.join(HERE, "zeusd_stand_in.py"), flags.nvml, socket, *more],
                                       env=daemon_env, stdout=subprocess.PIPE, text=True)
            node.running.append(process)
            assert process.stdout.readline() == "ready\n"
            yield process
            node.stop(process, signal.SIGKILL)

        def refused(what: str) -> None:
            done = subprocess.run([node.wattle, *words, "--zeusd", socket], env=node.env, capture_output=True, text=True, timeout=60)
            assert done.returncode == 3 and what in done.stderr, (what, done)

        alone, at = node.start(*words)
        eventually("alone it may only look", lambda: metric(at["admin"], "wattle_agent_gpu_read_only") == 1)
        node.stop(alone)
        refused("does not answer")
        for form in ("path", "query"):
            with daemon("--form", form):
                agent, at = node.start(*words, "--zeusd", socket)
                eventually(f"the daemon sets it ({form})", lambda: clock() == 600)
                assert metric(at["admin"], "wattle_agent_gpu_controlled") == 1
                node.stop(agent, signal.SIGKILL)
                eventually("the guardian has the daemon take it off", lambda: clock() == 1410)

                agent, at = node.start(*words, "--zeusd", socket)
                eventually("locked again", lambda: clock() == 600)
                os.kill(at["guardian_pid"], signal.SIGKILL)
                node.stop(agent, signal.SIGKILL)
                assert clock() == 600, "nobody was left to take it off"
                done = subprocess.run([node.wattle, "agent", "--unlock", "--nvml", flags.nvml, "--zeusd", socket, "--state", state],
                                      env=node.env, capture_output=True, text=True, timeout=PATIENCE_S)
                assert done.returncode == 0 and "unlocked" in done.stdout, done
                eventually("an operator takes it off", lambda: clock() == 1410)

                agent, at = node.start(*words, "--zeusd", socket)
                eventually("locked once more", lambda: clock() == 600)
                node.stop(agent)
                eventually("and off by itself", lambda: clock() == 1410)
        with daemon("--groups", "gpu-read"):
            refused("its API group gpu-control")
        with daemon("--gpus", "3"):
            refused("has 3 GPUs, NVML shows 2 here")
        with daemon("--token", "secret"):
            refused("ZEUSD_TOKEN")
            node.env["ZEUSD_TOKEN"] = "secret"
            agent, at = node.start(*words, "--zeusd", socket)
            eventually("with the token it may", lambda: clock() == 600)
            node.stop(agent)
            del node.env["ZEUSD_TOKEN"]
        for code, failure in ((4, "forbidden"), (3, "absent"), (15, "gone")):
            with daemon("--refuse", str(code)):
                agent, at = node.start(*words, "--zeusd", socket)
                eventually(f"the daemon's NVML says {failure}", lambda: metric(
                    at["admin"], "wattle_agent_clock_set_failures_total", f'class="{failure}"') >= 1)
                assert metric(at["admin"], "wattle_agent_gpu_controlled") == 0
                node.stop(agent, signal.SIGKILL)
        with daemon() as process:  # away for a moment: tried again
            agent, at = node.start(*words, "--zeusd", socket)
            eventually("locked", lambda: clock() == 600)
            node.stop(process, signal.SIGKILL)
            node.running.append(process)
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(PATIENCE_S) == 3, "it says that a clock stays locked"
        with daemon():
            eventually("the guardian has waited for the daemon", lambda: clock() == 1410)
    print("both forms of zeusd's API (a stand-in) set and restore clocks; what it does not allow is said")


if __name__ == "__main__":
    main()
