"""FREESH live over two sites: one gateway, one planner with its rolling horizon, engines that are processes (emulated), each at
its site. As electricity becomes cleaner at the other site the pools move there through the plan contract, under load;
the ledger says what each site has used at its own intensity; a tenant's data stay where they may be; a round trip counts
in the time to the first token; no request fails."""
import csv
import json
import os

from planner import Clients, free_endpoint, sending
from processes import PATIENCE_S, Processes, arguments, eventually, get, post, scratch

MODEL = "llama-3.1-8b"
SHORT, LONG = 20, 500  # prompt tokens on both sides of the border
FLIP_S = 25.0  # after a process's start electricity is cleaner at the other site
SCENARIO = f"""
name = "two-sites"
llm = "{MODEL}"
[workload]
synthetic = "azure-conv"
[classes]
prompt_below = [400]
[spawn]
load_s = 0.3
warm_s = 0.1
""" + "".join(f"""
[[site]]
name = "{name}"
start = "2024-01-01 00:00:00"
intensity_file = "{name}.csv"
intensity_column = "g_per_kwh"
[[node]]
name = "{name}"
site = "{name}"
gpu = "a100-80g"
gpus = 2
[[fleet]]
role = "colocated"
gpu = "a100-80g"
count = {count}
tensor_parallel = 1
site = "{name}"
""" for name, count in (("north", 1), ("south", 0)))
RECIPE = """
name = "two-sites"
description = "FREESH's pools, in a hurry."
[scaling]
policy = "freesh"
period_s = 0.5
epoch_s = 5
slot_s = 1
formulation = "published"
[queueing]
policy = "llf"
[routing]
policy = "weighted-round-robin"
[frequency]
policy = "static"
"""


def write_series(folder: str) -> None:
    for name, before, after in (("north", 100, 900), ("south", 500, 200)):
        with open(os.path.join(folder, name + ".csv"), "w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("datetime_utc", "g_per_kwh"))
            for s in range(0, 3600, 5):
                rows.writerow((f"2024-01-01 00:{s // 60:02}:{s % 60:02}", before if s < FLIP_S else after))


def start_two_sites(node: Processes, folder: str, nvml: str, scenario: str, recipe: str, *more: str,
                    log: str | None = None) -> tuple[dict, list]:
    """An agent over four GPUs and a gateway, with `more` of its flags: what the gateway says as it starts, and flags that
    give a planner two slots at each site."""
    fpm = [free_endpoint(folder) for _ in range(4)]
    engines = [word for g in range(4) for word in ("--engine", f"{fpm[g]}={g}")]
    _, agent = node.start("agent", *engines, "--recipe", "static-max", "--gpu", "a100-80g", "--llm", MODEL, "--nvml", nvml,
                          "--state", os.path.join(folder, "locks"))
    _, gateway = node.gateway("--model", MODEL, "--recipe",
                              recipe, "--gpu", "a100-80g", "--llm", MODEL, "--scenario", scenario, "--agent", agent["admin"], *more,
                              log=log)
    return gateway, [word for g in range(4) for word in ("--slot", f"{g // 2}={g}@{fpm[g]},node={g // 2}")]


def both_classes(clients: Clients):
    """Ten requests a second, short ones and long ones in turn, until the block ends."""
    def both() -> None:
        clients.send(10, SHORT)
        clients.send(10, LONG)

    return sending(both, lambda: 5)


class Tenants(Clients):
    """As Clients, with headers."""

    def as_tenant(self, tenant: str) -> int:
        status, _ = post(self.url + "/v1/completions", {"model": MODEL, "prompt": [7] * SHORT, "max_tokens": 3},
                         {"X-Wattle-Tenant": tenant})
        return status


def main() -> None:
    flags = arguments()
    with scratch() as folder:
        node = Processes(flags.wattle, folder, gpus=4)
        write_series(folder)
        scenario, recipe = os.path.join(folder, "two-sites.toml"), os.path.join(folder, "recipe.toml")
        for path, text in ((scenario, SCENARIO), (recipe, RECIPE)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        served = scenario + ".served.toml"  # the gateway's: with tenants
        with open(served, "w", encoding="utf-8") as file:
            file.write(SCENARIO + """
[[tenant]]
name = "of the south"
residency = "south"
""")
        pids: set[int] = set()
        try:
            gateway, slots = start_two_sites(node, folder, flags.nvml, served, recipe, "--journal", os.path.join(folder, "run"))
            url, admin = gateway["url"], gateway["admin"]
            planner, at = node.start("planner", scenario, "--recipe", recipe, "--gateway", admin, *slots, "--logs", folder)
            clients = Tenants(url, MODEL)

            def fleet() -> list:
                """(node, pool) of those that serve."""
                engines = json.loads(get(at["admin"] + "/fleet"))["engines"]
                pids.update(e["pid"] for e in engines if e["pid"] > 0)
                return sorted((e["node"], e["pool"]) for e in engines if e["phase"] == "serving")

            def used() -> dict:
                return json.loads(get(admin + "/usage"))["sites"]

            with both_classes(clients):
                eventually("both classes are served in the north", lambda: fleet() == [(0, 0), (0, 1)])
                assert clients.as_tenant("of the south") == 503, "nobody is there"
                eventually("it has used energy", lambda: (used()["north"]["energy_j"] or 0) > 0)
                workers = json.loads(get(admin + "/workers"))["workers"]
                assert {w["site"] for w in workers} == {"north"}, workers
                south_before = used().get("south", {}).get("energy_j") or 0
                eventually("both pools have moved south", lambda: fleet() == [(1, 0), (1, 1)], FLIP_S + PATIENCE_S, fleet, 0.2)
                assert clients.as_tenant("of the south") == 200
                assert clients.as_tenant("of nowhere") == 200
                eventually("the south is booked", lambda: (used()["south"]["energy_j"] or 0) > south_before)
                newest = json.loads(get(at["admin"] + "/fleet"))["plan"]["reason"]
                assert newest == "pools of least carbon for the next epoch", newest
            assert clients.count(200) == clients.sent, clients.answers
            sites = used()
            for name, low, high in (("north", 100, 900), ("south", 200, 500)):
                grams = sites[name]["carbon_g"] / sites[name]["energy_j"] * 3.6e6
                assert low - 1 <= grams <= high + 1, (name, sites[name])
            node.stop(planner)
        finally:
            node.end(pids)


if __name__ == "__main__":
    main()
