#!/usr/bin/env python3
"""Energy of recipe `wattle` against the best fixed clock with the same attainment.

Simulated, on many cards, models, rates and objectives: `synthetic-poisson`, where prompts and decodes share steps, or with
--apart `voltanallm-2p2d`. The best of 35 fixed clocks, from near the lowest known one to the maximum, is the one of least
energy with at least the recipe's gaps (to 0.02 points), first tokens and requests with all objectives (to 0.05) in time.
Drawn scenarios are also compared with fixed clocks under the recipe's routing, with --apart with the papers' recipes of the
same attainment, too.
Prints a line for each scenario and a summary; no target. With --random scenarios are drawn, from idle to overloaded; those in
which even the maximum clock keeps less than 60 % are left out. With --answers only whole answers have an objective.

    WATTLE=build/release/wattle python3 bench/best_fixed_clock.py     # some minutes; --random 200: ten
"""
import argparse
import math
import random

from simulated import run, saved

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


APART = {
    "fleet.0.gpu": DRAWN["fleet.0.gpu"], "llm": DRAWN["llm"], "fleet.0.count": [1, 2, 4], "fleet.1.count": [2, 3, 6],
    "workload.rate_per_s": [1, 4, 10, 20, 40, 80], "workload.arrival_cv": [1, 2, 4],
    "workload.prompt_mean": [100, 500, 1500], "workload.prompt_std": [100, 1000],
    "workload.output_mean": [50, 200, 600], "workload.output_std": [50, 400],
    "slo.itl_ms": [15, 25, 40, 60, 100], "slo.ttft_ms": [300, 600, 1500, 5000],
    "link.handoff_steps": [0, 1, 4], "link.bandwidth_gb_per_s": [0, 12, 50],
}
ENGINES = {
    "engine.max_num_seqs": [16, 32, 64, 128, 256, 1024], "engine.max_num_batched_tokens": [512, 1024, 2048, 8192, 16384],
    "engine.chunked_prefill": ["true", "true", "false"], "engine.gpu_memory_utilization": [0.5, 0.7, 0.9],
    "engine.speculative_tokens": [0, 0, 0, 3], "engine.framework": ["profile", "vllm", "sglang"],
    "engine.reserve_output": ["false", "false", "true"], "engine.block_size": [16, 64],
}
ANSWERS = {"slo.itl_ms": ["none"], "slo.ttft_ms": ["none"], "slo.e2e_ms": [1000, 2000, 4000, 8000, 15000, 30000]}
OURS = {False: ["routing.policy=best-batch"], True: ["routing.prefill.policy=least-prompts", "routing.decode.policy=best-batch"]}  # apart
PAPERS = ("voltanallm", "voltanallm-5l", "greenserve", "eco-freq")


class Bench:
    def __init__(self, scenario, differs):
        self.scenario = scenario
        self.differs = differs
        self.apart = scenario == "voltanallm-2p2d"

    def compare(self, name, settings, least=0.0):
        """Points saved beyond the best fixed clock, gaps and first tokens given up against the maximum clock in points; where
        phases are apart also points beyond the best fixed clock under the same routing, and beyond the best paper's recipe."""
        most = run(self.scenario, "static-max", settings)
        if most is None or (most.all if math.isnan(most.gaps) else min(most.gaps, most.first)) < least:
            return None
        ours = run(self.scenario, "wattle", settings + self.differs)
        clocks = [f"sweet-{p}%" for p in range(90, 0, -10)] + ["sweet"] + [f"sweet+{p}%" for p in range(4, 100, 4)]

        def best(others):
            return max((saved(o, most) for o in others
                        if o and not (o.gaps < ours.gaps - 0.02 or o.first < ours.first - 0.05 or o.all < ours.all - 0.05)), default=None)

        def fixed(routing):
            at = [run(self.scenario, "static-max", settings + routing + [f"frequency.clock_mhz={c}"]) for c in clocks]
            return best([most, *at, run(self.scenario, "static-max", settings + routing)]) or 0.0

        clock = fixed([])
        row = {"beyond": saved(ours, most) - clock, "gaps": most.gaps - ours.gaps, "first": most.first - ours.first, "all": most.all - ours.all}
        kept = "".join(f"{what} {at_most:6.2f} -> {at_ours:6.2f} %  " for what, at_most, at_ours in
                       (("gaps", most.gaps, ours.gaps), ("first tokens", most.first, ours.first), ("all", most.all, ours.all)) if not math.isnan(at_most))
        text = f"{name:38} {kept}saved {saved(ours, most):5.1f} %, fixed clock {clock:5.1f} %"
        if "fleet.0.count=1" not in settings or self.apart:
            routed = fixed(OURS[self.apart])
            row["routed"] = saved(ours, most) - routed
            text += f", same routing {routed:5.1f} %"
        if self.apart:
            paper = best([run(self.scenario, p, settings) for p in PAPERS])
            row["paper"] = None if paper is None else saved(ours, most) - paper
            text += ", papers " + ("less kept" if paper is None else f"{paper:5.1f} %")
        print(text, flush=True)
        return row


def listed(bench):
    for gpu, llm, tp, rates in INSTANCES:
        for rate in rates:
            for gap in GAPS_MS:
                yield bench.compare(f"{gpu} {llm} TP{tp} {rate}/s {gap} ms", [
                    f"fleet.0.gpu={gpu}", f"llm={llm}", f"fleet.0.tensor_parallel={tp}", "fleet.0.count=1", "seed=3",
                    f"workload.rate_per_s={rate}", "workload.requests=4000", f"slo.itl_ms={gap}", "slo.ttft_ms=1000"])


def drawn(bench, count, seed, requests, engines, answers):
    draw = random.Random(seed)
    values_of = {**(APART if bench.apart else DRAWN), **(ENGINES if engines else {}), **(ANSWERS if answers else {})}
    while count > 0:
        settings = [f"{key}={draw.choice(values)}" for key, values in values_of.items()]
        if bench.apart:
            settings.append(settings[0].replace("fleet.0", "fleet.1"))
        row = bench.compare(" ".join(s.split("=")[1] for s in settings), settings + [f"workload.requests={requests}"], least=90.0 if engines else 60.0)
        count -= row is not None
        yield row


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--random", type=int, default=0, help="number of drawn scenarios, instead of the list")
    flags.add_argument("--apart", action="store_true", help="prefill and decode on separate instances; drawn scenarios")
    flags.add_argument("--engines", action="store_true", help="drawn scenarios differ in their engines' limits and scheduling, too; the maximum clock keeps 90 %% of gaps and first tokens, not 60")
    flags.add_argument("--answers", action="store_true", help="drawn scenarios have an E2E objective and no other")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--requests", type=int, default=3000, help="per drawn scenario; with few a run may end before the queue of an overloaded slow clock shows")
    flags.add_argument("--set", action="append", default=[], help="override of the recipe, as for `wattle sim`")
    args = flags.parse_args()
    bench = Bench("voltanallm-2p2d" if args.apart else "synthetic-poisson", args.set)
    count = args.random or (60 if args.apart else 0)
    rows = [row for row in (drawn(bench, count, args.seed, args.requests, args.engines, args.answers) if count else listed(bench)) if row is not None]
    print(f"{len(rows)} scenarios")
    for key, other in (("beyond", "the fixed clock"), ("routed", "a fixed clock under the same routing"), ("paper", "the papers' recipes")):
        of = [row[key] for row in rows if row.get(key) is not None]
        if of:
            print(f"ahead of {other} by more than 0.3 points in {sum(s > 0.3 for s in of)} of {len(of)} that keep as much, "
                  f"behind by more than 0.3 in {sum(s < -0.3 for s in of)}")
    for key, what in (("beyond", "points saved beyond the fixed clock"), ("routed", "beyond one under the same routing"),
                      ("gaps", "points of gaps given up"), ("first", "points of first tokens given up"),
                      ("all", "points of requests with all objectives given up")):
        column = sorted(row[key] for row in rows if not math.isnan(row.get(key, math.nan)))
        if column:
            print(f"{what}: {column[0]:.1f} to {column[-1]:.1f}, mean {sum(column) / len(column):.1f}, "
                  f"median {column[len(column) // 2]:.1f}, nine in ten below {column[len(column) * 9 // 10]:.1f}")


if __name__ == "__main__":
    main()
