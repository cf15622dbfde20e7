"""GPUs whose clocks cannot be locked: --power-caps limits their power instead, and the limit is restored after any kill; GPUs
without either are only observed, and metrics say so. Also the host's power, from a powercap tree of the test."""
import argparse
import os
import pathlib
import signal
import subprocess

from processes import PATIENCE_S, a_node, eventually, get, metric


def a_powercap_tree(folder: str) -> pathlib.Path:
    zone = pathlib.Path(folder, "powercap", "intel-rapl:0")
    zone.mkdir(parents=True)
    for name, text in (("name", "package-0"), ("max_energy_range_uj", "262143328850"), ("energy_uj", "0")):
        (zone / name).write_text(text + "\n")
    return zone


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    parser.add_argument("--old-nvml", required=True, help="that has no call to lock clocks")
    flags = parser.parse_args()
    with a_node(flags.wattle) as (node, folder):
        state = pathlib.Path(folder, "state")
        zone = a_powercap_tree(folder)
        fpm = node.start("mock-engine", "--gpus", "0", "--die-with-parent")[1]["fpm"]

        def an_agent(nvml: str, *more: str, faults: str = "") -> tuple[subprocess.Popen, dict]:
            node.env["WATTLE_FAKE_NVML_FAULTS"] = faults
            return node.start("agent", "--engine", f"{fpm}=0", "--recipe", "static-max", "--set", "frequency.clock_mhz=705",
                              "--nvml", nvml, "--state", str(state), "--rapl", str(zone.parent), *more)

        def is_capped(at: dict) -> None:  # 705 of 1,410 MHz: half of the way from 100 to 400 W
            eventually("its power is limited", lambda: metric(at["admin"], "wattle_agent_gpu_power_cap_watts") == 250)
            assert metric(at["admin"], "wattle_agent_gpu_read_only") == 0
            assert "power_limit_mw=400000" in state.read_text(), state.read_text()

        agent, at = an_agent(flags.old_nvml, "--power-caps")
        is_capped(at)
        counted = [0]

        def the_host_is_counted() -> bool:
            counted[0] += 5_000_000
            draft = zone / "draft"
            draft.write_text(f"{counted[0]}\n")
            draft.rename(zone / "energy_uj")
            return metric(at["admin"], "wattle_agent_host_energy_joules_total") > 0

        eventually("the host's energy grows", the_host_is_counted)
        assert metric(at["admin"], "wattle_agent_host_power_watts", 'domain="package-0"') > 0

        node.stop(agent, signal.SIGKILL)
        eventually("the guardian sets the limit back", lambda: "power_limit" not in state.read_text())
        agent, at = an_agent(flags.old_nvml, "--power-caps")
        is_capped(at)  # the limit before was the device's again
        os.kill(at["guardian_pid"], signal.SIGKILL)
        node.stop(agent, signal.SIGKILL)
        assert "power_limit_mw=400000" in state.read_text()
        done = subprocess.run([node.wattle, "agent", "--unlock", "--nvml", flags.old_nvml, "--state", str(state)], env=node.env,
                              capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 0 and "unlocked" in done.stdout, done
        assert "power_limit" not in state.read_text()
        print("power is limited where clocks cannot be locked, and the limit comes back after kill -9 of either and of both")

        for faults, failure in (("set=3", "absent"), ("set=4", "forbidden"), ("mig=1", "")):
            agent, at = an_agent(flags.nvml, faults=faults)
            eventually("it is only observed", lambda: metric(at["admin"], "wattle_agent_gpu_read_only") == 1)
            assert metric(at["admin"], "wattle_agent_gpu_controlled") == 0
            failures = [line for line in get(at["admin"] + "/metrics").splitlines()
                        if line.startswith("wattle_agent_clock_set_failures_total{") and not line.endswith(" 0")]
            assert [f'class="{failure}"' in line for line in failures] == [True] * bool(failure), failures
            agent.terminate()
            assert agent.wait(PATIENCE_S) == 0
        print("no permission, no such call, MIG: read-only, and metrics say which")


if __name__ == "__main__":
    main()
