"""Observability of a real gateway: spans with energy at an OTLP collector, log lines as JSON that no input can break, and no
secrets in them."""
import http.server
import json
import os
import pathlib
import socket
import subprocess
import threading
from urllib.parse import urlsplit

from processes import PATIENCE_S, a_node, arguments, eventually, get, log_objects, metric, post

MODEL = "llama-3.1-8b"
TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(http.server.BaseHTTPRequestHandler):
    spans: list[dict] = []

    def do_POST(self) -> None:
        assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/json", self.path
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for resource in body["resourceSpans"]:
            named = {a["key"]: a["value"] for a in resource["resource"]["attributes"]}
            assert named["service.name"] == {"stringValue": "wattle-gateway"}, named
            Collector.spans += [span for scope in resource["scopeSpans"] for span in scope["spans"]]
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def value(span: dict, key: str) -> object:
    found = [next(iter(a["value"].values())) for a in span["attributes"] if a["key"] == key]
    return found[0] if found else None


def raw(url: str, lines: bytes, body: bytes) -> bytes:
    """One exchange of exactly these bytes."""
    place = urlsplit(url)
    head = b"POST /v1/completions?api_key=in-the-query HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" + lines
    with socket.create_connection((place.hostname, place.port), PATIENCE_S) as client:
        client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        answer = b""
        while more := client.recv(65536):
            answer += more
    return answer


def main() -> None:
    flags = arguments()
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    with a_node(flags.wattle) as (node, folder):
        engine = node.engine("colocated", 0)
        _, agent = node.start("agent", "--nvml", flags.nvml, "--state", f"{folder}/locks", "--recipe", "eco-freq",
                              "--ttft-slo-ms", "600", "--itl-slo-ms", "60", "--engine", f"{engine['fpm']}=0")
        # An agent for the other GPU, configured with the wrong kind: its log has the same form.
        node.start("agent", "--nvml", flags.nvml, "--shadow", "--engine", "tcp://127.0.0.1:1=1", "--gpu", "h100", "--log-format", "json",
                   log=f"{folder}/agent.log")
        eventually("the agent has said so", lambda: log_objects(f"{folder}/agent.log"))
        said = log_objects(f"{folder}/agent.log")[0]
        assert said["level"] == "error" and said["message"] == "the GPU is another kind than --gpu says" and said["highest_mhz"] == 1410, said
        key = subprocess.run([flags.wattle, "key", "shop"], check=True, capture_output=True, text=True).stdout.splitlines()
        secret = key[1].strip()
        keys = pathlib.Path(folder) / "keys.json"
        keys.write_text(f'{{"keys": [{key[3].strip()}]}}')
        # The same in a file: [gateway.traces] endpoint is --traces-endpoint.
        config = pathlib.Path(folder) / "wattle.toml"
        config.write_text(f"""
[fleet]
recipe = "eco-freq"
gpu = "a100-80g"
llm = "{MODEL}"
models = ["{MODEL}"]
[slo]
ttft_ms = 600
itl_ms = 60
[gateway]
listen = "127.0.0.1:0"
admin = "127.0.0.1:0"
keys = "{keys}"
carbon_g_per_kwh = 360
log_requests = true
log_format = "json"
[gateway.traces]
endpoint = "http://127.0.0.1:{collector.server_address[1]}"
sample = 1.0
[[node]]
name = "this"
agent = "{agent['admin'].removeprefix('http://')}"
[[worker]]
url = "{engine['url']}"
gpus = [0]
step_reports = "{engine['fpm']}"
""")
        log = open(os.path.join(folder, "log"), "w+b")
        gateway = subprocess.Popen([flags.wattle, "gateway", "--config", config, "--json"], env=node.env, stdout=subprocess.PIPE,
                                   stderr=log, text=True)
        node.running.append(gateway)
        at = json.loads(gateway.stdout.readline())
        eventually("the engine is ready", lambda: all(
            w["is_healthy"] for w in json.loads(get(at["admin"] + "/workers"))["workers"]))
        eventually("meters are read", lambda: json.loads(get(at["admin"] + "/usage"))["energy_j"]["metered"] > 0)

        # A span with the request's energy, equal to the ledger's.
        ask = {"model": MODEL, "prompt": "x" * 4000, "max_tokens": 60, "ignore_eos": True}
        status, _ = post(at["url"] + "/v1/completions", ask, {
            "Authorization": f"Bearer {secret}", "traceparent": f"00-{TRACE}-{CALLER}-01", "X-Request-Id": "one"})
        assert status == 200
        eventually("its span comes", lambda: len(Collector.spans) == 1)
        span = Collector.spans[0]
        assert (span["traceId"], span["parentSpanId"]) == (TRACE, CALLER), span
        booked = json.loads(get(at["admin"] + "/usage/requests/one"))["requests"][0]
        assert booked["energy_j"] > 0 and value(span, "wattle.energy_j") == booked["energy_j"], (booked, span)
        assert value(span, "wattle.carbon_g") == booked["carbon_g"] and value(span, "wattle.energy_meters") == "emulated", span
        assert value(span, "gen_ai.usage.output_tokens") == "60" and value(span, "wattle.tenant") == "shop", span
        assert value(span, "gen_ai.operation.name") == "text_completion" and value(span, "url.path") == "/v1/completions", span

        # Bytes that are no text, line ends, quotes: in headers, in names.
        hostile = b"X-Request-Id: evil\xff\\n\"},{\r\nX-Forwarded-For: \xff\r\nAuthorization: Bearer " + secret.encode() + b"\r\n"
        whole = raw(at["url"], hostile, json.dumps(dict(ask, max_tokens=3)).encode())
        assert whole.startswith(b"HTTP/1.1 200"), whole
        named = raw(at["url"], b"X-Request-Id: named\r\nAuthorization: Bearer " + secret.encode() + b"\r\n",
                    json.dumps({"model": "x\n{\"level\":\"error\"}", "prompt": "a"}).encode())
        assert named.startswith(b"HTTP/1.1 404"), named
        split = raw(at["url"], b"X-Request-Id: a\nb: c\r\n", b"{}")
        assert split.startswith(b"HTTP/1.1 400"), split
        wrong = raw(at["url"], b"X-Request-Id: thief\r\nAuthorization: Bearer not-a-key\r\n", b"{}")
        assert wrong.startswith(b"HTTP/1.1 401"), wrong

        def lines() -> list[dict]:
            log.seek(0)
            return [json.loads(line) for line in log.read().decode("ascii").splitlines()]

        eventually("each request has its line", lambda: sum(l["message"] == "request" for l in lines()) == 4)
        by_name = {line["request_id"]: line for line in lines() if line["message"] == "request"}
        assert set(by_name) == {"one", "evil\ufffd\\n\"},{", "named", "thief"}, by_name.keys()
        one = by_name["one"]
        assert one["trace_id"] == TRACE and one["span_id"] == span["spanId"] and one["tenant"] == "shop", one
        assert one["status"] == 200 and one["output_tokens"] == 60 and one["instance"] == 0 and one["level"] == "info", one
        assert one["energy_j"] == booked["energy_j"] and one["duration_ms"] >= one["ttft_ms"] > one["queue_ms"] >= 0, one
        assert by_name["named"]["model"] == "x\n{\"level\":\"error\"}" and by_name["named"]["status"] == 404, by_name["named"]
        assert by_name["thief"]["status"] == 401 and by_name["thief"]["energy_j"] is None, by_name["thief"]
        log.seek(0)
        said = log.read()
        for hidden in (secret.encode(), b"not-a-key", b"in-the-query", b"xxxx"):
            assert hidden not in said, hidden
        eventually("every span is there", lambda: metric(at["admin"], "wattle_gateway_spans_exported_total") == 4)
        assert metric(at["admin"], "wattle_gateway_spans_dropped_total") == 0

        # The collector dies: requests go on, spans are counted.
        collector.shutdown()
        collector.server_close()
        for _ in range(3):
            assert post(at["url"] + "/v1/completions", dict(ask, max_tokens=2), {"Authorization": f"Bearer {secret}"})[0] == 200
        eventually("lost spans are counted", lambda: metric(at["admin"], "wattle_gateway_spans_dropped_total") == 3)
        node.stop(gateway)
        assert gateway.returncode == 0
        log.close()


if __name__ == "__main__":
    main()
