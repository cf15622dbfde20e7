"""FREESH's P/D pairs, live (emulated engines): under little load one colocated engine serves; where more comes the plan starts a
pair beside it, two processes that serve together and drain together. Requests that are computed at a pair's prefill engine decode
at its decode engine, others at the colocated one, in one fleet. An engine of a pair that is killed takes the other with it, and
another pair starts; only requests that were in them fail. A gateway that has restarted hears of the pair again, which no plan ends
because nobody said what arrived meanwhile, and a planner that takes over has it as its predecessor had it."""
import contextlib
import http.client
import json
import os
import signal
import time

from planner import Clients, sending
from processes import PATIENCE_S, Processes, arguments, eventually, get, requests_of, scratch
from sites import MODEL, start_two_sites

FLEETS = ("colocated", "colocated", "prefill", "decode")  # of GPU 0 to 3, of which plans have three: no two pairs
SCENARIO = f"""
name = "one-site"
llm = "{MODEL}"
[workload]
requests = 1000
rate_per_s = 0.5
arrival_cv = 1
prompt_mean = 1155
prompt_std = 1109
output_mean = 211
output_std = 163
max_prompt_tokens = 8192
max_output_tokens = 2048
[slo]
ttft_ms = 500
tbt_ms = 20
[spawn]
load_s = 0.3
warm_s = 0.1
[[site]]
name = "north"
intensity_g_per_kwh = 100
[[node]]
name = "north"
site = "north"
gpu = "a100-80g"
gpus = 3
""" + "".join(f"""
[[fleet]]
role = "{role}"
gpu = "a100-80g"
count = {count}
tensor_parallel = 1
site = "north"
""" for role, count in (("colocated", 1), ("prefill", 0), ("decode", 0)))
RECIPE = """
name = "pairs"
description = "FREESH's pools with pairs, in a hurry."
[scaling]
policy = "freesh"
period_s = 2
epoch_s = 4
slot_s = 2
sweet = true
pairs = ["all"]
weighs = true
[classify]
one = true
[routing]
policy = "weighted-round-robin"
[frequency]
policy = "static"
"""


class Patient(Clients):
    """As Clients; that nobody listens is no answer."""

    def one(self, *request) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            super().one(*request)


def main() -> None:
    flags = arguments()
    with scratch() as folder:
        node = Processes(flags.wattle, folder, gpus=4)
        scenario, recipe, run, again = (os.path.join(folder, name) for name in ("one-site.toml", "recipe.toml", "run", "again"))
        for path, text in ((scenario, SCENARIO), (recipe, RECIPE)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        pids: set[int] = set()
        try:
            gateway, two = start_two_sites(node, folder, flags.nvml, scenario, recipe, "--journal", run)
            ends = [word.split("@")[1].split(",")[0] for word in two[1::2]]
            number = {"colocated": 0, "prefill": 1, "decode": 2}
            slots = [word for gpu, role in enumerate(FLEETS) for word in ("--slot", f"{number[role]}={gpu}@{ends[gpu]},node=0")]

            def start_planner() -> tuple:
                return node.start("planner", scenario, "--recipe", recipe, "--gateway", gateway["admin"], *slots, "--logs", folder,
                                  "--state", os.path.join(folder, "state"))

            planner, at = start_planner()
            clients = Patient(gateway["url"], MODEL)
            rate = [0.5]

            def settle() -> None:
                for thread in list(clients.threads):
                    thread.join()

            pair_of: dict[str, dict[str, str]] = {run: {}, again: {}}  # by journal: of workers of the gateway
            journal = [run]

            def engines() -> list[dict]:
                all_of = json.loads(get(at["admin"] + "/fleet"))["engines"]
                pids.update(e["pid"] for e in all_of if e["pid"] > 0)
                for worker in json.loads(get(gateway["admin"] + "/workers"))["workers"]:
                    if worker["worker_type"] == "prefill":
                        pair_of[journal[0]][worker["id"]] = worker["decode"]
                return all_of

            def serving(role: str) -> list[dict]:
                return [e for e in engines() if e["role"] == role and e["phase"] == "serving"]

            def await_that(what: str, holds) -> None:
                eventually(what, holds, 2 * PATIENCE_S, engines, 0.1)

            def both_serve() -> bool:
                return len(serving("prefill")) == len(serving("decode")) == 1 and len(serving("colocated")) >= 1

            with sending(lambda: clients.send(20, 200), lambda: rate[0]):
                await_that("one engine serves", lambda: len(serving("colocated")) == 1 and len(engines()) == 1)
                rate[0] = 4.8
                await_that("a pair serves beside it", both_serve)
                first = {e["engine"] for e in engines() if e["role"] != "colocated"}
                time.sleep(3)
                settle()
                assert all(status == 200 for status in clients.answers), clients.answers
                os.kill(serving("decode")[0]["pid"], signal.SIGKILL)
                await_that("another pair serves", lambda: both_serve() and not first & {e["engine"] for e in engines()})
                time.sleep(3)
                settle()
                lost = sum(status != 200 for status in clients.answers)
                assert lost <= 10, f"{lost} of {clients.sent} failed, and few were in the pair whose engine was killed"
                node.stop(node.running[1])  # the gateway: its journal is whole then
                places = [gateway[key].removeprefix("http://") for key in ("url", "admin")]
                node.start("gateway", "--listen", places[0], "--admin", places[1], "--model", MODEL, "--recipe", recipe, "--gpu", "a100-80g",
                           "--llm", MODEL, "--scenario", scenario, "--journal", again)
                journal[0] = again

                def uses_the_pair() -> bool:
                    known = {w["id"]: w for w in json.loads(get(gateway["admin"] + "/workers"))["workers"]}
                    at_work = {e["url"]: e["role"] for e in engines() if e["phase"] == "serving"}
                    ready = {w["url"] for w in known.values() if w["status"] == "ready"}
                    decodes = [known[w["decode"]] for w in known.values() if w["worker_type"] == "prefill"]
                    return (set(at_work) <= ready and len(decodes) == 1 and at_work.get(decodes[0]["url"]) == "decode"
                            and decodes[0]["active_requests"] > 0)

                await_that("a gateway that has restarted sends requests to the pair", uses_the_pair)
                pair = {e["pid"] for e in serving("prefill") + serving("decode")}
                assert len(pair) == 2, pair
                settle()
                before = len(clients.answers)
                time.sleep(3)
                node.stop(planner, signal.SIGKILL)
                planner, at = start_planner()
                await_that("its successor has the pair", lambda: {e["pid"] for e in serving("prefill") + serving("decode")} == pair)
                time.sleep(3)
                rate[0] = 0.5
                await_that("the pair is gone, and one engine is left", lambda: len(engines()) == 1 and len(serving("colocated")) == 1)
                sent = clients.sent
                await_that("it is used", lambda: clients.sent > sent + 1)
            settle()
            assert all(status == 200 for status in clients.answers[before:]), "no request fails for a pair that drains"
            node.stop(planner)
            node.stop(node.running[-1])  # the second gateway
        finally:
            node.end(pids)
        for folder_of, pairs in ((run, 2), (again, 1)):
            rows = [row for row in requests_of(folder_of) if row["fate"] == "finished"]
            apart = [row for row in rows if row["prefill_instance"] != row["decode_instance"]]
            assert 0 < len(apart) < len(rows), "some were served in pairs, and some were not"
            for row in apart:
                assert pair_of[folder_of][row["prefill_instance"]] == row["decode_instance"], (row, pair_of)
            assert len({row["prefill_instance"] for row in apart}) >= pairs, "both pairs served, then the second"
            print(f"{len(rows)} requests finished, {len(apart)} of them in pairs, {lost} lost with an engine")


if __name__ == "__main__":
    main()
