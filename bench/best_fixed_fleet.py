#!/usr/bin/env python3
"""Energy of recipe `dynamollm-ours` against the best fixed fleet with the same attainment.

Simulated: an hour of Azure's 2024 week (`WATTLE_DATA`), drawn with card, model, cluster, load and objectives. A fixed fleet
has any number of equal instances, at any of the scenario's TP degrees, at one of 16 clocks from below the energy optimum to the
maximum, with requests to the least loaded instance. The best is the one of least energy with at least as many requests within
their objectives (to 0.05 points), chosen with knowledge of the hour, which no operator has. Scenarios in which even the whole
cluster at its highest clock keeps less than 95 % are left out. Prints a line for each scenario and a summary; no target.

    WATTLE=build/release/wattle python3 bench/best_fixed_fleet.py --random 20    # an hour
"""
import argparse
import math
import random

from simulated import run, saved

MODELS = {  # TP degrees, largest first
    "llama-3.1-8b": (4, 2, 1), "qwen3-14b": (4, 2, 1), "mistral-small-24b": (4, 2, 1), "qwen3-30b-a3b": (4, 2, 1),
    "qwen3-32b": (8, 4, 2), "llama-3.1-70b": (8, 4, 2), "mixtral-8x7b": (8, 4, 2), "gpt-oss-120b": (8, 4, 2),
}
DRAWN = {
    "gpu": ["a100-80g", "h100", "h200", "b200", "mi300x", "l40s"], "llm": list(MODELS), "node.0.count": [2, 4, 8],
    "service": ["conversation", "coding"], "workload.rate_scale": [0.1, 0.2, 0.5, 1], "slo.ttft_ms": [500, 1000, 2000],
    "slo.tbt_ms": [40, 70, 100, 200], "engine.step_gap_ms": [0.5, 9.4], "engine.chunked_prefill": ["true", "false"],
    "spawn.load_s": [20, 90, 240],
}
KEPT = 0.05  # points
BELOW = 3  # of the clocks
STEPS = 12 + BELOW


class Scenario:
    def __init__(self, draw):
        of = {key: draw.choice(values) for key, values in DRAWN.items()}
        self.start = draw.randrange(0, 590000, 1000)
        self.name = " ".join(str(value) for value in of.values()) + f" {self.start}"
        self.service, self.tps, self.gpus = of.pop("service"), MODELS[of["llm"]], 8 * of["node.0.count"]
        gpu = of.pop("gpu")
        self.spawn = f"spawn.load_s={of.pop('spawn.load_s')}"  # only a fleet that scales takes it
        whole = "true" if of["engine.chunked_prefill"] == "false" else "false"
        self.settings = [f"{key}={value}" for key, value in of.items()] + [f"engine.whole_prompts={whole}", f"workload.start_s={self.start}", "workload.duration_s=3600"]
        for i, tp in enumerate(self.tps):
            self.settings += [f"fleet.{i}.gpu={gpu}", f"fleet.{i}.tensor_parallel={tp}"]
        # A class's TTFT is never longer than slo.ttft_ms.
        for i, most in enumerate((250, 250, 250, 400, 400, 400, 2000, 2000, 2000)):
            self.settings.append(f"class.{i}.ttft_ms={min(most * 2, of['slo.ttft_ms'])}")
        self.ran = {}

    def run(self, recipe, more):
        key = (recipe, *more)
        if key not in self.ran:
            self.ran[key] = run(f"dynamollm-week-{self.service}", recipe, [*self.settings, *more])
        return self.ran[key]

    def fixed(self, which, count, clock):
        counts = [f"fleet.{i}.count={count if i == which else 0}" for i in range(len(self.tps))]
        return self.run("single-pool", counts + [f"frequency.clock_mhz={clock}"])

    def whole(self):
        """The whole cluster at its highest clock, by TP degree."""
        return [self.fixed(i, self.gpus // tp, "max") for i, tp in enumerate(self.tps)]

    def best_fixed(self, kept):
        best = None
        for which, tp in enumerate(self.tps):
            low, high = 1, self.gpus // tp
            if (at := self.fixed(which, high, "max")) is None or at.all < kept:
                continue
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if self.fixed(which, middle, "max").all >= kept else (middle + 1, high)
            for count in sorted({min(self.gpus // tp, math.ceil(low * by)) for by in (1, 1.1, 1.25, 1.5, 2)}):
                lowest, top = 0, STEPS
                while lowest < top:
                    middle = (lowest + top) // 2
                    lowest, top = (lowest, middle) if self.fixed(which, count, clock_of(middle)).all >= kept else (middle + 1, top)
                of = [(self.fixed(which, count, clock_of(step)), f"{count} of TP{tp} at {clock_of(step)}") for step in range(lowest, min(STEPS, lowest + 2) + 1)]
                best = min([one for one in of if one[0].all >= kept] + ([best] if best else []), default=best)
        return best


def clock_of(step):
    if step < BELOW:
        return f"sweet-{25 * (BELOW - step)}%"
    return "sweet" if step == BELOW else "max" if step == STEPS else f"sweet+{100 * (step - BELOW) // (STEPS - BELOW)}%"


def compare(scenario):
    most = max((one.all for one in scenario.whole() if one), default=0.0)
    if most < 95.0:
        return None
    start = [f"fleet.0.count={scenario.gpus // scenario.tps[0]}", scenario.spawn]
    ours = scenario.run("dynamollm-ours", start)
    if ours is None:
        return None
    best = scenario.best_fixed(ours.all - KEPT)
    beyond = saved(ours, best[0]) if best else None
    print(f"{scenario.name:70} kept {ours.all:6.2f} of {most:6.2f} %  " +
          (f"less energy by {beyond:5.1f} % than {best[1]}" if best else "no fixed fleet keeps as much"), flush=True)
    return beyond, most - ours.all


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--random", type=int, default=20)
    flags.add_argument("--seed", type=int, default=1)
    args = flags.parse_args()
    draw = random.Random(args.seed)
    rows = []
    while len(rows) < args.random:
        row = compare(Scenario(draw))
        rows += [row] if row else []
    beyond = sorted(row[0] for row in rows if row[0] is not None)
    lost = sorted(row[1] for row in rows)
    print(f"{len(rows)} scenarios, ahead of the best fixed fleet by more than 1 % in {sum(b > 1 for b in beyond)} of {len(beyond)} that keep as much, "
          f"behind by more than 1 % in {sum(b < -1 for b in beyond)}; {beyond[0]:.1f} to {beyond[-1]:.1f} %, mean {sum(beyond) / len(beyond):.1f}")
    print(f"points of objectives given up against the whole cluster at its highest clock: {lost[0]:.1f} to {lost[-1]:.1f}, mean {sum(lost) / len(lost):.1f}")


if __name__ == "__main__":
    main()
