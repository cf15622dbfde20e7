#!/usr/bin/env python3
"""Carbon and objectives kept of a recipe for several sites on drawn ones, against `freesh-cleanest`.

Simulated: two to four sites of different grids (hourly intensities from the data directory) with one or two kinds of GPU each, a
model, lengths, objectives and a load from 3 to 50 % of what the GPUs carry at a guess, for as many as 150,000 requests. Prints a
line for each (grams, MJ, requests with all objectives kept, mean GPUs) and means over all; no target. Some loads are more than
the sites can carry within such objectives.

    WATTLE_DATA=... python3 bench/drawn_sites.py --random 14 --seed 3     # two minutes
"""
import argparse
import os
import random
import tempfile

from simulated import run

ZONES = ["AU-NSW", "BR-SP", "CA-ON", "CL-SIC", "DE-LU", "GB", "IN-WE", "JP-TK", "KR", "SG", "US-CAL-CISO", "US-MIDA-PJM",
         "US-NY-NYIS", "US-TEX-ERCO", "ZA"]
MODELS = {  # TP degrees by GPU, and requests per second that an A100 of the least carries at a guess
    "llama-3.1-8b": ({"a100-80g": [1], "h100": [1], "l40s": [1], "b200": [1]}, 8),
    "qwen3-14b": ({"a100-80g": [1, 2], "h100": [1], "l40s": [2], "b200": [1]}, 5),
    "llama-3-70b": ({"a100-80g": [4, 8], "h100": [4, 8], "b200": [2]}, 1.2),
    "mixtral-8x7b": ({"a100-80g": [2, 4], "h100": [2, 4], "b200": [1]}, 4),
    "qwen3-30b-a3b": ({"a100-80g": [1, 2], "h100": [1], "b200": [1]}, 6),
}
AGAINST_AN_A100 = {"a100-80g": 1, "h100": 2, "l40s": 0.6, "b200": 4}
HOURS = 4


def drawn(draw):
    """A name and the scenario's text."""
    llm = draw.choice(list(MODELS))
    degrees, each = MODELS[llm]
    sites = draw.sample(ZONES, draw.choice([2, 3, 4]))
    start = f'{draw.choice(["2024-02-10", "2024-06-11", "2024-09-20"])} {draw.choice([0, 6, 12, 18]):02d}:00'
    nodes, fleets, a100s = [], [], 0.0
    for site in sites:
        for gpu in draw.sample(list(degrees), draw.choice([1, 1, 2])):
            gpus = draw.choice([4, 8, 16])
            nodes.append((site, gpu, gpus))
            fleets += [(site, gpu, tp, int(tp == degrees[gpu][0])) for tp in degrees[gpu] if tp <= gpus]
            a100s += gpus * AGAINST_AN_A100[gpu] / degrees[gpu][0]
    load = draw.choice([0.03, 0.1, 0.25, 0.5])
    rate = max(0.2, round(each * a100s * load, 2))
    gap = draw.choice([60, 100, 150] if llm == "llama-3-70b" else [40, 80, 150])
    ttft = draw.choice([600, 1500, 4000])
    lines = ['name = "drawn"', 'description = "Drawn sites."', f'llm = "{llm}"', "[workload]", f"rate_per_s = {rate}",
             f"requests = {min(int(rate * 3600 * HOURS), 150_000)}", f"arrival_cv = {draw.choice([1, 1.5, 3])}",
             f"prompt_mean = {draw.choice([200, 1000, 2500])}", "prompt_std = 800", f"output_mean = {draw.choice([60, 200, 400])}",
             "output_std = 150", "max_prompt_tokens = 8192", "max_output_tokens = 2048", "[slo]", f"ttft_ms = {ttft}",
             f"tbt_ms = {gap}", "[spawn]", "load_s = 50", "warm_s = 10", "[report]", "sample_period_s = 60"]
    for site in sites:
        lines += ["[[site]]", f'name = "{site}"', f'start = "{start}"',
                  f'intensity_file = "carbon-electricitymaps-hourly/{site}_2024.csv"']
    for site, gpu, gpus in nodes:
        lines += ["[[node]]", f'name = "{site} {gpu}"', f'site = "{site}"', f'gpu = "{gpu}"', f"gpus = {gpus}"]
    for site, gpu, tp, count in fleets:
        lines += ["[[fleet]]", f'site = "{site}"', f'gpu = "{gpu}"', f"tensor_parallel = {tp}", f"count = {count}"]
    name = f"{llm} {rate}/s {ttft}/{gap} ms, " + " ".join(f"{site}:{gpus}x{gpu}" for site, gpu, gpus in nodes)
    return name, "\n".join(lines) + "\n"


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--random", type=int, default=14, help="number of drawn scenarios")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--recipe", default="freesh-ours")
    flags.add_argument("--set", action="append", default=[], help="override of the recipe, as for `wattle sim`")
    args = flags.parse_args()
    draw = random.Random(args.seed)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.random):
            name, text = drawn(draw)
            path = os.path.join(folder, "drawn.toml")
            with open(path, "w") as file:
                file.write(text)
            both = run(path, "freesh-cleanest", []), run(path, args.recipe, args.set)
            if None in both:
                continue
            rows.append(both)
            print(f"{name}: " + ", ".join(f"{r} {one.grams:.0f} g {one.kj / 1e3:.2f} MJ {one.all:.1f} % {one.gpus:.1f} GPUs" for r, one in
                                          zip(("cleanest", args.recipe), both)), flush=True)
    for i, recipe in enumerate(("freesh-cleanest", args.recipe)):
        print(f"{recipe}: {sum(r[i].all for r in rows) / len(rows):.2f} % of requests kept in the mean, of freesh-cleanest's grams "
              f"{100 * sum(r[i].grams / r[0].grams for r in rows) / len(rows):.1f} %, of its energy "
              f"{100 * sum(r[i].kj / r[0].kj for r in rows) / len(rows):.1f} %")


if __name__ == "__main__":
    main()
