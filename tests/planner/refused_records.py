"""Malformed records for a gateway are dropped and counted while the others are used; a malformed plan gets a 400 and changes
nothing. The gateway is a stand-in that refuses plans."""
import argparse
import http.server
import json
import subprocess
import threading

from planner import free_endpoint
from processes import Processes, eventually, get, post, scratch


class Gateway(http.server.BaseHTTPRequestHandler):
    taken: list[dict] = []
    refused = 0

    def answer(self, status: int, body: dict) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self) -> None:
        plan = {"weights": [], "clocks": [], "arrived": [0]}
        self.answer(200, plan if self.path == "/plan" else {"id": "0", "status": "ready", "active_requests": 0})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        if self.path != "/journal":
            return self.answer(202, {"id": "0", "status": "accepted"})
        if any(record["kind"] == "plan" for record in body["records"]):
            Gateway.refused += 1
            return self.answer(400, {"error": {"message": "a plan that it does not like"}})
        Gateway.taken += body["records"]
        return self.answer(200, {})

    do_PUT = do_DELETE = do_POST

    def log_message(self, *_: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    flags = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Gateway)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with scratch() as folder:
        node = Processes(flags.wattle, folder)
        try:
            planner, at = node.start("planner", "synthetic-poisson", "--recipe", "static-max", "--gateway",
                                     f"http://127.0.0.1:{server.server_address[1]}", "--slot", f"0=0@{free_endpoint(folder)}",
                                     "--slot", f"0=1@{free_endpoint(folder)}", "--set", "scaling.period_s=0.3", "--logs", folder,
                                     "--drain-s", "0", log=f"{folder}/planner.log")
            fleet = lambda: json.loads(get(at["admin"] + "/fleet"))
            eventually("it plans", lambda: fleet().get("newest_plan"))
            before = fleet()["newest_plan"]["plan"]
            for body, key in (({}, "instances"), ({"instances": []}, "instances"), ({"instances": [{"shape": 9, "count": 1}]}, "shape"),
                              ({"instances": [{"shape": 0, "count": -1}]}, "instances[0].count"),
                              ({"instances": [{"shape": 0, "count": 10**9}]}, "instances[0].count"),
                              ({"instances": [{"shape": 0, "count": 1}], "zzz": 1}, "zzz"),
                              ({"instances": [{"shape": 0, "count": 1}], "weights": [{"class": 0, "pool": 0, "weight": 1.5}]}, "weight"),
                              ({"instances": [{"shape": 0, "count": 1}], "weights": [{"class": 0, "pool": 0, "weight": "x"}]}, "weight")):
                status, answer = post(at["admin"] + "/plan", body)
                assert status == 400 and key in answer["error"]["message"], (body, status, answer)
            assert fleet()["newest_plan"]["plan"] == before
            status, answer = post(at["admin"] + "/plan", {"instances": [{"shape": 0, "count": 1}]})
            assert status == 202, answer
            eventually("an engine leaves", lambda: any(r.get("phase") == "gone" for r in Gateway.taken))
            eventually("what was refused is counted", lambda: fleet()["records_refused"] >= 1)
            assert all(record["kind"] != "plan" for record in Gateway.taken)
            assert Gateway.refused < 100, Gateway.refused
            node.stop(planner)
            with open(f"{folder}/planner.log", encoding="utf-8") as log:
                said = log.read().count("has not taken")
            assert 1 <= said <= 10, said  # once, and again after something else of its kind was taken
        except subprocess.TimeoutExpired as error:
            raise AssertionError("the planner does not end") from error
        finally:
            node.end()
            server.shutdown()
    print(f"{Gateway.refused} refused batches, {len(Gateway.taken)} records taken")


if __name__ == "__main__":
    main()
