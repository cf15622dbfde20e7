#!/usr/bin/env python3
"""A gateway with 64 file descriptors and 200 clients: the admin plane answers, those clients that fit are served to the
end, no engine is blamed, and all is well once the others have gone."""
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from urllib.parse import urlsplit

from processes import check

wattle = sys.argv[1]
children = []


def start(*command):
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    children.append(child)
    return child.stdout.readline()


def admin_text(admin, path):
    connection = http.client.HTTPConnection(urlsplit(admin).hostname, urlsplit(admin).port, timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse()
    check(answer.status == 200, f"{path}: {answer.status}")
    return answer.read().decode()


def ask(url, tokens):
    """A connection that has requested a stream; None: it was closed."""
    try:
        client = socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=60)
        body = json.dumps({"model": "llama-3.1-8b", "messages": [{"role": "user", "content": "count"}], "stream": True,
                           "max_tokens": tokens, "ignore_eos": True}).encode()
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                       % (len(body), body))
        return client
    except OSError:
        return None


def answer_of(client):
    answer = b""
    try:
        while piece := client.recv(65536):
            answer += piece
    except OSError:
        pass
    client.close()
    return answer


try:
    with tempfile.TemporaryDirectory() as folder:
        few = os.path.join(folder, "few")
        with open(few, "w") as script:
            script.write('#!/bin/sh\nulimit -n 64\nexec "$@"\n')
        os.chmod(few, 0o755)
        engine = json.loads(start(wattle, "mock-engine", "--json", "--fpm", "off"))["url"]
        line = start(few, wattle, "gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--model",
                     "llama-3.1-8b", "--worker", engine)
        url, admin = re.search(r"listening on (\S+), admin on (\S+),", line).groups()
        while json.loads(admin_text(admin, "/workers"))["workers"][0]["status"] != "ready":
            pass
        clients = [ask(url, 100) for _ in range(200)]
        for path in ("/metrics", "/workers", "/usage") * 5:
            admin_text(admin, path)
        answers = [answer_of(client) for client in clients if client]
        whole = sum(b"data: [DONE]" in answer for answer in answers)
        begun = sum(answer.startswith(b"HTTP/1.1 200") for answer in answers)
        check(whole >= 8 and whole == begun, f"{begun} streams were begun, {whole} came to their end")
        metrics = admin_text(admin, "/metrics")
        check("wattle_gateway_worker_failures_total{" not in metrics, "the engine was blamed")
        check(json.loads(admin_text(admin, "/workers"))["workers"][0]["status"] == "ready", "the engine was taken out")
        finished = int(re.search(r'requests_total\{fate="finished"\} (\d+)', metrics).group(1))
        check(finished == whole, f"{finished} booked as finished, {whole} came")
        check(b"[DONE]" in answer_of(ask(url, 5)), "afterwards it no longer serves")
        print(f"200 clients: {whole} served to the end, the others closed or refused")
finally:
    for child in children:
        child.kill()
