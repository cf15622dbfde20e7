"""Runs `wattle carbon` against a local server. Argument: the wattle binary."""
import base64
import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from processes import check

WATTLE = str(pathlib.Path(sys.argv[1]).resolve())
MOER = {"data": [{"point_time": "2023-07-15T00:00:00+00:00", "value": 1000.0}],
        "meta": {"region": "CAISO_NORTH", "signal_type": "co2_moer", "units": "lbs_co2_per_mwh",
                 "data_point_period_seconds": 300, "generated_at": "2023-07-15T00:00:00+00:00"}}
asked: list[str] = []  # every request line: no key may be in one


class Provider(http.server.BaseHTTPRequestHandler):
    def answer(self, status: int, body: object, **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self) -> None:
        asked.append(self.path)
        url = urllib.parse.urlparse(self.path)
        zone = urllib.parse.parse_qs(url.query).get("zone", [""])[0]
        if url.path.startswith("/v3/carbon-intensity"):
            if self.headers["auth-token"] != "right-key":
                return self.answer(401, {"error": "Invalid auth-token"})
            if zone == "BUSY":
                return self.answer(429, "slow down", Retry_After="7")
            if zone == "HUGE":
                return self.answer(200, "[" + "0," * (5 << 20) + "0]")
            if zone == "SLOW":
                time.sleep(3)
                return None
            if zone == "CUT":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"zone":"CUT"')
                return None
            if zone == "HTML":
                return self.answer(200, "<html>gateway</html>")
            if zone == "MOVED":
                return self.answer(302, "", Location="/v3/carbon-intensity/latest?zone=DE")
            if zone == "NULL":
                return self.answer(200, {"zone": "NULL", "carbonIntensity": None, "datetime": "2024-01-01T00:00:00Z"})
            place = "FR" if zone == "NOWHERE" else zone
            return self.answer(200, {"zone": place, "carbonIntensity": 302, "datetime": "2024-01-01T00:00:00.000Z",
                                     "isEstimated": True, "emissionFactorType": "lifecycle"})
        if url.path == "/login":
            wanted = "Basic " + base64.b64encode(b"me:pass").decode()
            return self.answer(200, {"token": "fresh"}) if self.headers["Authorization"] == wanted else self.answer(403, "")
        if url.path == "/v3/forecast":
            return self.answer(200, MOER) if self.headers["Authorization"] == "Bearer fresh" else self.answer(401, "")
        return self.answer(404, "")

    def log_message(self, *_: object) -> None:
        pass


def carbon(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    return subprocess.run([WATTLE, "carbon", *arguments], capture_output=True, text=True, env=clean | environment)


def main() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}"
    with tempfile.TemporaryDirectory() as folder:
        key = pathlib.Path(folder) / "key"
        key.write_text("right-key\n")
        maps = ("--source", "electricity-maps", "--base-url", base, "--key-file", str(key))

        run = carbon(*maps, "--zone", "DE", "--json")
        check(run.returncode == 0, "a good answer should print", run)
        said = json.loads(run.stdout)
        check(said["kind"] == "average" and said["readings"][0]["g_per_kwh"] == 302, "value", run)
        check(said["readings"][0]["estimated"] and "estimated by the provider" in run.stderr, "estimated flag", run)
        check(said["step_s"] == 3600 and said["readings"][0]["from_utc"] == "2024-01-01T00:00:00Z", "time", run)

        for zone, words in {"BUSY": "after 7 s", "CUT": "", "HTML": "is not JSON", "NOWHERE": "answers for zone 'FR'",
                            "NULL": "has no value", "HUGE": "larger than 8 MiB", "MOVED": "answered 302"}.items():
            run = carbon(*maps, "--zone", zone)
            check(run.returncode == 3 and run.stdout == "" and words in run.stderr, f"{zone} should be refused", run)
        run = carbon(*maps, "--zone", "SLOW", "--timeout-s", "0.3")
        check(run.returncode == 3 and "imeout" in run.stderr, "a time-out should be named", run)
        key.write_text("wrong-key")
        run = carbon(*maps, "--zone", "DE")
        check(run.returncode == 3 and "ELECTRICITY_MAPS_TOKEN" in run.stderr, "401 should name the key's place", run)
        run = carbon(*maps[:-2], "--zone", "DE", ELECTRICITY_MAPS_TOKEN="right-key")
        check(run.returncode == 0 and "2024-01-01T00:00:00Z,302,1,0" in run.stdout, "the variable should do", run)
        run = carbon(*maps[:-2], "--zone", "DE", ELECTRICITY_MAPS_TOKEN="")
        check(run.returncode == 2 and "is missing" in run.stderr, "no key", run)

        key.write_text("me:pass")
        run = carbon("--source", "watttime", "--base-url", base, "--key-file", str(key), "--zone", "CAISO_NORTH")
        check(run.returncode == 0 and "marginal_g_per_kwh" in run.stdout and ",453.59237," in run.stdout, "login", run)
        run = carbon("--source", "electricity-maps", "--base-url", "http://127.0.0.1:1", "--zone", "DE",
                     ELECTRICITY_MAPS_TOKEN="right-key")
        check(run.returncode == 3, "nobody there", run)

        stored = pathlib.Path(folder) / "stored.json"
        percentile = MOER | {"meta": MOER["meta"] | {"units": "percentile"}}
        stored.write_text(json.dumps(percentile))
        run = carbon("--source", "watttime", "--file", str(stored))
        check(run.returncode == 2 and "no intensity" in run.stderr, "a percentile should be refused", run)
        stored.write_text(json.dumps({"zone": "DE", "carbonIntensity": 302, "datetime": "2024-10-27T02:30:00+02:00",
                                      "emissionFactorType": "direct"}))
        for flag, wrong, right in (("--kind", "marginal", "average"), ("--scope", "lifecycle", "direct")):
            run = carbon("--source", "electricity-maps", "--file", str(stored), flag, wrong)
            check(run.returncode == 2 and run.stdout == "" and f"{flag}: is {wrong}" in run.stderr, "the flag differs", run)
            run = carbon("--source", "electricity-maps", "--file", str(stored), flag, right)
            check(run.returncode == 0 and "2024-10-27T00:30:00Z,302" in run.stdout, "the flag agrees", run)
        # What is asked of --file is kept to, and what would do nothing is refused.
        direct = pathlib.Path(folder) / "direct.csv"
        direct.write_text("datetime_utc,ci_direct_gco2_kwh\n" + "".join(f"2024-01-01 {h:02}:00:00,{100 + h}\n" for h in range(6)))
        csv = ("--source", "csv-direct", "--file", str(direct))
        run = carbon(*csv, "--kind", "marginal")
        check(run.returncode == 2 and str(direct) in run.stderr, "the file is named", run)
        run = carbon(*csv, "--from", "2024-01-01 01:00", "--to", "2024-01-01 03:00")
        check(run.returncode == 0 and run.stdout.split()[1:] == ["2024-01-01T01:00:00Z,101,0,0", "2024-01-01T02:00:00Z,102,0,0"],
               "from and to hold of a file, too", run)
        for more, words in ((("--from", "2024-01-01 03:00", "--to", "2024-01-01 01:00"), "--to: does not lie after --from"),
                            (("--from", "2025-01-01 03:00"), "nothing of what is asked for"), (("--wish", "latest"), "--wish: "),
                            (("--zone", "GB"), "--zone: "), (("--base-url", base), "--base-url: "), (("--key-file", str(key)), "--key-file: ")):
            run = carbon(*csv, *more)
            check(run.returncode == 2 and run.stdout == "" and words in run.stderr, f"{more} should be refused", run)
        mix = pathlib.Path(folder) / "mix.csv"
        mix.write_text("datetime_utc,wind_mw,solar_mw,hydro_mw,oil_mw,gas_mw,coal_mw,nuclear_mw,other_mw\n"
                       "2022-01-01 00:00:00,0,0,0,0,1,1,0,0\n2022-01-01 01:00:00,1,0,0,0,0,0,0,0\n")
        run = carbon("--source", "eia-mix", "--file", str(mix))
        check(run.returncode == 0 and "00:00:00Z,655,0,0" in run.stdout and "01:00:00Z,11,0,0" in run.stdout, "mix", run)
    leaked = [path for path in asked if "right-key" in path or "pass" in path or "fresh" in path]
    if leaked or not asked:
        sys.exit(f"credentials in a URL: {leaked}")
    print(f"ok, {len(asked)} requests")


if __name__ == "__main__":
    main()
