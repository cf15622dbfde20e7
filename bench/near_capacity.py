#!/usr/bin/env python3
"""What a recipe loses to the maximum clock where decode instances are near their capacity, or first tokens near their limit.

Simulated: `voltanallm-2p2d` on cards, models, instances, lengths, bursts and objectives as `best_fixed_clock.py --apart`
draws them, each at a rate at which the maximum clock keeps 85 to 99.7 % of requests and loses some gaps. From an empty
fleet, 2,000 to 8,000 requests; many of these loads are more than the fleet carries for long. Prints a line for each and a
summary; no target. --first-tokens: `synthetic-poisson` on one or two instances where phases share steps, drawn as there,
at a TTFT of which the maximum clock keeps 97 to 99.9 %.

    WATTLE=build/release/wattle python3 bench/near_capacity.py --seed 777     # 40 loads, half a minute
"""
import argparse
import random

from best_fixed_clock import APART, DRAWN as SHARED, Bench

DRAWN = {key: values for key, values in APART.items() if key != "workload.rate_per_s"} | {
    "workload.prompt_mean": [100, 300, 500], "workload.output_mean": [100, 200, 400, 600], "slo.ttft_ms": [600, 1500, 5000]}

TIGHT = {key: values for key, values in SHARED.items() if key != "slo.ttft_ms"} | {"slo.itl_ms": [30, 60, 150], "fleet.0.count": [1, 2]}


def tight(bench, draw):
    """Settings with whose TTFT the maximum clock is near its limit, and what it makes of them."""
    while True:
        settings = [f"{key}={draw.choice(values)}" for key, values in TIGHT.items()] + ["workload.requests=3000"]
        low, high = 5.0, 4000.0
        for _ in range(9):
            ttft = (low * high) ** 0.5
            at = settings + [f"slo.ttft_ms={ttft:.4g}"]
            most = bench.run("static-max", at)
            if most is None:
                break
            if most[2] < 97.0:
                low = ttft
            elif most[2] > 99.9:
                high = ttft
            elif most[3] > 80.0:
                return at, most
            else:
                break


def drawn(bench, draw):
    """Settings at whose rate the maximum clock is near its limit, and what it makes of them."""
    while True:
        settings = [f"{key}={draw.choice(values)}" for key, values in DRAWN.items()]
        settings.append(settings[0].replace("fleet.0", "fleet.1"))
        requests = draw.choice([2000, 4000, 8000])
        low, high = 2.0, 400.0
        for _ in range(9):
            rate = (low * high) ** 0.5
            at = settings + [f"workload.rate_per_s={rate:.3g}", f"workload.requests={requests}"]
            most = bench.run("static-max", at)
            if most is None:
                break
            if most[3] < 85.0:
                high = rate
            elif most[3] > 99.7:
                low = rate
            elif most[1] < 99.9:
                return at, most
            else:
                break


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--random", type=int, default=40, help="so many loads")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--recipe", default="wattle")
    flags.add_argument("--first-tokens", action="store_true")
    flags.add_argument("--set", action="append", default=[], help="the recipe's alone, as `wattle sim` has it")
    args = flags.parse_args()
    bench = Bench("synthetic-poisson" if args.first_tokens else "voltanallm-2p2d", args.set)
    draw = random.Random(args.seed)
    lost, saved = [], []
    for _ in range(args.random):
        settings, most = (tight if args.first_tokens else drawn)(bench, draw)
        ours = bench.run(args.recipe, settings + args.set)
        lost.append(most[3] - ours[3])
        saved.append(100 * (1 - ours[0] / most[0]))
        print(f"{' '.join(s.split('=')[1] for s in settings):100} all {most[3]:6.2f} -> {ours[3]:6.2f} %  gaps {most[1]:6.2f} -> {ours[1]:6.2f} %  "
              f"first tokens {most[2]:6.2f} -> {ours[2]:6.2f} %  saved {saved[-1]:5.1f} %", flush=True)
    print(f"{len(lost)} loads: points of requests with all objectives given up {sum(lost) / len(lost):.2f} in the mean, {max(lost):.2f} at most, "
          f"more than 1 in {sum(x > 1 for x in lost)}; saved {sum(saved) / len(saved):.1f} % in the mean")


if __name__ == "__main__":
    main()
