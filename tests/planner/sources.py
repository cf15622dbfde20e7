"""Carbon sources live: a local server answers like Electricity Maps for the ledger, and like a Carbon Aware SDK for decisions.
The planner's pools follow the marginal intensity, the gateway's ledger the average. If the server refuses the key, or does not
answer in time, the carbon term is off with a warning, and energy is booked with unknown carbon."""
import datetime
import http.server
import json
import os
import threading
import time
import urllib.parse

from planner import Clients
from processes import Processes, arguments, eventually, get, metric, scratch
from sites import MODEL, RECIPE, both_classes, start_two_sites

HOLDS_S = 3  # seconds for which a value is valid after the query
BLIND = "an intensity is unknown: planned without carbon"


class Provider(http.server.BaseHTTPRequestHandler):
    books = {"north": 300.0, "south": 350.0}
    decisions = {"north": 100.0, "south": 500.0}
    refuses: int | None = None  # questions about decisions
    counting = threading.Lock()
    open_questions = most_at_once = 0  # about decisions
    hangs = False  # questions about the books

    def do_GET(self) -> None:
        url = urllib.parse.urlparse(self.path)
        asked = {name: values[0] for name, values in urllib.parse.parse_qs(url.query).items()}
        now = datetime.datetime.now(datetime.timezone.utc)
        if url.path.startswith("/books/v3/carbon-intensity/latest"):
            if Provider.hangs:
                time.sleep(2)
                return None
            if self.headers["auth-token"] != "right-key":
                return self.answer(401, {"error": "Invalid auth-token"})
            begun = now - datetime.timedelta(seconds=300 - HOLDS_S)
            return self.answer(200, {"zone": asked["zone"], "carbonIntensity": Provider.books[asked["zone"]],
                                     "datetime": begun.isoformat(), "temporalGranularity": "5_minutes",
                                     "emissionFactorType": asked["emissionFactorType"]})
        if url.path.startswith("/decisions/emissions/bylocation"):
            with Provider.counting:
                Provider.open_questions += 1
                Provider.most_at_once = max(Provider.most_at_once, Provider.open_questions)
            time.sleep(0.1)
            with Provider.counting:
                Provider.open_questions -= 1
            if Provider.refuses:
                return self.answer(Provider.refuses, {"error": "no"})
            return self.answer(200, [{"location": asked["location"], "time": now.isoformat(),
                                      "rating": Provider.decisions[asked["location"]], "duration": f"00:00:0{HOLDS_S}"}])
        return self.answer(404, {})

    def answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


def scenario_text(base: str, key: str) -> str:
    return f"""
name = "sources"
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
intensity_source = "electricity-maps"
intensity_zone = "{name}"
intensity_base_url = "{base}/books"
intensity_key_file = "{key}"
decision_source = "carbon-aware"
decision_zone = "{name}"
decision_base_url = "{base}/decisions"
source_refresh_s = 0.5
source_max_age_s = 0
source_timeout_s = 1
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


def main() -> None:
    flags = arguments()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with scratch() as folder:
        node = Processes(flags.wattle, folder, gpus=4)
        node.env = {name: value for name, value in node.env.items() if not name.lower().endswith("_proxy")}
        key = os.path.join(folder, "key")
        scenario, recipe = os.path.join(folder, "sources.toml"), os.path.join(folder, "recipe.toml")
        for path, text in ((key, "right-key\n"), (recipe, RECIPE),
                           (scenario, scenario_text(f"http://127.0.0.1:{server.server_port}", key))):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        pids: set[int] = set()
        run, gateway_log, planner_log = (os.path.join(folder, name) for name in ("run", "gateway.log", "planner.log"))
        try:
            gateway, slots = start_two_sites(node, folder, flags.nvml, scenario, recipe, "--journal", run, log=gateway_log)
            admin = gateway["admin"]
            planner, at = node.start("planner", scenario, "--recipe", recipe, "--gateway", admin, *slots, "--logs", folder,
                                     log=planner_log)
            clients = Clients(gateway["url"], MODEL)

            def fleet() -> dict:
                said = json.loads(get(at["admin"] + "/fleet"))
                pids.update(e["pid"] for e in said["engines"] if e["pid"] > 0)
                return said

            def places() -> list:
                return sorted((e["node"], e["pool"]) for e in fleet()["engines"] if e["phase"] == "serving")

            def used() -> dict:
                return json.loads(get(admin + "/usage"))

            def says(log: str, what: str) -> bool:
                with open(log, encoding="utf-8") as file:
                    return what in file.read()

            with both_classes(clients):
                eventually("both classes are served where it is clean", lambda: places() == [(0, 0), (0, 1)])
                Provider.decisions = {"north": 900.0, "south": 200.0}  # the books' north is the cleaner one as before
                eventually("the pools have followed the decisions' source", lambda: places() == [(1, 0), (1, 1)])
                assert fleet()["plan"]["reason"] == "pools of least carbon for the next epoch", fleet()["plan"]
                eventually("the south is booked", lambda: (used()["sites"]["south"]["energy_j"] or 0) > 0)
                south = used()["sites"]["south"]
                assert abs(south["carbon_g"] / south["energy_j"] * 3.6e6 - 350) < 1, south
                assert south["unknown_carbon_j"] == 0, south
                before = used()["energy_j"]["unknown_carbon"]

                Provider.refuses = 401
                eventually("the carbon term is off", lambda: fleet()["plan"]["reason"] == BLIND)
                eventually("with a warning", lambda: says(planner_log, "carbon intensity is unknown"))
                assert says(planner_log, "answered 401")
                assert used()["energy_j"]["unknown_carbon"] == before, "the books have another source"
                Provider.refuses = 429
                eventually("the other reason is logged", lambda: says(planner_log, "answered 429"))
                Provider.refuses = None
                eventually("and it is on again", lambda: fleet()["plan"]["reason"] != BLIND)

                Provider.hangs = True
                eventually("energy is booked as of unknown carbon",
                           lambda: metric(admin, "wattle_gateway_energy_of_unknown_carbon_joules_total") > before)
                eventually("with a warning", lambda: says(gateway_log, "carbon intensity is unknown"))
                south = used()["sites"]["south"]
                assert abs(south["carbon_g"] / south["energy_j"] * 3.6e6 - 350) < 1, "held, not zero"
            assert clients.count(200) == clients.sent, clients.answers
            assert Provider.most_at_once >= 2, "one source keeps no other one waiting"
            node.stop(planner)
            for process in list(node.running):
                node.stop(process)
            with open(os.path.join(run, "run.json"), encoding="utf-8") as file:
                facts = json.load(file)["facts"]["sites"]
            assert facts[0] == {"name": "north", "books_by": "average, electricity-maps north",
                                "decisions_by": "marginal, carbon-aware north"}, facts
        finally:
            node.end(pids)


if __name__ == "__main__":
    main()
