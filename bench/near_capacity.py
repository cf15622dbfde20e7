#!/usr/bin/env python3
"""Attainment lost to the maximum clock where decode instances are near their capacity, or first tokens near their limit.

Simulated: `voltanallm-2p2d` on cards, models, instances, lengths, bursts and objectives as `best_fixed_clock.py --apart`
draws them, each at a rate at which the maximum clock keeps 85 to 99.7 % of requests and loses some gaps. From an empty
fleet, 2,000 to 8,000 requests; many of these loads are more than the fleet carries for long. Prints a line for each and a
summary; no target. --first-tokens: `synthetic-poisson` on one or two instances where phases share steps, drawn as there,
at a TTFT of which the maximum clock keeps 97 to 99.9 %.

    WATTLE=build/release/wattle python3 bench/near_capacity.py --seed 777     # 40 loads, half a minute
"""
import argparse
import random

from best_fixed_clock import APART, DRAWN as SHARED
from simulated import run, saved

DRAWN = {key: values for key, values in APART.items() if key != "workload.rate_per_s"} | {
    "workload.prompt_mean": [100, 300, 500], "workload.output_mean": [100, 200, 400, 600], "slo.ttft_ms": [600, 1500, 5000]}

TIGHT = {key: values for key, values in SHARED.items() if key != "slo.ttft_ms"} | {"slo.itl_ms": [30, 60, 150], "fleet.0.count": [1, 2]}


def near_limit(scenario, settings, key, low, high, verdict):
    """Settings with a value of `key` at which the maximum clock is near its limit, and the maximum clock's run. `verdict` of a run:
    1 for a higher value, -1 for a lower one, 0 for this one, None to give up."""
    for _ in range(9):
        value = (low * high) ** 0.5
        at = settings + [f"{key}={value:.4g}"]
        most = run(scenario, "static-max", at)
        where = None if most is None else verdict(most)
        if where is None:
            return None
        if where == 0:
            return at, most
        low, high = (value, high) if where > 0 else (low, value)
    return None


def tight(draw):
    """A TTFT near the limit of the maximum clock."""
    settings = [f"{key}={draw.choice(values)}" for key, values in TIGHT.items()] + ["workload.requests=3000"]

    def verdict(most):
        return 1 if most.first < 97.0 else -1 if most.first > 99.9 else 0 if most.all > 80.0 else None

    return near_limit("synthetic-poisson", settings, "slo.ttft_ms", 5.0, 4000.0, verdict)


def crowded(draw):
    """A rate near the limit of the maximum clock."""
    settings = [f"{key}={draw.choice(values)}" for key, values in DRAWN.items()]
    settings.append(settings[0].replace("fleet.0", "fleet.1"))
    settings.append(f"workload.requests={draw.choice([2000, 4000, 8000])}")

    def verdict(most):
        return -1 if most.all < 85.0 else 1 if most.all > 99.7 else 0 if most.gaps < 99.9 else None

    return near_limit("voltanallm-2p2d", settings, "workload.rate_per_s", 2.0, 400.0, verdict)


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--random", type=int, default=40, help="number of loads")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--recipe", default="wattle")
    flags.add_argument("--first-tokens", action="store_true")
    flags.add_argument("--set", action="append", default=[], help="override of the recipe, as for `wattle sim`")
    args = flags.parse_args()
    scenario, load = ("synthetic-poisson", tight) if args.first_tokens else ("voltanallm-2p2d", crowded)
    draw = random.Random(args.seed)
    lost, less = [], []
    while len(lost) < args.random:
        found = load(draw)
        if found is None:
            continue
        settings, most = found
        ours = run(scenario, args.recipe, settings + args.set)
        lost.append(most.all - ours.all)
        less.append(saved(ours, most))
        print(f"{' '.join(s.split('=')[1] for s in settings):100} all {most.all:6.2f} -> {ours.all:6.2f} %  gaps {most.gaps:6.2f} -> {ours.gaps:6.2f} %  "
              f"first tokens {most.first:6.2f} -> {ours.first:6.2f} %  saved {less[-1]:5.1f} %", flush=True)
    print(f"{len(lost)} loads: points of requests with all objectives given up {sum(lost) / len(lost):.2f} in the mean, {max(lost):.2f} at most, "
          f"more than 1 in {sum(x > 1 for x in lost)}; saved {sum(less) / len(less):.1f} % in the mean")


if __name__ == "__main__":
    main()
