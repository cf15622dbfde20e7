#!/usr/bin/env python3
"""Where prompts and decodes share steps: recipe `wattle` as it ships beside the best fixed clock that keeps as much.

Simulated: `synthetic-poisson` on one instance of many cards, models, rates and objectives. Of 26 fixed clocks between the
energy optimum and the maximum the one of least energy counts that keeps at least the gaps (to 0.02 points) and the first
tokens (to 0.05) that the recipe keeps. Prints a line for each and a summary; no target.

    WATTLE=build/release/wattle python3 bench/shared_steps.py     # about a minute
"""
import json
import os
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


def run(recipe, settings):
    """kJ, and the shares of gaps and of first tokens kept, in percent."""
    command = [WATTLE, "sim", "synthetic-poisson", "--recipe", recipe, "--only", "--json"]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    one = json.loads(done.stdout)["runs"][0]
    return one["energy_j"]["total"] / 1e3, 100 * one["slo"]["itl_attainment"], 100 * one["slo"]["ttft_attainment"]


def compare(gpu, llm, tp, rate, gap):
    settings = [f"fleet.0.gpu={gpu}", f"llm={llm}", f"fleet.0.tensor_parallel={tp}", "fleet.0.count=1", "seed=3",
                f"workload.rate_per_s={rate}", "workload.requests=4000", f"slo.itl_ms={gap}", "slo.ttft_ms=1000"]
    clocks = ["sweet"] + [f"sweet+{p}%" for p in range(4, 100, 4)]
    fixed = [run("static-max", settings)] + [run("static-max", settings + [f"frequency.clock_mhz={c}"]) for c in clocks]
    most = fixed[0]
    ours = run("wattle", settings)
    keeping = [kj for kj, gaps, first in fixed if gaps >= ours[1] - 0.02 and first >= ours[2] - 0.05]
    saved, fixed_saved = (100 * (1 - kj / most[0]) for kj in (ours[0], min(keeping, default=most[0])))
    name = f"{gpu} {llm} TP{tp} {rate}/s {gap} ms"
    print(f"{name:38} gaps {most[1]:6.2f} -> {ours[1]:6.2f} %  first tokens {most[2]:6.2f} -> {ours[2]:6.2f} %  "
          f"saved {saved:5.1f} %, fixed clock {fixed_saved:5.1f} %", flush=True)
    return saved - fixed_saved, most[1] - ours[1], most[2] - ours[2]


def main():
    rows = [compare(gpu, llm, tp, rate, gap) for gpu, llm, tp, rates in INSTANCES for rate in rates for gap in GAPS_MS]
    print(f"ahead of the fixed clock in {sum(r[0] > 0 for r in rows)} of {len(rows)}")
    for i, what in enumerate(("points saved beyond it", "points of gaps given up", "points of first tokens given up")):
        column = sorted(r[i] for r in rows)
        print(f"{what}: {column[0]:.1f} to {column[-1]:.1f}, median {column[len(column) // 2]:.1f}")


if __name__ == "__main__":
    main()
