#!/usr/bin/env python3
"""A gateway with TLS, API keys and an admin token, set up by the commands of docs/live.md."""
import http.client
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import time
from urllib.parse import urlsplit

from processes import check

wattle = sys.argv[1]
children = []


def start(*arguments):
    child = subprocess.Popen([wattle, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    children.append(child)
    return child.stdout.readline()


def ask(url, method, path, headers=None, body=None):
    place = urlsplit(url)
    if place.scheme == "https":
        connection = http.client.HTTPSConnection(place.hostname, place.port, timeout=30, context=trusting)
    else:
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
    connection.request(method, path, json.dumps(body) if body else None, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), answer.headers


def new_key(tenant):
    lines = subprocess.run([wattle, "key", tenant], check=True, capture_output=True, text=True).stdout.splitlines()
    return lines[1].strip(), lines[3].strip()


try:
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                        at("key.pem"), "-out", at("cert.pem")], check=True, capture_output=True)
        trusting = ssl.create_default_context(cafile=at("cert.pem"))
        (shop, line), (lab, other) = new_key("shop"), new_key("lab")
        check(shop not in line, "the file's line holds the key itself")

        def write_keys(*lines):
            with open(at("keys.json"), "w") as out:
                out.write(f'{{"keys": [{", ".join(lines)}], "tenants": {{"shop": {{"requests_per_minute": 2}}}}}}')

        write_keys(line, other)
        with open(at("token"), "w") as out:
            out.write("a token of some length\n")
        engine = json.loads(start("mock-engine", "--json", "--fpm", "off"))["url"]
        said = start("gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--model", "llama-3.1-8b", "--worker",
                     engine, "--keys", at("keys.json"), "--tls-cert", at("cert.pem"), "--tls-key", at("key.pem"),
                     "--admin-token-file", at("token"))
        url, admin = re.search(r"listening on (https://\S+), admin on (\S+),", said).groups()
        end = time.monotonic() + 30
        while ask(url, "GET", "/health")[0] != 200:
            check(time.monotonic() < end, "never ready")
            time.sleep(0.05)
        chat = {"model": "llama-3.1-8b", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}

        def status(key, **more):
            return ask(url, "POST", "/v1/chat/completions", {"Authorization": f"Bearer {key}"}, dict(chat, **more))

        check(status("wrong")[0] == 401, "a wrong key")
        whole = status(shop)
        check(whole[0] == 200 and json.loads(whole[1])["usage"]["completion_tokens"] == 3, whole)
        stream = status(shop, stream=True)
        check(stream[0] == 200 and stream[1].endswith("data: [DONE]\n\n"), stream)
        beyond = status(shop)
        check(beyond[0] == 429 and int(beyond[2]["Retry-After"]) > 1, beyond)
        check(status(lab)[0] == 200, "the other tenant is not limited")
        check(ask(admin, "GET", "/usage")[0] == 401, "the admin plane without its token")
        usage = ask(admin, "GET", "/usage", {"Authorization": "Bearer a token of some length"})
        tenants = json.loads(usage[1])["tenants"]
        check(tenants["shop"]["requests"] == 2 and tenants["shop"]["energy_j"] is None, tenants)

        write_keys(line)  # lab's key is taken away
        end = time.monotonic() + 30
        while status(lab)[0] != 401:
            check(time.monotonic() < end, "a key that was taken away still opens")
            time.sleep(0.1)
        print("keys_and_tls: ok")
finally:
    for child in children:
        child.kill()
