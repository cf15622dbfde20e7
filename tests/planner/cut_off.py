"""A site cut off, live (FREESH over two sites, emulated): every engine there stops answering, as behind a broken link. The planner
finds out by what the gateway reaches, plans without the site at once, and the other site serves all of what comes; the site is tried
again after a pause. Every request gets an answer: those caught in the engines that went silent an error, all others 200."""
import argparse
import csv
import json
import os
import signal
import time

from planner import Clients
from processes import PATIENCE_S, Processes, eventually, get, scratch
from sites import MODEL, RECIPE, SCENARIO, both_classes, start_two_sites


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    flags = parser.parse_args()
    with scratch() as folder:
        node = Processes(flags.wattle, folder, gpus=4)
        for name, grams in (("north", 100), ("south", 500)):
            with open(os.path.join(folder, name + ".csv"), "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([("datetime_utc", "g_per_kwh"),
                                            *((f"2024-01-01 {h:02}:00:00", grams) for h in range(4))])
        scenario, recipe = os.path.join(folder, "two-sites.toml"), os.path.join(folder, "recipe.toml")
        for path, text in ((scenario, SCENARIO), (recipe, RECIPE)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        pids: set[int] = set()
        try:
            gateway, slots = start_two_sites(node, folder, flags.nvml, scenario, recipe)
            planner, at = node.start("planner", scenario, "--recipe", recipe, "--gateway", gateway["admin"], *slots, "--logs", folder,
                                     "--cut-off-after-s", "1", "--cut-off-pause-s", "15")
            clients = Clients(gateway["url"], MODEL)

            def fleet() -> dict:
                """pid by (node, pool) of those that serve."""
                all_of = json.loads(get(at["admin"] + "/fleet"))["engines"]
                pids.update(e["pid"] for e in all_of if e["pid"] > 0)
                return {(e["node"], e["pool"]): e["pid"] for e in all_of if e["phase"] == "serving"}

            def moved(site: int) -> None:
                end = time.monotonic() + 2 * PATIENCE_S
                while sorted(fleet()) != [(site, 0), (site, 1)]:
                    assert time.monotonic() < end, f"never: both pools are at site {site}; {get(at['admin'] + '/fleet')}"
                    time.sleep(0.1)

            with both_classes(clients):
                moved(0)
                before = clients.sent
                eventually("requests are answered", lambda: clients.answers.count(200) > 4)
                for pid in fleet().values():
                    os.kill(pid, signal.SIGSTOP)
                began = time.monotonic()
                moved(1)
                took = time.monotonic() - began
                answered = len(clients.answers)
                settled = clients.sent
                eventually("the other site answers", lambda: len(clients.answers) > answered + 10)
                moved(0)  # it is tried again, and is the cleaner one
                eventually("and answers", lambda: clients.sent > settled + 40)
            good = clients.count(200)
            failed = [status for status in clients.answers if status != 200]
            assert len(clients.answers) == clients.sent, "each request has its answer"
            assert set(failed) <= {500, 502, 503, 504}, failed
            # Ten a second came until the other site served; none fails before or after.
            assert len(failed) <= 10 * (took + 1), (failed, took)
            assert good > 0 and before > 0
            print(f"cut off: {took:.1f} s until the other site served, {len(failed)} of {clients.sent} requests failed")
            node.stop(planner)
        finally:
            node.end(pids)


if __name__ == "__main__":
    main()
