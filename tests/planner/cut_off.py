"""A site cut off, live (FREESH over two sites, emulated): every engine there stops answering, as behind a broken link. The planner
finds out by what the gateway reaches, plans without the site at once, and the other site serves all of what comes as soon as its
engines have started; what comes before is refused (503 with Retry-After) and counted, as is a request of which the client has had no
byte, whatever engine had it. The site is tried again after a pause. Only streams that had begun end with an error. Each request has
one fate in the journal, and nothing is paid for twice."""
import csv
import json
import os
import signal
import time

from planner import Clients
from processes import PATIENCE_S, Processes, arguments, decisions_of, eventually, get, log_objects, requests_of, scratch
from sites import LONG, MODEL, RECIPE, SCENARIO, SHORT, both_classes, start_two_sites
from streams import Requests

STREAM_TOKENS = 150
SHED = 4  # of journal::Rung


def check_journal(folder: str, sent: int, failed: int, refused: int) -> None:
    rows = requests_of(folder)
    assert len(rows) == len({row["request_id"] for row in rows}) == sent, (len(rows), sent)
    fates = [row["fate"] for row in rows]
    assert (fates.count("failed"), fates.count("rejected")) == (failed, refused), {f: fates.count(f) for f in set(fates)}
    assert fates.count("finished") == sent - failed - refused, {f: fates.count(f) for f in set(fates)}
    records = decisions_of(folder)
    again = {r["request"] for r in records if r["reason"] == "its instance was lost: once more"}
    assert again, "some were caught, and it is written down"
    shed = {r["request"] for r in records if r["kind"] == "emergency" and r["value"] == SHED}
    assert len(shed) == refused, (len(shed), refused)
    plans = [r["plan"].get("problem", "") for r in records if r["kind"] == "plan"]
    assert any("refused until all that is planned serves" in problem for problem in plans), plans
    assert not plans[-1], plans[-1]
    print(f"{len(again)} requests were sent once more")


def main() -> None:
    flags = arguments()
    with scratch() as folder:
        run = os.path.join(folder, "run")
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
            gateway, slots = start_two_sites(node, folder, flags.nvml, scenario, recipe, "--journal", run,
                                             "--unready-wait-s", "20")
            planner, at = node.start("planner", scenario, "--recipe", recipe, "--gateway", gateway["admin"], *slots, "--logs", folder,
                                     "--cut-off-after-s", "1", "--cut-off-pause-s", "15", "--log-format", "json",
                                     log=os.path.join(folder, "planner.log"))
            clients = Clients(gateway["url"], MODEL)
            streams = Requests(gateway["url"], MODEL)

            def send_streams() -> None:
                for i in range(10):
                    streams.send(STREAM_TOKENS, SHORT if i % 2 else LONG)


            def fleet() -> dict:
                """pid by (node, pool) of those that serve."""
                all_of = json.loads(get(at["admin"] + "/fleet"))["engines"]
                pids.update(e["pid"] for e in all_of if e["pid"] > 0)
                return {(e["node"], e["pool"]): e["pid"] for e in all_of if e["phase"] == "serving"}

            def moved(site: int) -> None:
                eventually(f"both pools are at site {site}", lambda: sorted(fleet()) == [(site, 0), (site, 1)], 2 * PATIENCE_S,
                           lambda: get(at["admin"] + "/fleet"), 0.1)

            with both_classes(clients):
                moved(0)
                before = clients.sent
                eventually("requests are answered", lambda: clients.answers.count(200) > 4)
                send_streams()
                eventually("some streams have begun", lambda: streams.begun > 2)
                for pid in fleet().values():
                    os.kill(pid, signal.SIGSTOP)
                began = time.monotonic()
                send_streams()  # no engine answers them there
                moved(1)
                took = time.monotonic() - began
                answered = len(clients.answers)
                settled = clients.sent
                eventually("the other site answers", lambda: len(clients.answers) > answered + 10)
                moved(0)  # it is tried again, and is the cleaner one
                eventually("and answers", lambda: clients.sent > settled + 40)
            good = clients.count(200)
            streams.settle()
            assert len(clients.answers) == clients.sent and before > 0, "each request has its answer"
            refused = clients.count(503)
            assert refused > 0 and good + refused == clients.sent, [s for s in clients.answers if s not in (200, 503)]
            refused += streams.answers.count((True, 0, "503"))
            cut = [(events, end) for _, events, end in streams.answers if end not in ("done", "503")]
            assert len(streams.answers) == 20 and cut, streams.answers
            assert all(events > 0 and end == "error" for events, end in cut), ("only what had begun fails", streams.answers)

            def left_over() -> float:
                """What engines did for requests and no request has, as a share: what ended last is booked with the next readings."""
                usage = json.loads(get(gateway["admin"] + "/usage"))
                parts = usage["energy_j"]
                return abs(parts["prefill"] + parts["decode"] - usage["requests"]["energy_j"]) / parts["total"]

            eventually("requests have what engines did for them", lambda: left_over() < 1e-6, seen=left_over)
            said = json.loads(get(gateway["admin"] + "/usage"))
            used, tolerance = said["energy_j"], 1e-6 * said["energy_j"]["total"]
            assert abs(sum(used[part] for part in ("prefill", "decode", "idle", "residue")) - used["total"]) < tolerance, used
            assert used["total"] <= used["metered"] + tolerance, used
            print(f"cut off: {took:.1f} s until the other site served; of {clients.sent + 20} requests {refused} were refused and "
                  f"{len(cut)} failed, all of them streams that had begun")
            node.stop(planner)
            node.stop(node.running[1])  # the gateway: its journal is whole
            check_journal(run, clients.sent + 20, len(cut), refused)
            events = {one["message"] for one in log_objects(os.path.join(folder, "planner.log"))}
            assert {"engine", "a node is cut off: plans do without it", "a node that was cut off is tried again"} <= events, events
        finally:
            node.end(pids)


if __name__ == "__main__":
    main()
