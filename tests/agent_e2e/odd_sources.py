"""Carbon providers that misbehave, each at a site of its own of one gateway: what is no intensity is unknown, never zero, with
the reason in the log; one that asks to be left alone is; one that hangs keeps no other one waiting; one that complains in other words
each time does not fill the log; and what has recovered is known again."""
import datetime
import http.server
import json
import os
import threading
import time
import urllib.parse

from processes import a_node, arguments, eventually, get, metric

asked: dict[str, list[float]] = {}
recovered = threading.Event()


class Provider(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        zone = urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query)["zone"][0]
        asked.setdefault(zone, []).append(time.monotonic())
        now = datetime.datetime.now(datetime.timezone.utc)
        begun = now + datetime.timedelta(hours={"early": 1, "stale": -6}.get(zone, 0), seconds=-60)
        if zone == "hangs":
            return time.sleep(4)
        if zone == "busy":
            return self.answer(429, {}, "60")
        if zone == "noisy" or (zone == "away" and not recovered.is_set()):
            return self.answer(400, {"detail": f"request {len(asked[zone])}"})
        return self.answer(200, {"zone": zone, "carbonIntensity": 0.302 if zone == "kg" else 302, "datetime": begun.isoformat(),
                                 "temporalGranularity": "5_minutes", "emissionFactorType": "lifecycle"})

    def answer(self, status: int, body: object, retry_after: str = "") -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


ZONES = ("good", "early", "stale", "kg", "busy", "hangs", "noisy", "away")


def main() -> None:
    flags = arguments()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with a_node(flags.wattle) as (node, folder):
        node.env = {name: value for name, value in node.env.items() if not name.lower().endswith("_proxy")}
        key, sites, log = (os.path.join(folder, name) for name in ("key", "sites.toml", "log"))
        with open(key, "w", encoding="utf-8") as file:
            file.write("key\n")
        with open(sites, "w", encoding="utf-8") as file:
            file.write('llm = "llama-3.1-8b"\n[workload]\nsynthetic = "azure-conv"\n' + "".join(f"""
[[site]]
name = "{zone}"
intensity_source = "electricity-maps"
intensity_zone = "{zone}"
intensity_base_url = "http://127.0.0.1:{server.server_port}"
intensity_key_file = "{key}"
source_refresh_s = 0.1
source_max_age_s = 0
source_timeout_s = 2
""" for zone in ZONES) + '[[fleet]]\nrole = "colocated"\ngpu = "a100-80g"\ncount = 1\nsite = "good"\n')
        _, at = node.gateway("--model", "m", "--worker", "http://127.0.0.1:1", "--sites", sites, log=log)
        known = lambda zone: metric(at["admin"], "wattle_gateway_site_intensity_known", f'"{zone}"') == 1

        def lines(zone: str, what: str) -> list[str]:
            with open(log, encoding="utf-8") as file:
                return [line for line in file if f"electricity-maps {zone}" in line and what in line]

        eventually("a good one is known", lambda: known("good"))
        assert metric(at["admin"], "wattle_gateway_site_intensity_grams_per_kwh", '"good"') == 302
        for zone, why in (("early", "begins at"), ("stale", "ended"), ("kg", "kg/kWh"), ("busy", "after 60 s"), ("hangs", "imeout")):
            eventually(f"{zone} is unknown for a reason that is logged", lambda: lines(zone, why) and not known(zone))
            assert f'site_intensity_grams_per_kwh{{site="{zone}"}}' not in get(at["admin"] + "/metrics"), zone
        eventually("a text of its own for each answer", lambda: len(asked.get("noisy", [])) >= 20)
        assert len(lines("noisy", "no answer")) <= 4, lines("noisy", "")
        assert len(asked["busy"]) == 1, "it asked to be left alone"
        eventually("it has been asked", lambda: asked.get("away"))
        assert not known("away")
        recovered.set()
        eventually("what has recovered is known", lambda: known("away"))
        hung = len(asked["hangs"])
        assert len(asked["good"]) > 3 * hung, (len(asked["good"]), hung)
    print("ok")


if __name__ == "__main__":
    main()
