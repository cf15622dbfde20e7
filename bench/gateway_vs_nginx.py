#!/usr/bin/env python3
"""The gateway against nginx as proxies of the same engine, on the same two cores, in one run.

The engine is bench/canned_engine, a native server that answers at once from memory, so that the proxies are what is
measured; how fast it is alone is printed as `direct`. wrk, engine and proxy share the two cores, as they do for both
proxies alike. Rounds of the three are interleaved and the median is taken. nginx relays unbuffered, as a proxy of token
streams must. Needs wrk and nginx. Run by tools/bench.py, or alone with WATTLE=path/to/wattle; the table goes to stderr,
the JSON list of rows to stdout. CPU time is each proxy's own, of all its processes, per 1,000 requests: it says what a
request costs even when something else keeps the machine busy."""
import argparse
import json
import os
import pathlib
import re
import shutil
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
LUA = """
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '%s'
"""
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def free_port():
    import socket
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
        sys.exit(f"wrk saw errors: {bad.group(0)}")
    share = {p: float(v) * UNITS[u] for p, v, u in re.findall(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s)$", run.stdout, re.M)}
    requests = int(re.search(r"(\d+) requests in", run.stdout).group(1))
    return {"rps": float(re.search(r"Requests/sec:\s+([\d.]+)", run.stdout).group(1)), "p50": share["50"],
            "p99": share["99"], "cpu": 1e3 * (cpu_seconds(pid) - before) / requests}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wattle", default=os.environ.get("WATTLE", "build/release/wattle"))
    parser.add_argument("--engine", help="the canned_engine binary; beside wattle by default")
    parser.add_argument("--seconds", type=int, default=3, help="per measurement")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=32)
    args = parser.parse_args()
    args.engine = args.engine or str(pathlib.Path(args.wattle).resolve().parent / "canned_engine")
    for tool in ("wrk", "nginx"):
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


def measure(args, folder, children):
    engine = subprocess.Popen([args.engine, "--tokens", "32"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    children.append(engine)
    engine_port = int(engine.stdout.readline())
    nginx_port, gateway_port, admin_port = free_port(), free_port(), free_port()
    conf = folder / "nginx.conf"
    conf.write_text(NGINX_CONF.format(dir=folder, engine=engine_port, port=nginx_port))
    children.append(subprocess.Popen(["nginx", "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(conf)]))
    children.append(subprocess.Popen(
        [args.wattle, "gateway", "--listen", f"127.0.0.1:{gateway_port}", "--admin", f"127.0.0.1:{admin_port}",
         "--model", "m", "--threads", "2", "--worker", f"http://127.0.0.1:{engine_port}"], stdout=subprocess.DEVNULL))
    ports = {"direct": engine_port, "nginx": nginx_port, "wattle": gateway_port}
    pids = dict(zip(ports, (child.pid for child in children)))
    for port in ports.values():
        wait_for(f"http://127.0.0.1:{port}/health")
    prompt = " ".join(["hello"] * 200)
    figures = {}
    for kind, stream in (("whole", "false"), ("stream", "true")):
        lua = folder / f"{kind}.lua"
        lua.write_text(LUA % ('{"model":"m","messages":[{"role":"user","content":"%s"}],"stream":%s}' % (prompt, stream)))
        samples = {name: {"busy": [], "alone": []} for name in ports}
        for _ in range(args.rounds):
            for name, port in ports.items():
                samples[name]["busy"].append(wrk(port, str(lua), args.connections, args.seconds, pids[name]))
                samples[name]["alone"].append(wrk(port, str(lua), 1, 1, pids[name]))
        for name in ports:
            middle = lambda mode, key: statistics.median(s[key] for s in samples[name][mode])
            figures[kind, name] = {"rps": middle("busy", "rps"), "p50_ms": middle("alone", "p50"),
                                   "p99_ms": middle("alone", "p99"), "busy_p99_ms": middle("busy", "p99"),
                                   "cpu_s": middle("busy", "cpu")}
    return figures


def report(figures, args):
    rows = []
    print(f"{'answer':<8}{'through':<9}{'requests/s':>11}{'x nginx':>9}{'added p50 us':>14}{'added p99 us':>14}"
          f"{'p99 ms at ' + str(args.connections):>14}{'CPU s per 1000':>16}{'x nginx':>9}", file=sys.stderr)
    for (kind, name), f in figures.items():
        direct, nginx = figures[kind, "direct"], figures[kind, "nginx"]
        ratio = f["rps"] / nginx["rps"]
        added = {p: 1e3 * (f[f"{p}_ms"] - direct[f"{p}_ms"]) for p in ("p50", "p99")}
        print(f"{kind:<8}{name:<9}{f['rps']:>11.0f}{ratio:>9.2f}{added['p50']:>14.0f}{added['p99']:>14.0f}"
              f"{f['busy_p99_ms']:>14.2f}{f['cpu_s']:>16.4f}{f['cpu_s'] / nginx['cpu_s']:>9.2f}", file=sys.stderr)
        if name == "direct":
            continue
        rows.append({"name": f"gateway.{kind}.{name}.requests", "value": f["rps"], "unit": "requests/s",
                     "ratio": ratio, "ratio_to": "nginx"})
        rows.append({"name": f"gateway.{kind}.{name}.cpu", "value": f["cpu_s"], "unit": "s per 1000 requests",
                     "ratio": f["cpu_s"] / nginx["cpu_s"], "ratio_to": "nginx"})
        for p in ("p50", "p99"):
            row = {"name": f"gateway.{kind}.{name}.added_{p}", "value": added[p], "unit": "us"}
            theirs = 1e3 * (nginx[f"{p}_ms"] - direct[f"{p}_ms"])
            if theirs > 0:  # below the noise, a ratio would say nothing
                row |= {"ratio": added[p] / theirs, "ratio_to": "nginx"}
            rows.append(row)
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
