"""A load profile of a live engine: `wattle profile --loads` against a mock engine at two clocks in real time, over HTTP and
the fake NVML. The table is published, read back as the planners read it, and compared with the one that the simulator makes
of the same scenario: power rises with load and clock, and the most load within the objectives is about the same. What cannot be measured
is refused."""
import argparse
import csv
import json
import os
import subprocess

from lateness import repeat_when_late
from processes import a_node

CLOCKS = (810, 1410)
# Of p99 over 1,500 requests in the simulator, and of the slowest of some 30 here, searched to a fifth.
MOST_LOAD_WITHIN = 0.35
SCENARIO = """
name = "one-class"
llm = "llama-3.1-8b"
[workload]
rate_per_s = 8
requests = 400
prompt_mean = 400
prompt_std = 60
output_mean = 24
output_std = 4
[slo]
ttft_ms = 300
tbt_ms = 40
[[fleet]]
role = "colocated"
count = 1
gpu = "a100-80g"
tensor_parallel = 1
"""


def loads(file: str) -> dict[int, list[dict[str, float]]]:
    """By clock: the loads, ascending, with their power and latencies."""
    lines = open(file).read().split("\n")
    first = next(i for i, line in enumerate(lines) if "load_per_s" in line.split(","))
    made: dict[int, list[dict[str, float]]] = {}
    for row in csv.DictReader(lines[first:]):
        point = {key: float(row[key]) for key in ("load_per_s", "power_w", "ttft_ms", "tbt_ms")}
        made.setdefault(int(row["clock_mhz"]), []).append(point)
    return made


def most_load(points: list[dict[str, float]]) -> float:
    return max(p["load_per_s"] for p in points if p["ttft_ms"] <= 300 and p["tbt_ms"] <= 40)


def refused(command: list[str], env: dict[str, str], what: str) -> None:
    done = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True)
    assert done.returncode != 0 and what in done.stderr, (command, done)


def measure(flags: argparse.Namespace) -> None:
    with a_node(flags.wattle) as (node, folder):
        env = dict(node.env, WATTLE_CACHE="none")
        scenario, shared = os.path.join(folder, "one-class.toml"), os.path.join(folder, "shared")
        with open(scenario, "w") as file:
            file.write(SCENARIO)
        _, at = node.start("mock-engine", "--gpus", "1", "--die-with-parent")
        live, simulated, again = (os.path.join(folder, name) for name in ("live", "simulated", "again"))
        command = [flags.wattle, "profile", "--url", at["url"], "--loads", scenario, "--nvml", flags.nvml, "--state",
                   os.path.join(folder, "state"), "--out", live]
        refused(command, env, "--gpu")
        refused([*command, "--gpu", "1", "--tp", "2"], env, "--tp")
        refused([*command, "--gpu", "1", "--merge", scenario], env, "wattle load profile")

        subprocess.run([flags.wattle, "profile", "--simulated", scenario, "--out", simulated], env=env, check=True)
        done = subprocess.run([*command, "--gpu", "1", "--clocks", ",".join(map(str, CLOCKS)), "--load-s", "2", "--shares",
                               "0.5,1", "--tolerance", "1.2", "--bends", "0", "--repository", shared, "--json"],
                              env=env, stdout=subprocess.PIPE, text=True, check=True)
        print(json.loads(done.stdout))
        # What looks for the scenario's profile now finds the engine's.
        subprocess.run([flags.wattle, "profile", "--simulated", scenario, "--repository", shared, "--out", again], env=env,
                       check=True)
        assert open(live).read() == open(again).read() and "# gpu: a100-80g" in open(again).read(), open(again).read()
        # Nothing is added to a table that has this TP degree.
        refused([flags.wattle, "profile", "--url", at["url"], "--loads", scenario, "--gpu", "1", "--nvml", flags.nvml, "--state",
                 os.path.join(folder, "state"), "--merge", live, "--out", again], env, "TP1")

        made, expected = loads(live), loads(simulated)
        assert set(made) == set(CLOCKS), made
        for clock, points in made.items():
            print(f"{clock} MHz: {points}")
            power = [p["power_w"] for p in points if p["load_per_s"] <= most_load(points)]
            assert len(power) >= 3 and all(a < b for a, b in zip(power, power[1:])), (clock, power)
        low, high = (made[clock] for clock in CLOCKS)
        assert most_load(low) < most_load(high) and low[0]["power_w"] < high[0]["power_w"], made
        # The simulator's clocks are its own seven; the highest is both's.
        ratio = most_load(high) / most_load(expected[CLOCKS[1]])
        print(f"most load within the objectives: {most_load(high):.2f} requests/s, {ratio:.2f} of the simulator's")
        assert abs(ratio - 1) < MOST_LOAD_WITHIN, ratio


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    flags = parser.parse_args()
    repeat_when_late(lambda: measure(flags))


if __name__ == "__main__":
    main()
