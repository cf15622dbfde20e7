#!/usr/bin/env python3
"""Ten million tokens relayed: what the gateway's memory does meanwhile.

bench/canned_engine answers each stream at once with 250 tokens, wrk asks over 32 connections, and the gateway relays, counts and
books each (journal on disk, an agent's meters read). Resident memory is read after every million tokens. What is kept of
requests is bounded (the newest 4,096), so growth is what comes after the first 2.5 million tokens, 10,000 requests: more than
2 MB of it is a failure. Run by tools/bench.py, or alone with WATTLE=path/to/wattle; the JSON list of rows goes to stdout."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

TOKENS = 250  # a stream
LUA = """
wrk.method = "POST"
wrk.path = "/v1/chat/completions"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true}'
"""


def resident_kb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wattle", default=os.environ.get("WATTLE", "build/release/wattle"))
    parser.add_argument("--tokens", type=float, default=10e6, help="to relay")
    parser.add_argument("--most-growth-mb", type=float, default=2.0)
    args = parser.parse_args()
    built = pathlib.Path(args.wattle).resolve().parent
    children = []

    def started(*words, **more):
        children.append(subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, text=True, **more))
        return children[-1]

    with tempfile.TemporaryDirectory() as folder:
        try:
            engine = started(built / "canned_engine", "--tokens", TOKENS, stdin=subprocess.PIPE)
            upstream = f"http://127.0.0.1:{int(engine.stdout.readline())}"
            agent = started(args.wattle, "agent", "--engine", f"ipc://{folder}/none=0", "--nvml", built / "fake_nvml" / "libnvidia-ml.so.1",
                            "--admin", "127.0.0.1:0", "--state", f"{folder}/state", "--json",
                            env=dict(os.environ, WATTLE_FAKE_NVML=f"{folder}/board,count=1"))
            gateway = started(args.wattle, "gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--model", "m", "--json",
                              "--worker", f"{upstream},fpm=ipc://{folder}/none", "--agent", json.loads(agent.stdout.readline())["admin"],
                              "--journal", f"{folder}/run", "--unready-wait-s", "20")
            at = json.loads(gateway.stdout.readline())
            lua = pathlib.Path(folder) / "ask.lua"
            lua.write_text(LUA)

            def relayed():
                page = urllib.request.urlopen(at["admin"] + "/metrics", timeout=30).read().decode()
                return float(re.search(r"^wattle_gateway_output_tokens_total (\S+)$", page, re.M).group(1))

            seen, tokens = [], 0.0
            while tokens < args.tokens:
                subprocess.run(["wrk", "-t1", "-c32", "-d1s", "-s", lua, at["url"]], stdout=subprocess.DEVNULL, check=True)
                tokens = relayed()
                if not seen or tokens - seen[-1][0] >= min(1e6, args.tokens / 10):
                    seen.append((tokens, resident_kb(gateway.pid)))
                    print(f"{tokens / 1e6:6.2f} M tokens: {seen[-1][1] / 1024:7.2f} MB", file=sys.stderr)
            seen.append((tokens, resident_kb(gateway.pid)))
        finally:
            for child in reversed(children):
                child.terminate()
                child.wait(timeout=20)
    settled = next(kb for count, kb in seen if count >= 10_000 * TOKENS or count >= args.tokens)
    growth = (seen[-1][1] - settled) / 1024
    print(json.dumps([{"name": "gateway.relay.tokens", "value": tokens, "unit": "tokens"},
                      {"name": "gateway.relay.resident", "value": seen[-1][1] / 1024, "unit": "MB"},
                      {"name": "gateway.relay.growth", "value": growth, "unit": "MB"}], indent=1))
    if growth > args.most_growth_mb:
        sys.exit(f"relay_memory: {growth:.1f} MB more than after 10,000 requests, at most {args.most_growth_mb} were to be")


if __name__ == "__main__":
    main()
