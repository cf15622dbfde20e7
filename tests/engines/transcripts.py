"""Recorded answers of vLLM, llama.cpp and Dynamo, replayed by the mock engine through the gateway: the client gets what the engine
sent, and the gateway books the tokens that the engine counted."""
import argparse
import http.client
import json
import os
import pathlib
import sys
from urllib.parse import urlsplit

import behind_gateway as b
from processes import PATIENCE_S, a_node, eventually, get, metric
from real_engines import SKIPPED

STREAMS = ("chat-stream-usage", "chat-stream-nousage", "chat-stream-contusage", "compl-stream")
WHOLE = ("chat-plain", "compl-ids-rid", "nomodel", "maxtok0", "n2", "err-model", "err-nomsg", "err-json", "err-long", "err-neg")


def sections(file: pathlib.Path) -> dict[str, tuple[int, str]]:
    """Status and body by name."""
    found = {}
    for section in file.read_text().split("## ")[1:]:
        name, _, rest = section.partition("\n")
        head, _, body = rest.replace("\r\n", "\n").partition("\n\n")
        if head.startswith("HTTP/1.1 "):
            found[name] = (int(head.split()[1]), body)
    return found


def ask(url: str, name: str) -> tuple[int, str]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=PATIENCE_S)
    body: dict = {"model": "tiny", "max_tokens": 3}
    chat = not name.startswith("compl") and name != "maxtok0"
    body |= {"messages": [{"role": "user", "content": "hello"}]} if chat else {"prompt": [40, 41, 42]}
    if name in STREAMS:
        body |= {"stream": True}
        if name != "chat-stream-nousage":
            body["stream_options"] = {"include_usage": True}
    connection.request("POST", "/v1/chat/completions" if chat else "/v1/completions", json.dumps(body),
                       {"Content-Type": "application/json", "X-Wattle-Transcript": name})
    answer = connection.getresponse()
    return answer.status, answer.read().decode().replace("\r\n", "\n")


def events(body: str) -> list[str]:
    return [line[6:] for line in body.splitlines() if line.startswith("data: ")]


def check(engine: str, file: pathlib.Path, node) -> None:
    recorded = sections(file)
    _, mock = node.start("mock-engine", "--transcript", str(file), "--fpm", "off", "--die-with-parent")
    _, at = node.gateway("--model", "tiny", "--worker", mock["url"])
    eventually("the gateway finds it", lambda: all(
        w["is_healthy"] for w in json.loads(get(at["admin"] + "/workers"))["workers"]))
    output = lambda: metric(at["admin"], "wattle_gateway_output_tokens_total")
    for name in STREAMS:
        status, wanted = recorded[name]
        before = output()
        got_status, got = ask(at["url"], name)
        usage = [json.loads(e)["usage"] for e in events(wanted) if e != "[DONE]" and json.loads(e).get("usage")]
        assert got_status == status and events(got) == events(wanted), (engine, name, got_status, got)
        eventually(f"{engine} {name}: it is booked", lambda: metric(at["admin"], "wattle_gateway_inflight_requests") == 0)
        booked = output() - before
        assert not usage or booked == usage[-1]["completion_tokens"], (engine, name, booked, usage)
    for name in (n for n in WHOLE if n in recorded):
        status, wanted = recorded[name]
        got_status, got = ask(at["url"], name)
        assert (got_status, got.strip()) == (status, wanted.strip()), (engine, name, got_status, got)
    print(f"{engine}: {len(STREAMS)} streams and {sum(n in recorded for n in WHOLE)} whole answers come through as recorded")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    flags = parser.parse_args()
    folder = pathlib.Path(os.environ.get("WATTLE_DATA", "/nowhere")) / "engine-transcripts"
    if not folder.is_dir():
        print(f"skipped: no recorded transcripts in {folder} (WATTLE_DATA)")
        sys.exit(SKIPPED)
    for engine in ("vllm", "llama", "dyn"):
        with a_node(flags.wattle) as (node, _):
            check(engine, folder / f"raw-{engine}.txt", node)


if __name__ == "__main__":
    main()
