#!/usr/bin/env python3
"""`wattle plan pools` against PuLP with CBC's own binary, on the same programs, in one run.

Both solve FREESH's published program (integer workers by site, partition, type and mode; one partition chosen) to the
same relative gap, and the costs they find must agree within it. What is counted is the CPU time (both have one thread)
that turns inputs in memory into a plan: for Wattle `solve_cpu_ms` of --json, for PuLP building the program and solving
it, CBC's process with it. Rounds are interleaved and the median is taken. A PuLP run stops at --limit seconds; its ratio is then an upper
bound, and the row says so. Needs python3-pulp and coinor-cbc. Run by tools/bench.py, or alone with
WATTLE=path/to/wattle; the JSON list of rows goes to stdout."""
import argparse
import csv
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import pulp
except ImportError:  # another python3 comes first in PATH: Debian's has it
    if sys.executable == "/usr/bin/python3":
        raise
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

SLOTS, ALPHA, LB_TO_KG = 6, 1.1, 0.45359237
SHAPES = [("TP2", "A100", 2), ("TP4", "A100", 4), ("TP8", "A100", 8), ("TP4", "H100", 4), ("TP2", "H100", 2),
          ("TP8", "H100", 8), ("TP2+TP4", "A100+H100", "2+4"), ("TP4+TP2", "A100+H100", "4+2")]


def problem(sites: int, partitions: int, types: int, modes: int, seed: int) -> dict:
    """Numbers similar to the released ones, at any size."""
    draw = random.Random(seed)
    rows, demand = [], []
    for s in range(partitions):
        columns = []
        for r in range(types):
            rate = draw.uniform(0.3, 3.0)  # of one GPU
            for m in range(modes):
                tp, gpu, count = SHAPES[m]
                gpus = sum(int(c) for c in str(count).split("+"))
                rows.append([s + 1, f"T{r}", m + 1, tp, gpu, count, gpus * draw.uniform(270, 370),
                             gpus * rate * draw.uniform(0.6, 1.4), 100, 50])
            peak = rate * draw.uniform(0.5, 1.5) * sites * 8 / types
            columns.append([peak * draw.uniform(0.7, 1.0) for _ in range(SLOTS)])
        demand.append(columns)
    capacity = [[4 + 2 * draw.randrange(15), 2 * draw.randrange(9)] for _ in range(sites)]
    emissions = [[base * draw.uniform(0.8, 1.2) for _ in range(SLOTS)]
                 for base in (draw.uniform(100, 1500) for _ in range(sites))]
    return {"types": types, "profile": rows, "demand": demand, "capacity": capacity, "emissions": emissions}


def write(p: dict, folder: pathlib.Path) -> list[str]:
    def table(name: str, header: list, rows) -> str:
        with open(folder / name, "w", newline="", encoding="utf-8") as out:
            csv.writer(out).writerows([header, *rows])
        return str(folder / name)

    arguments = ["--profile", table("profile.csv", ["partition", "request_type", "mode", "tp", "gpu", "gpus_per_worker",
                                                    "worker_power_w", "max_qps", "mean_ttft_ms", "mean_tbt_ms"], p["profile"]),
                 "--capacity", table("capacity.csv", ["site", "a100", "h100"], [[n + 1, *c] for n, c in enumerate(p["capacity"])]),
                 "--slo", table("slo.csv", ["request_type", "ttft_ms", "tbt_ms"], [[f"T{r}", 300, 150] for r in range(p["types"])]),
                 "--emissions", table("emissions.csv", ["slot_5min", *(f"site{n + 1}_lb_co2_per_mwh" for n in range(len(p["capacity"])))],
                                      [[t, *(e[t] for e in p["emissions"])] for t in range(SLOTS)])]
    for s, columns in enumerate(p["demand"]):
        arguments += ["--demand", table(f"demand{s}.csv", ["slot_5min", *(f"t{r}_qps" for r in range(p["types"]))],
                                        [[t, *(c[t] for c in columns)] for t in range(SLOTS)])]
    return arguments


def wattle(binary: str, arguments: list[str], gap: float) -> tuple[float, float, float]:
    """CPU milliseconds, grams and the proven bound in grams."""
    out = subprocess.run([binary, "plan", "pools", *arguments, "--formulation", "published", "--gap", str(gap), "--json"],
                         stdout=subprocess.PIPE, check=True, text=True).stdout
    window = json.loads(out)["windows"][0]
    if window["status"] != "planned":
        raise RuntimeError(f"wattle: {window['reason']}")
    return window["solve_cpu_ms"], window["objective"], window["bound"]


def cpu_seconds() -> float:
    """Of this process and the children that ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def with_pulp(p: dict, gap: float, limit_s: float, cbc: str) -> tuple[float, float, bool]:
    """CPU milliseconds, grams, and whether it ran to its end."""
    begin, cpu_begin = time.monotonic(), cpu_seconds()
    program = pulp.LpProblem("pools", pulp.LpMinimize)
    joules = [sum(e) * 300 * LB_TO_KG / 3.6e6 for e in p["emissions"]]  # grams per watt over the window
    chosen = [pulp.LpVariable(f"q{s}", cat="Binary") for s in range(len(p["demand"]))]
    cost, served = [], {}
    used = [{"A100": [], "H100": []} for _ in p["capacity"]]
    for i, (s, r, _, _, gpu, count, watts, rate, _, _) in enumerate(p["profile"]):
        for n, weight in enumerate(joules):
            x = pulp.LpVariable(f"x{i}_{n}", lowBound=0, cat="Integer")
            cost.append(weight * watts * x)
            served.setdefault((s, r), []).append(rate * x)
            for kind, needs in zip(gpu.split("+"), str(count).split("+")):
                used[n][kind].append(int(needs) * x)
    program += pulp.lpSum(cost)
    for (s, r), terms in served.items():
        program += pulp.lpSum(terms) >= ALPHA * max(p["demand"][s - 1][int(r[1:])]) * chosen[s - 1]
    for site, (a100, h100) in zip(used, p["capacity"]):
        program += pulp.lpSum(site["A100"]) <= a100
        program += pulp.lpSum(site["H100"]) <= h100
    program += pulp.lpSum(chosen) == 1
    program.solve(pulp.COIN_CMD(path=cbc, msg=0, gapRel=gap, timeLimit=limit_s))
    elapsed, cpu_s = time.monotonic() - begin, cpu_seconds() - cpu_begin
    # Stopped before it found a plan, its variables hold the relaxation's fractions, cheaper than any plan.
    found = program.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
    return cpu_s * 1e3, pulp.value(program.objective) if found else float("inf"), elapsed < limit_s


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each PuLP run")
    parser.add_argument("--rounds", type=int, default=9, help="of the smallest size; the others run once")
    parser.add_argument("--sizes", default="3x2x4x4,20x5x9x8,100x5x9x8", help="sites x partitions x types x modes")
    arguments = parser.parse_args()
    binary, cbc = os.environ.get("WATTLE", "wattle"), shutil.which("cbc")
    if cbc is None:
        raise SystemExit("bench: needs cbc (Debian: coinor-cbc)")
    rows = []
    for size in arguments.sizes.split(","):
        sites, partitions, types, modes = (int(n) for n in size.split("x"))
        small = sites <= 3
        gap = 1e-6 if small else 5e-3
        ours, theirs, ended = [], [], True
        with tempfile.TemporaryDirectory() as folder:
            for seed in range(arguments.rounds if small else 1):
                p = problem(sites, partitions, types, modes, seed)
                ms, grams, bound = wattle(binary, write(p, pathlib.Path(folder)), gap)
                pulp_ms, pulp_grams, done = with_pulp(p, gap, arguments.limit, cbc)
                ours.append(ms)
                theirs.append(pulp_ms)
                ended = ended and done
                print(f"{size}: wattle {ms:.1f} ms, {grams:.6g} g, proven within {1 - bound / grams:.2%}; "
                      f"pulp {pulp_ms:.1f} ms, {pulp_grams:.6g} g{'' if done else ', stopped at its limit'}", file=sys.stderr)
                if pulp_grams < bound * (1 - 1e-6) or (done and abs(grams / pulp_grams - 1) > 2 * gap + (grams - bound) / grams):
                    raise SystemExit(f"bench: {size}: wattle finds {grams} g (bound {bound}), pulp {pulp_grams} g")
        value, other = statistics.median(ours), statistics.median(theirs)
        limit = "" if ended else " (stopped at its limit)"
        rows.append({"name": f"plan.pools.{size}", "value": value, "unit": "ms", "ratio": value / other,
                     "ratio_to": f"PuLP+CBC{limit}"})
        rows.append({"name": f"plan.pools.{size}.pulp", "value": other, "unit": "ms"})
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
