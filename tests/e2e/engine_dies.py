#!/usr/bin/env python3
"""A mock engine is killed (kill -9) while it streams. Its clients get a clean error event and no [DONE]; streams on the
other engine go on to their end; the gateway's counts still balance."""
import http.client
import json
import re
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

wattle = sys.argv[1]
children = []


def start(*arguments):
    child = subprocess.Popen([wattle, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    children.append(child)
    return child, child.stdout.readline()


def check(condition, what):
    if not condition:
        sys.exit(f"engine_dies: {what}")


def connect(url):
    place = urlsplit(url)
    return http.client.HTTPConnection(place.hostname, place.port, timeout=60)


def stream(url, results, index):
    connection = connect(url)
    body = {"model": "llama-3.1-8b", "messages": [{"role": "user", "content": "count"}], "stream": True,
            "max_tokens": 400, "ignore_eos": True}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    events = [line[6:] for line in response.read().decode().splitlines() if line.startswith("data: ")]
    results[index] = (response.status, events)


def metrics(url):
    connection = connect(url)
    connection.request("GET", "/metrics")
    totals = {}
    for line in connection.getresponse().read().decode().splitlines():
        found = re.match(r"(wattle_gateway_\w+)(\{[^}]*\})? ([0-9.e+]+)$", line)
        if found:
            name = found.group(1) + (found.group(2) or "")
            totals[name] = totals.get(name, 0) + float(found.group(3))
    return totals


try:
    engines = []
    for name in ("victim", "survivor"):
        child, line = start("mock-engine", "--json", "--fpm", "off", "--id", name)
        engines.append((child, json.loads(line)["url"]))
    workers = [flag for _, url in engines for flag in ("--worker", url)]
    _, line = start("gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--model", "llama-3.1-8b", *workers)
    url, admin = re.search(r"listening on (\S+), admin on (\S+),", line).groups()

    streams = 8
    results = [None] * streams
    threads = [threading.Thread(target=stream, args=(url, results, i)) for i in range(streams)]
    for thread in threads:
        thread.start()
    time.sleep(1.0)  # 400 tokens take about four seconds: all are on their way
    engines[0][0].kill()
    for thread in threads:
        thread.join()

    finished = broken = 0
    for status, events in results:
        check(status == 200, f"status {status}")
        if events[-1] == "[DONE]":
            finished += 1
            check(len(events) > 400, f"a stream ended well with only {len(events)} events")
        else:
            broken += 1
            check("error" in json.loads(events[-1]), f"a cut stream ends with {events[-1]!r} instead of an error event")
            check(len(events) > 10, "the victim had not begun to stream: the test shows nothing")
    check(broken > 0 and finished > 0, f"{broken} cut and {finished} whole streams: both kinds are needed")
    counts = metrics(admin)
    of = {fate: sum(v for k, v in counts.items() if k.startswith("wattle_gateway_requests_total") and f'"{fate}"' in k)
          for fate in ("finished", "rejected", "failed", "cancelled")}
    check(of["finished"] == finished and of["failed"] == broken, f"gateway counts {of}, clients saw {finished}/{broken}")
    check(counts["wattle_gateway_requests_arrived_total"] == sum(of.values()) + counts["wattle_gateway_inflight_requests"],
          f"books do not balance: {counts}")

    again = [None]
    stream(url, again, 0)  # the fleet still serves
    check(again[0][0] == 200 and again[0][1][-1] == "[DONE]", "after the death the survivor no longer serves")
    print(f"{finished} streams whole, {broken} ended with an error event; counts {of}")
finally:
    for child in children:
        child.terminate()
    for child in children:
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
