#!/usr/bin/env python3
"""Where prompts and decodes share steps: recipe `wattle` as it ships beside the best fixed clock that keeps as much.

Simulated: `synthetic-poisson` on many cards, models, rates and objectives. Of 26 fixed clocks between the energy optimum
and the maximum the one of least energy counts that keeps at least the gaps (to 0.02 points) and the first tokens (to 0.05)
that the recipe keeps. Prints a line for each and a summary; no target. With --random scenarios are drawn, from idle to
overloaded ones; those of which even the maximum clock keeps less than 60 % are left out.

    WATTLE=build/release/wattle python3 bench/shared_steps.py     # about a minute; --random 200: four
"""
import argparse
import json
import os
import random
import subprocess
import sys

WATTLE = os.environ.get("WATTLE", "build/release/wattle")
INSTANCES = [  # GPU, model, TP, requests per second
    ("a100-80g", "llama-3.1-8b", 1, (2, 6, 10)), ("h100", "llama-3.1-8b", 1, (6, 14)), ("h100", "qwen3-14b", 1, (4, 10)),
    ("gh200-144g", "llama-3.1-8b", 1, (10,)), ("b200", "qwen3-32b", 1, (6, 12)), ("h200", "qwen3-8b", 1, (8, 20)),
    ("a40", "llama-3.1-8b", 1, (2,)), ("a10g", "llama-3.1-8b", 1, (1,)), ("h100", "llama-3.1-70b", 4, (4, 8)),
    ("a100-80g", "llama-3.1-70b", 4, (2, 4)), ("l40s", "qwen3-8b", 1, (3,)), ("h100", "mixtral-8x7b", 2, (6,)),
]
GAPS_MS = (40, 60, 150)
DRAWN = {
    "fleet.0.gpu": ["a100-80g", "h100", "h200", "b200", "l40s", "a40", "gh200-144g", "mi300x", "a10g", "h100-pcie", "rtx-a6000"],
    "llm": ["llama-3.1-8b", "qwen3-8b", "qwen3-14b", "mistral-7b", "gemma-2-9b", "qwen3-30b-a3b", "llama-3.2-3b", "gpt-oss-20b"],
    "fleet.0.count": [1, 2, 4], "workload.rate_per_s": [0.5, 2, 5, 10, 20, 40], "workload.arrival_cv": [1, 2, 4],
    "workload.prompt_mean": [100, 500, 1500, 4000], "workload.prompt_std": [100, 1000],
    "workload.output_mean": [20, 100, 400], "workload.output_std": [20, 200], "slo.itl_ms": [15, 30, 60, 150],
    "slo.ttft_ms": [300, 1000, 5000], "engine.max_num_batched_tokens": [512, 2048, 8192],
}


def run(recipe, settings):
    """kJ, and the shares of gaps and of first tokens kept, in percent; None: refused, as a model that does not fit."""
    command = [WATTLE, "sim", "synthetic-poisson", "--recipe", recipe, "--only", "--json"]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2:
        return None
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    one = json.loads(done.stdout)["runs"][0]
    return one["energy_j"]["total"] / 1e3, 100 * one["slo"]["itl_attainment"], 100 * one["slo"]["ttft_attainment"]


def compare(name, settings, least=0.0):
    most = run("static-max", settings)
    if most is None or min(most[1:]) < least:
        return None
    clocks = ["sweet"] + [f"sweet+{p}%" for p in range(4, 100, 4)]
    fixed = [most] + [run("static-max", settings + [f"frequency.clock_mhz={c}"]) for c in clocks]
    ours = run("wattle", settings)
    keeping = [kj for kj, gaps, first in fixed if gaps >= ours[1] - 0.02 and first >= ours[2] - 0.05]
    saved, fixed_saved = (100 * (1 - kj / most[0]) for kj in (ours[0], min(keeping, default=most[0])))
    print(f"{name:38} gaps {most[1]:6.2f} -> {ours[1]:6.2f} %  first tokens {most[2]:6.2f} -> {ours[2]:6.2f} %  "
          f"saved {saved:5.1f} %, fixed clock {fixed_saved:5.1f} %", flush=True)
    return saved - fixed_saved, most[1] - ours[1], most[2] - ours[2]


def listed():
    for gpu, llm, tp, rates in INSTANCES:
        for rate in rates:
            for gap in GAPS_MS:
                yield compare(f"{gpu} {llm} TP{tp} {rate}/s {gap} ms", [
                    f"fleet.0.gpu={gpu}", f"llm={llm}", f"fleet.0.tensor_parallel={tp}", "fleet.0.count=1", "seed=3",
                    f"workload.rate_per_s={rate}", "workload.requests=4000", f"slo.itl_ms={gap}", "slo.ttft_ms=1000"])


def drawn(count, seed):
    draw = random.Random(seed)
    while count > 0:
        settings = [f"{key}={draw.choice(values)}" for key, values in DRAWN.items()]
        row = compare(" ".join(s.split("=")[1] for s in settings), settings + ["workload.requests=3000"], least=60.0)
        count -= row is not None
        yield row


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--random", type=int, default=0, help="so many drawn scenarios, not the list")
    flags.add_argument("--seed", type=int, default=1)
    args = flags.parse_args()
    rows = [row for row in (drawn(args.random, args.seed) if args.random else listed()) if row is not None]
    saved = [row[0] for row in rows]
    print(f"{len(rows)} scenarios: ahead of the fixed clock by more than 0.3 points in {sum(s > 0.3 for s in saved)}, "
          f"behind by more than 0.3 in {sum(s < -0.3 for s in saved)}")
    for i, what in enumerate(("points saved beyond it", "points of gaps given up", "points of first tokens given up")):
        column = sorted(row[i] for row in rows)
        print(f"{what}: {column[0]:.1f} to {column[-1]:.1f}, median {column[len(column) // 2]:.1f}, "
              f"nine in ten below {column[len(column) * 9 // 10]:.1f}")


if __name__ == "__main__":
    main()
