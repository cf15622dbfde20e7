#!/usr/bin/env python3
"""Recipes that plan, in a crowd: many times the load from one second to the next, for some minutes.

Simulated, on generated traces: an hour with a crowd of several sizes, lengths, and starts within the planner's minute. Each
recipe as shipped, then without its reaction to crowds (`scaling.surge=0`, `scaling.out_of_turn=false`), next to `static-max`
on the scenario's whole fleet. Prints energy and the share of requests with all objectives met, where refused ones count as
missed; no target.

    WATTLE=build/release/wattle python3 bench/crowds.py            # a minute or two
    WATTLE=build/release/wattle python3 bench/crowds.py --surge 1.25 2 3
"""
import argparse
import csv
import datetime
import os
import random
import tempfile

from simulated import run

LENGTH_S = 3600
BEGINS_S = 2400
# scenario, what differs of it, recipes, requests/s in the crowd
FLEETS = [
    ("dynamollm-hour", ["workload.copies=1", "node.0.count=12"], ["dynamollm-ours"], 70),
    ("dynamollm-hour", ["workload.copies=1", "llm=llama-3.1-8b", "fleet.0.count=2", "node.0.count=2", "fleet.0.tensor_parallel=4",
                        "fleet.1.tensor_parallel=2", "fleet.2.tensor_parallel=1", "engine.step_gap_ms=1", "slo.tbt_ms=50"], ["dynamollm-ours"], 60),
    ("two-kinds", [], ["freesh-ours", "freesh-pairs"], 25),
]
CROWDS = [(times, late, minutes) for times in (3, 10, 30) for late, minutes in ((0, 10), (15, 5), (50, 15))]


def trace(path, crowd_per_s, times, late, minutes):
    draw = random.Random(f"{crowd_per_s} {times} {late} {minutes}")
    begin, end = BEGINS_S + late, BEGINS_S + late + 60 * minutes
    zero = datetime.datetime(2024, 5, 10)
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("TIMESTAMP", "ContextTokens", "GeneratedTokens"))
        at = 0.0
        while True:
            at += draw.expovariate(crowd_per_s if begin <= at < end else crowd_per_s / times)
            if at >= LENGTH_S:
                return
            when = (zero + datetime.timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S.%f")
            rows.writerow((when, min(8000, int(draw.lognormvariate(6.5, 1.0)) + 1), min(1000, int(draw.lognormvariate(5, 0.8)) + 1)))


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--surge", nargs="*", type=float, default=[], help="instead of the recipe's")
    surges = options.parse_args().surge
    columns = [("as it ships", [])] if not surges else [(f"surge {s:g}", [f"scaling.surge={s}"]) for s in surges]
    columns.append(("without", ["scaling.surge=0", "scaling.out_of_turn=false"]))
    print("scenario, recipe; crowd: times the load, seconds into the minute, minutes; MJ and % of requests: static-max, " + ", ".join(name for name, _ in columns))
    sums = {}
    with tempfile.TemporaryDirectory() as folder:
        for scenario, differs, recipes, crowd_per_s in FLEETS:
            for times, late, minutes in CROWDS:
                path = os.path.join(folder, "crowd.csv")
                trace(path, crowd_per_s, times, late, minutes)
                settings = [f"workload.trace={path}", *differs]
                most = run(scenario, "static-max", settings)
                for recipe in recipes:
                    cells = [most] + [run(scenario, recipe, settings + more) for _, more in columns]
                    for name, cell in zip(["static-max"] + [name for name, _ in columns], cells):
                        sums.setdefault(name, []).append(cell)
                    print(f"{scenario} {recipe:15s} {times:3d}x {late:2d} s {minutes:2d} min " + " ".join(f"{one.kj / 1e3:8.2f} {one.all:5.1f}%" for one in cells), flush=True)
    for name, cells in sums.items():
        print(f"{name}: {sum(one.kj for one in cells) / 1e3:.1f} MJ; {sum(one.all for one in cells) / len(cells):.1f} % kept in the mean, {min(one.all for one in cells):.1f} at worst")


if __name__ == "__main__":
    main()
