#!/usr/bin/env python3
"""What faults cost an energy recipe beyond what they cost the maximum clock.

Simulated. Scenarios are drawn as in best_fixed_clock.py, with two instances or more; faults are drawn for each, one kind after
the other: instances that die for a while, for good, again and again, all but one together, all together, and GPUs that are too
hot (`[[fault]]` with clock_share). The same faults hit the recipe and `static-max`, which routes round-robin; that leaves a
queue where an outage made it, while other routings spread it and make more requests late. With --same-routing the maximum clock
has the recipe's routing. With --fleets, fleets of several pools or sites that plan.
Prints for each draw what the maximum clock keeps without and with its faults, and what the recipe gives up against that in
points without and with faults; a summary; no target.

    WATTLE=build/release/wattle python3 bench/faults.py --apart --kinds hot     # a minute
    WATTLE=build/release/wattle python3 bench/faults.py --fleets                # some minutes; needs WATTLE_DATA
"""
import argparse
import os
import pathlib
import random
import tempfile

from best_fixed_clock import APART, DRAWN
from simulated import run, saved

SCENARIOS = pathlib.Path(__file__).resolve().parent.parent / "scenarios"
MAXIMUM = ["frequency.policy=static", "frequency.clock_mhz=max"]
KEPT = ("gaps", "first", "all", "finished")
FLEETS = [  # scenario, what differs, instances, nodes, seconds, recipes
    ("azure-conv-8-pools", [], 8, 0, 435, ["eco-freq", "wattle"]),
    ("dynamollm-hour", ["workload.copies=2", "node.0.count=12"], 12, 12, 3600, ["dynamollm", "dynamollm-ours"]),
    ("freesh-3sites", ["workload.requests=21600"], 6, 5, 10800, ["freesh", "freesh-ours"]),
    ("two-kinds", ["workload.requests=86400"], 4, 8, 7200, ["freesh-ours", "freesh-pairs"]),
]


class Faults:
    """Drawn for so many instances (or nodes, which `one` names) over so many seconds."""

    def __init__(self, draw, count, length_s, one="instance"):
        self.draw, self.count, self.length_s, self.one = draw, count, length_s, one

    def when(self):
        return self.length_s * self.draw.uniform(0.1, 0.8)

    def outage(self):
        return min(0.3 * self.length_s, 2 * 10 ** self.draw.uniform(0, 1.8))

    def some(self, most):
        return self.draw.sample(range(self.count), self.draw.randint(1, max(1, most)))

    def fault(self, which, at, down=None, share=None):
        keys = {"at_s": round(at, 3), self.one: which, "down_s": down and round(down, 3), "clock_share": share and round(share, 2)}
        return "\n[[fault]]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items() if value is not None)

    def deaths(self):
        return [self.fault(self.draw.randrange(self.count), self.when(), self.outage()) for _ in range(self.draw.randint(1, 4))]

    def good(self):
        return [self.fault(which, self.when()) for which in self.some(self.count // 2)]

    def flapping(self):
        which, at, every = self.draw.randrange(self.count), self.when(), self.draw.choice([5, 15, 40])
        return [self.fault(which, at + every * n, every * self.draw.uniform(0.2, 0.8)) for n in range(self.draw.randint(3, 10))]

    def together(self):
        at, down = self.when(), self.outage()
        return [self.fault(which, at, down) for which in self.draw.sample(range(self.count), max(1, self.count - 1))]

    def all(self):
        at, down = self.when(), min(20.0, self.outage())
        return [self.fault(which, at, down) for which in range(self.count)]

    def hot(self):
        return [self.fault(which, self.when(), self.length_s * self.draw.uniform(0.1, 0.5), self.draw.uniform(0.4, 0.85))
                for which in self.some(self.count)]


KINDS = ("deaths", "good", "flapping", "together", "all", "hot")


class Bench:
    def __init__(self, folder):
        self.folder = folder
        self.rows = {}

    def compare(self, name, scenario, faults, settings, recipe, maximum):
        """`maximum`: recipe and settings of the maximum clock."""
        path = os.path.join(self.folder, f"{scenario}.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write((SCENARIOS / f"{scenario}.toml").read_text(encoding="utf-8") + "".join(faults))
        row = {}
        text = f"{name:60} {recipe:14}"
        for where in (scenario, path):
            most, ours = run(where, maximum[0], settings + maximum[1]), run(where, recipe, settings)
            for key in KEPT:
                row.setdefault(key, []).append(getattr(most, key) - getattr(ours, key))
            row.setdefault("saved", []).append(saved(ours, most))
            row.setdefault("kept", []).append(most.all)
        text += f" kept {row['kept'][0]:6.2f} -> {row['kept'][1]:6.2f} %, given up:"
        text += "".join(f" {key} {row[key][0]:.2f} -> {row[key][1]:.2f}" for key in KEPT) + f", saved {row['saved'][0]:.1f} -> {row['saved'][1]:.1f} %"
        print(text, flush=True)
        self.rows.setdefault(recipe, []).append(row)

    def summary(self):
        for recipe, rows in self.rows.items():
            for key in (*KEPT, "saved"):
                pairs = [row[key] for row in rows if row[key][0] == row[key][0]]  # NaN: no such objective
                if not pairs:
                    continue
                more = sorted(with_faults - without for without, with_faults in pairs)
                print(f"{recipe}, {len(rows)} draws, {key}: {sum(p[0] for p in pairs) / len(pairs):.2f} without faults, "
                      f"{sum(p[1] for p in pairs) / len(pairs):.2f} with; difference {more[0]:.2f} to {more[-1]:.2f}")


def drawn(bench, args):
    draw = random.Random(args.seed)
    scenario, values_of = ("voltanallm-2p2d", APART) if args.apart else ("synthetic-poisson", DRAWN)
    done = 0
    while done < args.random:
        values = {key: draw.choice(values) for key, values in values_of.items()}
        faults = Faults(random.Random(draw.random()), values["fleet.0.count"] + values.get("fleet.1.count", 0),
                        args.requests / values["workload.rate_per_s"])
        if faults.count < 2:
            continue
        if args.apart:
            values["fleet.1.gpu"] = values["fleet.0.gpu"]
        settings = [f"{key}={value}" for key, value in values.items()] + [f"workload.requests={args.requests}"]
        most = run(scenario, "static-max", settings)
        if most is None or min(most.gaps, most.first) < 70:
            continue
        kind = args.kinds[done % len(args.kinds)]
        done += 1
        texts = getattr(faults, kind)()
        for recipe in args.recipes:
            bench.compare(f"{kind} {len(texts)} " + " ".join(str(v) for v in values.values()), scenario, texts, settings, recipe,
                          (recipe, MAXIMUM) if args.same_routing else ("static-max", []))


def fleets(bench, args):
    for scenario, settings, instances, nodes, length_s, recipes in FLEETS:
        for kind in args.kinds:
            draw = random.Random(f"{scenario} {kind} {args.seed}")
            of_nodes = nodes and draw.random() < 0.5
            texts = getattr(Faults(draw, nodes if of_nodes else instances, length_s, "node" if of_nodes else "instance"), kind)()
            for recipe in recipes:
                bench.compare(f"{kind} {len(texts)} {'node' if of_nodes else 'instance'} {scenario}", scenario, texts, settings, recipe, ("static-max", []))


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--random", type=int, default=60, help="number of drawn scenarios")
    flags.add_argument("--apart", action="store_true", help="prefill and decode on separate instances")
    flags.add_argument("--same-routing", action="store_true", help="drawn scenarios: the maximum clock under the recipe's routing")
    flags.add_argument("--fleets", action="store_true", help="fleets of several pools or sites, whole, against static-max")
    flags.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    flags.add_argument("--recipes", nargs="+", default=["wattle"])
    flags.add_argument("--requests", type=int, default=6000, help="per drawn scenario")
    flags.add_argument("--seed", type=int, default=1)
    args = flags.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder)
        (fleets if args.fleets else drawn)(bench, args)
        bench.summary()


if __name__ == "__main__":
    main()
