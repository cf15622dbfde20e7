"""FREESH's choice among partitions of requests, live (emulated engines): where prompts of 20 and 200 tokens come, the plan chooses
the partition that takes both for short ones, and one pool serves them; where prompts of 200 and 500 tokens come, it chooses the one
that takes both for long ones. Requests of 200 tokens go to the pool of the partition in force, and no request fails."""
import csv
import os

from planner import Clients, pools_serving, sending
from processes import PATIENCE_S, Processes, arguments, eventually, scratch
from sites import MODEL, RECIPE, SCENARIO, start_two_sites

MIDDLE = 2  # of classes by two borders of prompts and one of answers: prompts of 100 to 399 tokens, short answers
SHORT_POOL, LONG_POOL = 0, 2  # SS and LS of either partition
PARTITIONS = """
[classify]
prompt_below = [100, 400]
output_below = [50]
[emergency]
overflow = false
"""


def main() -> None:
    flags = arguments()
    with scratch() as folder:
        node = Processes(flags.wattle, folder, gpus=4)
        for name, grams in (("north", 100), ("south", 500)):
            with open(os.path.join(folder, name + ".csv"), "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([("datetime_utc", "g_per_kwh"),
                                            *((f"2024-01-01 {h:02}:00:00", grams) for h in range(4))])
        # A pool more is a worker more that idles.
        chosen = RECIPE.replace('formulation = "published"', "partition_prompt_below = [100, 400]\npartition_output_below = [50, 50]")
        assert chosen != RECIPE
        scenario, recipe = os.path.join(folder, "two-sites.toml"), os.path.join(folder, "recipe.toml")
        for path, text in ((scenario, SCENARIO), (recipe, chosen + PARTITIONS)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        pids: set[int] = set()
        try:
            gateway, slots = start_two_sites(node, folder, flags.nvml, scenario, recipe)
            planner, at = node.start("planner", scenario, "--recipe", recipe, "--gateway", gateway["admin"], *slots, "--logs", folder)
            clients = Clients(gateway["url"], MODEL)
            prompts = [20, 200]

            def load() -> None:
                for tokens in prompts:
                    clients.send(10, tokens)

            def seen() -> tuple[set, set]:
                return pools_serving(at["admin"], gateway["admin"], MIDDLE, pids)

            def settles_at(pool: int) -> None:
                eventually(f"pool {pool} alone serves", lambda: seen() == ({pool}, {pool}), 2 * PATIENCE_S, seen, 0.1)

            with sending(load, lambda: 5):
                settles_at(SHORT_POOL)
                prompts[:] = [200, 500]
                settles_at(LONG_POOL)
                prompts[:] = [20, 200]
                settles_at(SHORT_POOL)
            assert clients.count(200) == clients.sent > 0, [s for s in clients.answers if s != 200]
            print(f"{clients.sent} requests, all answered")
            node.stop(planner)
        finally:
            node.end(pids)


if __name__ == "__main__":
    main()
