#!/usr/bin/env python3
"""The gateway against other proxies of the same engine, on the same two cores, in one run.

The engine is bench/canned_engine, a native server that answers at once from memory, so that the proxies are what is
measured; how fast it is alone is printed as `direct`. wrk, engine and proxy share the two cores, as they do for all
proxies alike. Rounds of all are interleaved and the median is taken. `sparse`: one request every few milliseconds, to each proxy in turn, so
that all of it sleeps in between: what else wakes then is in the way of the request. nginx relays unbuffered, as a proxy of token
streams must. `wattle` runs with API keys, tenants and energy booking on (an agent reads emulated GPUs); `wattle-plain` without.
Needs wrk, nginx and haproxy (Debian); --routers FOLDER, a virtual environment with PyPI's vllm-router and smg, adds those
two. Run by tools/bench.py, or alone with WATTLE=path/to/wattle; the table goes to stderr, the JSON list of rows to
stdout. CPU time is each proxy's own, of all its processes, per 1,000 requests: it says what a request costs even when
something else keeps the machine busy. Its ratios are taken within rounds, and their median then: a machine drifts by more than
proxies differ."""
import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

NGINX_CONF = """
worker_processes 2;
daemon off;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/f;
  uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  upstream engine {{ server 127.0.0.1:{engine}; keepalive 256; }}
  server {{
    listen 127.0.0.1:{port};
    keepalive_requests 1000000;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""
HAPROXY_CONF = """
global
  maxconn 8192
  nbthread 2
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option http-keep-alive
  http-reuse always
frontend clients
  bind 127.0.0.1:{port}
  default_backend engine
backend engine
  server one 127.0.0.1:{engine}
"""
LUA = """
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %s"
wrk.body = '%s'
"""
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(url):
    for _ in range(500):
        try:
            return urllib.request.urlopen(url, timeout=1).read()
        except OSError:
            time.sleep(0.02)
    sys.exit(f"{url} did not come up")


def wait_until(holds):
    for _ in range(500):
        if holds():
            return
        time.sleep(0.02)
    sys.exit("a proxy does not answer, or no meter is read")


def answers(port, key):
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", b'{"model":"m","messages":[{"role":"user","content":"hello"}]}',
        {"Content-Type": "application/json", "Authorization": f"Bearer {key}"})
    try:
        return urllib.request.urlopen(request, timeout=5).status == 200
    except OSError:
        return False


def cpu_seconds(pid):
    """User and system time of a process and the children it has now."""
    def ticks(one):
        fields = pathlib.Path(f"/proc/{one}/stat").read_text().rpartition(") ")[2].split()
        return int(fields[11]) + int(fields[12])
    children = [int(p) for t in pathlib.Path(f"/proc/{pid}/task").iterdir() for p in (t / "children").read_text().split()]
    return sum(ticks(p) for p in (pid, *children)) / os.sysconf("SC_CLK_TCK")


def wrk(port, lua, connections, seconds, pid):
    before = cpu_seconds(pid)
    run = subprocess.run(["wrk", "--latency", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", lua,
                          f"http://127.0.0.1:{port}"], capture_output=True, text=True, check=True)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)", run.stdout)
    if bad:
        sys.exit(f"wrk saw errors at port {port}: {bad.group(0)}")
    share = {p: float(v) * UNITS[u] for p, v, u in re.findall(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s)$", run.stdout, re.M)}
    requests = int(re.search(r"(\d+) requests in", run.stdout).group(1))
    return {"rps": float(re.search(r"Requests/sec:\s+([\d.]+)", run.stdout).group(1)), "p50": share["50"],
            "p99": share["99"], "cpu": 1e3 * (cpu_seconds(pid) - before) / requests}


def sparse(ports, key, body, count, gap_s=0.003):
    """Median milliseconds of one complete answer, by proxy."""
    request = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: sparse\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\n"
               f"Content-Length: {len(body)}\r\n\r\n{body}").encode()
    sockets = {name: socket.create_connection(("127.0.0.1", port)) for name, port in ports.items()}
    for one in sockets.values():
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    took = {name: [] for name in ports}

    def ask(one):
        begun = time.perf_counter()
        one.sendall(request)
        answer, length = b"", None
        while length is None or len(answer) < length:
            more = one.recv(1 << 16)
            if not more:
                sys.exit("a proxy closed in the middle of an answer")
            answer += more
            head = answer.find(b"\r\n\r\n")
            if length is None and head >= 0:
                length = head + 4 + int(re.search(rb"content-length: *(\d+)", answer[:head].lower()).group(1))
        return 1e3 * (time.perf_counter() - begun)

    for _ in range(count):
        for name, one in sockets.items():
            took[name].append(ask(one))
            time.sleep(gap_s)
    for one in sockets.values():
        one.close()
    return {name: statistics.median(times) for name, times in took.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wattle", default=os.environ.get("WATTLE", "build/release/wattle"))
    parser.add_argument("--engine", help="the canned_engine binary; beside wattle by default")
    parser.add_argument("--seconds", type=int, default=3, help="per measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--sparse", type=int, default=500, help="requests to each proxy, one every few milliseconds")
    parser.add_argument("--routers", type=pathlib.Path, help="a virtual environment with vllm-router and smg")
    args = parser.parse_args()
    built = pathlib.Path(args.wattle).resolve().parent
    args.engine = args.engine or str(built / "canned_engine")
    args.nvml = str(built / "fake_nvml" / "libnvidia-ml.so.1")
    for tool in ("wrk", "nginx", "haproxy"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is not installed")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # inherited by all that follow
    children = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            figures = measure(args, pathlib.Path(folder), children)
        finally:
            for child in children:
                child.terminate()
            for child in children:
                child.wait(timeout=20)
    report(figures, args)


def keys_file(wattle, folder):
    """A tenant's key, and the key file that contains it."""
    said = subprocess.run([wattle, "key", "shop"], capture_output=True, text=True, check=True).stdout.splitlines()
    line = next(line for line in said if line.strip().startswith("{"))
    path = folder / "keys.json"
    path.write_text(f'{{"keys": [{line}]}}')
    return said[1].strip(), path


def started(words, children, **more):
    children.append(subprocess.Popen([str(word) for word in words], **({"stdout": subprocess.DEVNULL} | more)))
    return children[-1]


def measure(args, folder, children):
    engine = started([args.engine, "--tokens", 32], children, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ports, pids = {"direct": int(engine.stdout.readline())}, {"direct": engine.pid}
    upstream = f"http://127.0.0.1:{ports['direct']}"
    key, keys = keys_file(args.wattle, folder)

    def proxy(name, words, **more):
        ports[name] = free_port()
        filled = [str(word).format(port=ports[name]) for word in words]
        pids[name] = started(filled, children, **more).pid

    def configured(name, file, text, *words):
        ports[name] = free_port()
        (folder / file).write_text(text.format(dir=folder, engine=ports["direct"], port=ports[name]))
        pids[name] = started([*words, folder / file], children).pid

    configured("nginx", "nginx.conf", NGINX_CONF, "nginx", "-p", folder, "-e", folder / "error.log", "-c")
    configured("haproxy", "haproxy.cfg", HAPROXY_CONF, "haproxy", "-db", "-f")
    # The engine sends no step reports: the agent leaves the emulated GPUs at their maximum, and reads their meters.
    reports, agent = f"ipc://{folder}/none", free_port()
    started([args.wattle, "agent", "--engine", f"{reports}=0", "--nvml", args.nvml, "--admin", f"127.0.0.1:{agent}",
             "--state", folder / "state"], children, env=dict(os.environ, WATTLE_FAKE_NVML=f"{folder}/board,count=1"))
    gateway = [args.wattle, "gateway", "--listen", "127.0.0.1:{port}", "--model", "m", "--threads", 2]
    proxy("wattle-plain", [*gateway, "--admin", f"127.0.0.1:{free_port()}", "--worker", upstream])
    admin = free_port()
    proxy("wattle", [*gateway, "--admin", f"127.0.0.1:{admin}", "--keys", keys, "--worker", f"{upstream},fpm={reports}",
                     "--agent", f"http://127.0.0.1:{agent}"])
    if args.routers:
        common = ["--worker-urls", upstream, "--host", "127.0.0.1", "--port", "{port}", "--policy", "round_robin"]
        quiet = {"stderr": subprocess.DEVNULL}
        for name, words in (("vllm-router", ["vllm-router", "--log-level", "error"]), ("smg", ["smg", "launch", "--log-level", "error"])):
            proxy(name, [args.routers / "bin" / words[0], *words[1:], *common, "--prometheus-port", free_port()], **quiet)
    for port in ports.values():
        wait_for(f"http://127.0.0.1:{port}/health")
        wait_until(lambda: answers(port, key))
    wait_until(lambda: json.loads(wait_for(f"http://127.0.0.1:{admin}/usage"))["energy_j"]["metered"] > 0)
    prompt = " ".join(["hello"] * 200)
    figures = {}
    for kind, stream in (("whole", "false"), ("stream", "true")):
        lua = folder / f"{kind}.lua"
        body = '{"model":"m","messages":[{"role":"user","content":"%s"}],"stream":%s}' % (prompt, stream)
        lua.write_text(LUA % (key, body))
        samples = {name: {"busy": [], "alone": []} for name in ports}
        for _ in range(args.rounds):
            for name, port in ports.items():
                samples[name]["busy"].append(wrk(port, str(lua), args.connections, args.seconds, pids[name]))
                samples[name]["alone"].append(wrk(port, str(lua), 1, 1, pids[name]))
        for name in ports:
            middle = lambda mode, key: statistics.median(s[key] for s in samples[name][mode])
            pair = lambda other: statistics.median(s["cpu"] / o["cpu"] for s, o in zip(samples[name]["busy"], samples[other]["busy"]))
            figures[kind, name] = {"cpu_x": {other: pair(other) for other in ("nginx", "haproxy")}, "rps": middle("busy", "rps"), "p50_ms": middle("alone", "p50"),
                                   "p99_ms": middle("alone", "p99"), "busy_p99_ms": middle("busy", "p99"),
                                   "cpu_s": middle("busy", "cpu")}
        if kind == "whole":
            for name, ms in sparse(ports, key, body, args.sparse).items():
                figures[kind, name]["sparse_ms"] = ms
    return figures


def report(figures, args):
    rows = []
    print(f"{'answer':<8}{'through':<13}{'requests/s':>11}{'x nginx':>9}{'added p50 us':>14}{'added p99 us':>14}"
          f"{'sparse p50 us':>15}{'p99 ms at ' + str(args.connections):>14}{'CPU s per 1000':>16}{'x nginx':>9}{'x haproxy':>11}", file=sys.stderr)
    for (kind, name), f in figures.items():
        direct, nginx = figures[kind, "direct"], figures[kind, "nginx"]
        ratio = f["rps"] / nginx["rps"]
        added = {p: 1e3 * (f[f"{p}_ms"] - direct[f"{p}_ms"]) for p in ("p50", "p99", "sparse") if f"{p}_ms" in f}
        print(f"{kind:<8}{name:<13}{f['rps']:>11.0f}{ratio:>9.2f}{added['p50']:>14.0f}{added['p99']:>14.0f}"
              f"{added.get('sparse', float('nan')):>15.0f}{f['busy_p99_ms']:>14.2f}{f['cpu_s']:>16.4f}{f['cpu_x']['nginx']:>9.2f}{f['cpu_x']['haproxy']:>11.2f}", file=sys.stderr)
        if name == "direct":
            continue
        rows.append({"name": f"gateway.{kind}.{name}.requests", "value": f["rps"], "unit": "requests/s",
                     "ratio": ratio, "ratio_to": "nginx"})
        rows.append({"name": f"gateway.{kind}.{name}.cpu", "value": f["cpu_s"], "unit": "s per 1000 requests",
                     "ratio": f["cpu_x"]["nginx"], "ratio_to": "nginx"})
        for p in added:
            row = {"name": f"gateway.{kind}.{name}.added_{p}", "value": added[p], "unit": "us"}
            theirs = 1e3 * (nginx[f"{p}_ms"] - direct[f"{p}_ms"])
            if theirs > 0:  # below the noise, a ratio would say nothing
                row |= {"ratio": added[p] / theirs, "ratio_to": "nginx"}
            rows.append(row)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
