"""Two SLO tiers of one service, live (emulated engines): under load the plan gives each tier its own pool, requests go to the pool
of their tier, and the agent applies only that tier's objectives to the loose pool's engines; when the load has fallen both share
a pool with the strict objectives. No request fails."""
import json
import os

from planner import Clients, free_endpoint, pools_serving, sending
from processes import PATIENCE_S, Processes, arguments, decisions_of, eventually, get, requests_of, scratch

MODEL = "llama-2-13b"
LOOSE_TBT_MS, STRICT_TBT_MS = 200, 12
LOOSE, STRICT = 0, 1  # in the order of [[tier]]s
LOOSE_POOL, STRICT_POOL = 0, 1  # of classes of one size, the strictest last
SCENARIO = f"""
name = "two-tiers"
llm = "{MODEL}"
[workload]
prompt_mean = 200
prompt_std = 50
output_mean = 100
output_std = 30
max_prompt_tokens = 512
max_output_tokens = 256
rate_per_s = 1
[engine]
gpu_memory_utilization = 0.95
[slo]
ttft_ms = 1000
tbt_ms = {LOOSE_TBT_MS}
[[tier]]
name = "batch"
[[tier]]
name = "interactive"
tbt_ms = {STRICT_TBT_MS}
[[tenant]]
name = "reports"
share = 9
tier = "batch"
[[tenant]]
name = "chat"
share = 1
tier = "interactive"
[spawn]
load_s = 0.5
warm_s = 0.1
[[fleet]]
role = "colocated"
count = 1
gpu = "h100"
max_load_per_s = 5
"""
GPUS = 4
# Epochs of seconds instead of half hours; the forecast is the maximum of the last six slots.
SETS = [word for key in ("classify.by_tier=true", "scaling.nodes=4", "scaling.epoch_s=3", "scaling.pool_epoch_s=1",
                         "scaling.period_s=0.5", "scaling.slot_s=1", "scaling.vm_s=0", "scaling.gpu_init_s=0",
                         "scaling.weights_s=0", "scaling.engine_s=0", "scaling.install_s=0.5") for word in ("--set", key)]
BUSY_PER_S = 12.0  # one engine carries 46 at the loose objective, 6 at the strict one: three for all, or one for each tier


def check_journal(folder: str, sent: int) -> None:
    """Every request has left once. Strict ones were all sent to the strict pool; loose ones to theirs while there was one, but
    for what was too much for it."""
    rows = requests_of(folder)
    assert len({row["request_id"] for row in rows}) == len(rows) == sent, (len(rows), sent)
    assert all(row["fate"] == "finished" for row in rows), rows
    tier_of = {int(row["request_id"]): int(row["tier_id"]) for row in rows}
    records = decisions_of(folder)
    sent_to = [(tier_of[r["request"]], r["value"], r["at_ns"]) for r in records if r["kind"] == "pool"]
    assert {pool for tier, pool, _ in sent_to if tier == STRICT} == {STRICT_POOL}, sent_to
    own = [at for tier, pool, at in sent_to if (tier, pool) == (LOOSE, LOOSE_POOL)]
    meanwhile = [pool for tier, pool, at in sent_to if tier == LOOSE and own[0] <= at <= own[-1]]
    assert len(meanwhile) > BUSY_PER_S and meanwhile.count(LOOSE_POOL) > 0.8 * len(meanwhile), (meanwhile.count(LOOSE_POOL), len(meanwhile))


def main() -> None:
    flags = arguments()
    with scratch() as folder:
        node = Processes(flags.wattle, folder, gpus=GPUS, clock_max=1980)
        node.env["WATTLE_CACHE"] = os.path.join(folder, "cache")
        scenario, run = os.path.join(folder, "two-tiers.toml"), os.path.join(folder, "run")
        with open(scenario, "w", encoding="utf-8") as file:
            file.write(SCENARIO)
        pids: set[int] = set()
        try:
            fpm = [free_endpoint(folder) for _ in range(GPUS)]
            engines = [word for g in range(GPUS) for word in ("--engine", f"{fpm[g]}={g}")]
            slots = [word for g in range(GPUS) for word in ("--slot", f"0={g}@{fpm[g]},node={g}")]
            believed = ["--recipe", "dynamollm-ours", "--set", "classify.by_tier=true", "--scenario", scenario, "--gpu", "h100",
                        "--llm", MODEL, "--gpu-memory-utilization", "0.95"]
            _, agent = node.start("agent", *engines, *believed, "--nvml", flags.nvml, "--ttft-slo-ms", "1000", "--itl-slo-ms",
                                  str(STRICT_TBT_MS), "--state", os.path.join(folder, "locks"))
            gateway_runs, gateway = node.gateway("--model", MODEL, *believed, "--agent", agent["admin"], "--journal", run)
            planner, at = node.start("planner", scenario, "--recipe", "dynamollm-ours", *SETS, "--gateway", gateway["admin"], *slots,
                                     "--logs", folder)
            clients = Clients(gateway["url"], MODEL)
            rate, strict_every = [BUSY_PER_S], [10]

            def one() -> None:
                clients.send(8, 100, X_Wattle_Tier="batch" if clients.sent % strict_every[0] else "interactive")

            def pools() -> tuple[set, set]:
                return pools_serving(at["admin"], gateway["admin"], LOOSE_POOL, pids)

            def held() -> dict:
                """The objectives that the agent applies to the engines of each pool, after the gateway's plan."""
                said = json.loads(get(agent["admin"] + "/engines"))["engines"]
                return {pool: [e["objectives"]["tbt_ms"] for e in said if e.get("pool") == pool and "objectives" in e]
                        for pool in (LOOSE_POOL, STRICT_POOL)}

            def settle(what: str, where: set, loose_at: set) -> None:
                eventually(what, lambda: pools() == (where, loose_at), 2 * PATIENCE_S, pools, 0.1)

            with sending(one, lambda: rate[0]):
                settle("tiers have pools of their own", {LOOSE_POOL, STRICT_POOL}, {LOOSE_POOL})
                eventually("the loose pool is held to its own objectives", lambda: LOOSE_TBT_MS in held()[LOOSE_POOL], seen=held)
                assert held()[STRICT_POOL] == [], held()
                sent = clients.sent  # what is answered from now on may have been sent to a pool before
                eventually("both are served", lambda: clients.sent > sent + 3 * BUSY_PER_S)
                rate[0], strict_every[0] = 1.0, 2
                settle("tiers share the strict pool", {STRICT_POOL}, {STRICT_POOL})
                eventually("which is held to the strict ones", lambda: held() == {LOOSE_POOL: [], STRICT_POOL: []}, seen=held)
                answered = len(clients.answers)
                eventually("both are served", lambda: len(clients.answers) > answered + 3)
            assert clients.count(200) == clients.sent > 0, [s for s in clients.answers if s != 200]
            node.stop(planner)
            node.stop(gateway_runs)
            check_journal(run, clients.sent)
        finally:
            node.end(pids)


if __name__ == "__main__":
    main()
