#!/usr/bin/env python3
"""The gateway's journal outlives the gateway: after a request's end `wattle report` can read it, also after kill -9. A file
that cannot be written further is reported by /health, /metrics and stderr at once, and requests continue."""
import http.client
import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlsplit

from processes import check, eventually

wattle = sys.argv[1]
children = []


def start(*arguments, file_bytes=None, stderr=subprocess.DEVNULL):
    def limit():
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    child = subprocess.Popen([wattle, *arguments], stdout=subprocess.PIPE, stderr=stderr, text=True, preexec_fn=limit)
    children.append(child)
    return child, json.loads(child.stdout.readline())


def ask(url, path, body=None):
    connection = http.client.HTTPConnection(urlsplit(url).hostname, urlsplit(url).port, timeout=60)
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
    response = connection.getresponse()
    return response.status, response.read().decode()


def complete(url):
    deadline = time.monotonic() + 60
    while ask(url, "/health")[0] != 200 and time.monotonic() < deadline:
        time.sleep(0.02)
    status, answer = ask(url, "/v1/completions", {"model": "llama-3.1-8b", "prompt": [1, 2, 3], "max_tokens": 4})
    check(status == 200, f"status {status}: {answer}")


def rows_of(directory):
    return (directory / "requests.csv").read_text().splitlines()


def reported(directory):
    """What `wattle report` says of a run; None: it cannot be read yet."""
    report = subprocess.run([wattle, "report", "--json", str(directory)], capture_output=True, text=True)
    return json.loads(report.stdout)["runs"][0] if report.returncode == 0 else None


def gateway(directory, **more):
    return start("gateway", "--json", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--model", "llama-3.1-8b",
                 "--worker", engine["url"], "--journal", str(directory), **more)


try:
    _, engine = start("mock-engine", "--json", "--fpm", "off")
    with tempfile.TemporaryDirectory() as scratch:
        run = pathlib.Path(scratch) / "run"
        child, urls = gateway(run)
        for _ in range(3):
            complete(urls["url"])
        # While the gateway runs, not because it ends.
        eventually("the requests are on disk", lambda: len(rows_of(run)) == 4, seen=lambda: rows_of(run))
        eventually("so is the run's summary of them", lambda: (reported(run) or {"requests": {}})["requests"].get("finished") == 3)
        child.kill()
        child.wait()
        rows = rows_of(run)
        check(len(rows) == 4, f"after kill -9 requests.csv has {len(rows)} lines instead of a header and 3 rows")
        said = reported(run)
        check(said and said["ended"] is False and said["requests"]["finished"] == 3, f"the report says {said}")

        child, urls = gateway(run, stderr=subprocess.PIPE)
        complete(urls["url"])
        child.terminate()
        _, words = child.communicate(timeout=30)
        check(str(run / "unended-1") in words, f"nothing says where the killed run's record is: {words}")
        kept = rows_of(run / "unended-1")
        check(kept == rows, f"a restart keeps {len(kept)} of {len(rows)} lines of the killed run")
        said = reported(run / "unended-1")
        check(said and said["requests"]["finished"] == 3, f"{said}")
        check(len(rows_of(run)) == 2, "the new run has its own record")
        child, urls = gateway(run, stderr=subprocess.PIPE)
        child.terminate()
        _, words = child.communicate(timeout=30)
        check("unended" not in words and not (run / "unended-2").exists(), "what ended is replaced")

        first, urls = gateway(run)
        complete(urls["url"])
        second = subprocess.run(first.args, capture_output=True, text=True, timeout=30)
        check(second.returncode == 3 and "another gateway" in second.stderr, f"a second on one folder: {second}")
        complete(urls["url"])
        first.terminate()
        first.communicate(timeout=30)
        check(len(rows_of(run)) == 3, "the first keeps its record")

        full = pathlib.Path(scratch) / "full"
        child, urls = gateway(full, file_bytes=2048, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 30
        health = ""
        while "degraded" not in health and time.monotonic() < deadline:
            complete(urls["url"])
            status, health = ask(urls["admin"], "/health")
            check(status == 200, f"/health {status}: a balancer would turn away")
        check("File too large" in health or "disk full" in health, f"/health says {health}")
        check(re.search("^wattle_gateway_journal_failing 1$", ask(urls["admin"], "/metrics")[1], re.M), "no alarm in /metrics")
        complete(urls["url"])
        child.terminate()
        _, words = child.communicate(timeout=30)
        check("the journal fails" in words, f"stderr: {words}")
        check(child.returncode == 3, f"exit code {child.returncode}, not 3: the journal is incomplete")
    print("a killed gateway's journal was read; a full disk was said")
finally:
    for child in children:
        child.kill()
    for child in children:
        child.wait()
