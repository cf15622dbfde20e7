"""The Grafana dashboard and the alert rules use existing series only: a real Prometheus scrapes gateway and agent and answers
every query of every panel. Exit 77 (skipped) if there is no Prometheus and none can be downloaded."""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import urllib.parse
import urllib.request

from processes import a_node, eventually, get

MODEL = "llama-3.1-8b"


def prometheus(folder: pathlib.Path) -> tuple[str, str] | None:
    """Debian's Prometheus, installed or else unpacked in the build folder: installing it would start a service."""
    if shutil.which("prometheus") and shutil.which("promtool"):
        return "prometheus", "promtool"
    binaries = folder / "usr" / "bin"
    if not (binaries / "promtool").exists():
        folder.mkdir(parents=True, exist_ok=True)
        got = subprocess.run(["apt-get", "download", "prometheus"], cwd=folder, capture_output=True)
        packages = list(folder.glob("prometheus_*.deb"))
        if got.returncode != 0 or not packages:
            return None
        subprocess.run(["dpkg", "-x", packages[0], folder], check=True)
    return str(binaries / "prometheus"), str(binaries / "promtool")


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--wattle", "--nvml", "--packaging", "--download"):
        parser.add_argument(name, required=True)
    flags = parser.parse_args()
    found = prometheus(pathlib.Path(flags.download))
    if found is None:
        print("skipped: no Prometheus here, and none to download")
        sys.exit(77)
    packaging = pathlib.Path(flags.packaging).resolve()
    rules = packaging / "prometheus" / "wattle.rules.yml"
    subprocess.run([found[1], "check", "rules", rules], check=True)
    dashboard = json.loads((packaging / "grafana" / "wattle.json").read_text())
    with a_node(flags.wattle) as (node, folder):
        prefill, decode = node.engine("prefill", 0), node.engine("decode", 1)
        _, agent = node.start("agent", "--nvml", flags.nvml, "--state", f"{folder}/locks", "--recipe", "voltanallm",
                              "--ttft-slo-ms", "600", "--itl-slo-ms", "60", "--engine", f"{prefill['fpm']}=0@prefill",
                              "--engine", f"{decode['fpm']}=1@decode")
        _, at = node.gateway("--model", MODEL, "--recipe",
                             "voltanallm", "--ttft-slo-ms", "600", "--itl-slo-ms", "60", "--agent", agent["admin"],
                             "--carbon-g-per-kwh", "300",
                             "--worker", f"{prefill['url']}=prefill,fpm={prefill['fpm']}",
                             "--worker", f"{decode['url']}=decode,fpm={decode['fpm']}")
        eventually("both engines are ready", lambda: all(
            w["status"] == "ready" for w in json.loads(get(at["admin"] + "/workers"))["workers"]))
        targets = [one["admin"].removeprefix("http://") for one in (at, agent)]
        config = {"global": {"scrape_interval": "250ms"},
                  "rule_files": [str(rules)],
                  "scrape_configs": [{"job_name": "wattle", "static_configs": [{"targets": targets}]}]}
        (pathlib.Path(folder) / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        with open(os.path.join(folder, "prometheus.log"), "w") as log:
            server = subprocess.Popen([found[0], f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb",
                                       "--web.listen-address=127.0.0.1:0"], stderr=log, stdout=log)
        node.running.append(server)
        url = listening_at(server.pid)
        stop = threading.Event()

        def ask() -> None:
            while not stop.is_set():
                body = {"model": MODEL, "prompt": "count", "max_tokens": 20, "ignore_eos": True, "stream": True}
                request = urllib.request.Request(at["url"] + "/v1/completions", json.dumps(body).encode(),
                                                 {"Content-Type": "application/json", "X-Wattle-Tenant": "someone"})
                with urllib.request.urlopen(request, timeout=60) as answer:
                    answer.read()

        asking = threading.Thread(target=ask)
        asking.start()

        def answered(expression: str) -> bool:
            query = urllib.parse.quote(expression.replace("$__rate_interval", "5s"))
            rows = json.loads(get(f"{url}/api/v1/query?query={query}"))["data"]["result"]
            return any(row["value"][1] != "NaN" for row in rows)

        try:
            eventually("Prometheus has scraped", lambda: answered("wattle_gateway_inflight_requests"))
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    eventually(f"{panel['title']}: {target['expr']}", lambda: answered(target["expr"]))
            loaded = json.loads(get(url + "/api/v1/rules"))["data"]["groups"][0]["rules"]
            eventually("the rules are evaluated", lambda: all(
                rule["health"] in ("ok", "unknown") for rule in json.loads(get(url + "/api/v1/rules"))["data"]["groups"][0]["rules"]))
            print(f"{sum(len(p['targets']) for p in dashboard['panels'])} queries answered, {len(loaded)} alerts loaded")
        finally:
            stop.set()
            asking.join()


def listening_at(pid: int) -> str:
    """Where a process that took a free port listens."""
    inodes = set()

    def port() -> int | None:
        inodes.clear()
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                link = os.readlink(fd)
            except OSError:
                continue
            if link.startswith("socket:["):
                inodes.add(link[8:-1])
        for table in ("tcp", "tcp6"):
            for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    return int(fields[1].rsplit(":", 1)[1], 16)
        return None

    eventually("Prometheus listens", lambda: port() is not None)
    url = f"http://127.0.0.1:{port()}"

    def ready() -> bool:
        try:
            return "Ready" in get(url + "/-/ready")
        except OSError:
            return False

    eventually("Prometheus is ready", ready)
    return url


if __name__ == "__main__":
    main()
