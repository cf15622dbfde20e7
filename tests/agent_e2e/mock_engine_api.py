"""The mock engine as a client sees it: OpenAI's API, vLLM's metrics, errors, cancel on disconnect, and both sides of the
NIXL and bootstrap prefill/decode contracts."""
import argparse
import http.client
import json
import threading
import time
import urllib.parse
import urllib.request

from processes import PATIENCE_S, Processes, eventually, get, metric, post, scratch


def api(url: str) -> None:
    assert get(url + "/health") == ""
    models = json.loads(get(url + "/v1/models"))
    name = models["data"][0]["id"]
    assert models["object"] == "list" and name == "llama-3.1-8b", models

    chat = {"model": name, "messages": [{"role": "user", "content": "x" * 40}], "max_tokens": 7, "ignore_eos": True}
    status, answer = post(url + "/v1/chat/completions", chat)
    assert status == 200 and answer["object"] == "chat.completion", answer
    assert answer["choices"][0]["finish_reason"] == "length" and answer["choices"][0]["message"]["role"] == "assistant"
    assert answer["usage"] == {"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17,
                               "prompt_tokens_details": {"cached_tokens": 0}}, answer["usage"]

    # The true length from replay: in the body or, where bodies must not be changed, in a header.
    status, answer = post(url + "/v1/completions", {"prompt": [1] * 33, "max_tokens": 50, "wattle_output_tokens": 3})
    assert (status, answer["choices"][0]["finish_reason"]) == (200, "stop"), answer
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (33, 3), answer
    status, answer = post(url + "/v1/completions", {"prompt": "abc", "max_tokens": 50}, {"X-Wattle-Output-Tokens": "5"})
    assert answer["usage"]["completion_tokens"] == 5, answer

    # Several prompts: a choice each, and one usage.
    for prompts in (["x" * 8, "y" * 40], [[1, 2], [3] * 10]):
        several = {"prompt": prompts, "max_tokens": 6, "ignore_eos": True}
        status, answer = post(url + "/v1/completions", several)
        assert status == 200 and [c["index"] for c in answer["choices"]] == [0, 1], answer
        assert all(c["text"] == " watt" * 6 and c["finish_reason"] == "length" for c in answer["choices"]), answer
        assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (12, 12), answer
        chunks = streamed(url, {**several, "stream": True, "stream_options": {"include_usage": True}})
        for index in (0, 1):
            own = [c for chunk in chunks for c in chunk["choices"] if c["index"] == index]
            assert "".join(c["text"] for c in own) == " watt" * 6, chunks
            assert [c["finish_reason"] for c in own] == [None] * 5 + ["length"], chunks
        assert chunks[-1]["usage"]["total_tokens"] == 24, chunks[-1]
    assert len({c["id"] for c in chunks}) == 1, chunks

    for body, wanted in ((b"{", 400), (b"[]", 400), ({"prompt": "x", "model": "other"}, 404), ({"max_tokens": 3}, 400),
                         ({"prompt": "x", "n": 2}, 400), ({"prompt": "x", "max_tokens": 0}, 400),
                         ({"prompt": "x", "max_tokens": "many"}, 400),
                         ({"prompt": "x", "max_tokens": 10**9, "ignore_eos": True}, 400)):
        status, answer = post(url + "/v1/completions", body)
        assert status == wanted and answer["error"]["message"] and answer["error"]["type"], (body, status, answer)
    assert post(url + "/health", {}) == (405, {"detail": "Method Not Allowed"})
    assert post(url + "/nowhere", {}) == (404, {"detail": "Not Found"})
    status, answer = post(url + "/v1/completions", {"prompt": [5, 128256], "max_tokens": 3})
    assert status == 400 and "128256 is out of vocabulary" in answer["error"]["message"], answer
    assert json.loads(get(url + "/load")) == {"server_load": 0}

    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "cache_config_info",
                 "prompt_tokens_total", "num_preemptions_total", "time_to_first_token_seconds_count",
                 "inter_token_latency_seconds_count", "e2e_request_latency_seconds_count"):
        metric(url, "vllm:" + name)
    assert metric(url, "vllm:generation_tokens_total") == 15 + 4 * 12


def streamed(url: str, body: dict) -> list[dict]:
    """The chunks of a stream before its [DONE]."""
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        events = [line[6:] for line in answer.read().decode().splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]", events
    return [json.loads(event) for event in events[:-1]]


def load_report(processes: Processes, url: str) -> None:
    """Usage as vLLM reports it: on request, and in complete answers; and a gateway that requests it."""
    for stream in (False, True):
        connection = http.client.HTTPConnection(urllib.parse.urlparse(url).netloc, timeout=PATIENCE_S)
        connection.request("POST", "/v1/completions", json.dumps({"prompt": "x", "max_tokens": 2, "stream": stream}),
                           {"Content-Type": "application/json", "endpoint-load-metrics-format": "json"})
        answer = connection.getresponse()
        said = answer.getheader("endpoint-load-metrics")
        answer.read()
        assert (said is None) == stream, said
        assert stream or json.loads(said.removeprefix("JSON "))["named_metrics"]["num_requests_waiting"] == 0, said
    _, at = processes.gateway("--model", "llama-3.1-8b", "--worker", url + ",load=orca")
    eventually("it is healthy", lambda: json.loads(get(at["admin"] + "/workers"))["workers"][0]["is_healthy"])

    def known() -> bool:
        assert post(at["url"] + "/v1/completions", {"model": "llama-3.1-8b", "prompt": "x", "max_tokens": 2})[0] == 200
        gauges = json.loads(get(at["admin"] + "/workers"))["workers"][0]["view"].get("gauges", {})
        return gauges.keys() == {"age_ms", "waiting", "kv_share"}

    eventually("the gateway knows what it said", known)


def cancel(url: str) -> None:
    before = metric(url, "vllm:request_success_total", 'finished_reason="abort"')
    connection = http.client.HTTPConnection(urllib.parse.urlparse(url).netloc, timeout=PATIENCE_S)
    body = {"prompt": "x", "max_tokens": 20000, "ignore_eos": True, "stream": True}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200 and answer.readline().startswith(b"data: ")
    assert metric(url, "vllm:num_requests_running") == 1
    answer.close()
    connection.close()
    eventually("a client's leaving ends its request", lambda: metric(url, "vllm:num_requests_running") == 0)
    assert metric(url, "vllm:request_success_total", 'finished_reason="abort"') == before + 1
    assert metric(url, "vllm:kv_cache_usage_perc") == 0


def dies(processes: Processes) -> None:
    """Its server outlives its engine, as vLLM's does: an error event, then [DONE]; llama.cpp's has no [DONE]."""
    for dialect in ("vllm", "llama.cpp"):
        _, at = processes.start("mock-engine", "--dialect", dialect, "--die-with-parent")
        connection = http.client.HTTPConnection(urllib.parse.urlparse(at["url"]).netloc, timeout=PATIENCE_S)
        body = {"prompt": "x", "max_tokens": 20000, "ignore_eos": True, "stream": True}
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.readline().startswith(b"data: ")
        assert post(at["url"] + "/wattle/die", {}) == (200, {})
        events = [line for line in answer.read().decode().splitlines() if line.startswith("data: ")]
        assert "error" in json.loads(events[-2 if dialect == "vllm" else -1][6:]), events[-2:]
        assert (events[-1] == "data: [DONE]") == (dialect == "vllm"), events[-2:]
        assert post(at["url"] + "/v1/completions", {"prompt": "x"})[0] == 500


def loads(processes: Processes) -> None:
    _, at = processes.start("mock-engine", "--dialect", "sglang", "--die-with-parent")
    said = json.loads(get(at["url"] + "/v1/loads?include=core"))["loads"][0]
    assert said["num_running_reqs"] == 0 and said["max_total_num_tokens"] > 10_000, said
    assert json.loads(get(at["url"] + "/get_load"))[0]["num_reqs"] == 0
    assert metric(at["url"], "sglang:num_queue_reqs") == 0


def hand_over(prefill: str, decode: str) -> None:
    original = {"prompt": [5] * 1000, "max_tokens": 20, "ignore_eos": True}
    ask = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None, "remote_block_ids": None,
           "remote_host": None, "remote_port": None}
    same = {"X-Request-Id": "r-1"}
    status, first = post(prefill + "/v1/completions", dict(original, max_tokens=1, stream=False, kv_transfer_params=ask), same)
    params = first["kv_transfer_params"]
    assert status == 200 and params["do_remote_prefill"] and not params["do_remote_decode"], first
    assert params["remote_request_id"] == "r-1" and params["remote_num_tokens"] == 1000, params
    assert len(params["remote_block_ids"][0]) == 63, "1000 tokens in blocks of 16"
    assert metric(prefill, "vllm:kv_cache_usage_perc") > 0, "the KV waits to be pulled"
    status, second = post(decode + "/v1/completions", dict(original, kv_transfer_params=params), same)
    assert status == 200 and second["usage"]["completion_tokens"] == 20, second
    eventually("pulled KV is freed", lambda: metric(prefill, "vllm:kv_cache_usage_perc") == 0)
    # The number of steps distinguishes a transfer from a recomputation: here no prompt step ran at all.
    assert metric(decode, "wattle_mock_engine_steps_total") == 19

    # One hand-over has the KV of one prompt.
    for url, kv in ((prefill, ask), (decode, params)):
        status, answer = post(url + "/v1/completions", {**original, "prompt": ["a", "b"], "kv_transfer_params": kv})
        assert status == 400 and answer["error"]["param"] == "kv_transfer_params", answer

    # Malformed requests are refused, and the engine continues.
    for wrong in ({"remote_host": 5}, {"remote_request_id": 7}, {"remote_host": ["127.0.0.1"]}):
        status, answer = post(decode + "/v1/completions", dict(original, kv_transfer_params={**params, **wrong}), same)
        assert status == 400 and "remote_host" in answer["error"]["message"], (wrong, status, answer)
        assert get(decode + "/health") == ""

    # The KV is gone: the decode side computes the prompt itself.
    status, third = post(decode + "/v1/completions", dict(original, kv_transfer_params=params), same)
    assert status == 200 and third["usage"]["completion_tokens"] == 20, third
    assert metric(decode, "wattle_mock_engine_steps_total") == 19 + 20


def meet(prefill: str, decode: str) -> None:
    """SGLang's contract: both legs at once, in any order."""
    port = int(prefill.rsplit(":", 1)[1])
    body = {"prompt": [5] * 1000, "max_tokens": 20, "ignore_eos": True, "bootstrap_host": "127.0.0.1", "bootstrap_port": port}
    held = lambda: metric(prefill, "vllm:kv_cache_usage_perc")
    steps = metric(decode, "wattle_mock_engine_steps_total")
    for room, first, second in ((2**63 - 1, prefill, decode), (7, decode, prefill)):
        legs = {}
        leg = lambda url: legs.__setitem__(url, post(url + "/v1/completions", dict(body, bootstrap_room=room)))
        threads = [threading.Thread(target=leg, args=(url,)) for url in (first, second)]
        threads[0].start()
        if first == prefill:
            eventually("the KV waits in its room", lambda: held() > 0)
        else:
            time.sleep(0.2)
        threads[1].start()
        for thread in threads:
            thread.join()
        assert legs[prefill][0] == 200 and legs[prefill][1]["usage"]["completion_tokens"] == 1, legs
        assert legs[decode][0] == 200 and legs[decode][1]["usage"]["completion_tokens"] == 20, legs
        eventually("the KV is freed", lambda: held() == 0)
    assert metric(decode, "wattle_mock_engine_steps_total") == steps + 2 * 19, "no prompt is computed twice"

    # Several prompts meet in a room each.
    batch = {**body, "prompt": [[5] * 100, [6] * 200], "bootstrap_room": [21, 22], "bootstrap_host": ["127.0.0.1"] * 2,
             "bootstrap_port": [port, port]}
    legs = {}
    threads = [threading.Thread(target=lambda url=url: legs.__setitem__(url, post(url + "/v1/completions", batch)))
               for url in (prefill, decode)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert legs[prefill][0] == legs[decode][0] == 200, legs
    assert legs[decode][1]["usage"]["completion_tokens"] == 40 and len(legs[decode][1]["choices"]) == 2, legs
    eventually("the KV of both is freed", lambda: held() == 0)
    assert post(decode + "/v1/completions", {**batch, "bootstrap_room": [23]})[0] == 400

    # A single leg waits; when it is cancelled, the other side is notified at once.
    def alone(url: str, room: int) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(urllib.parse.urlparse(url).netloc, timeout=PATIENCE_S)
        connection.request("POST", "/v1/completions", json.dumps(dict(body, bootstrap_room=room)), {"Content-Type": "application/json"})
        return connection

    waiting = alone(prefill, 8)
    eventually("it holds its KV", lambda: held() > 0)
    waiting.close()
    eventually("and lets go when nobody wants it", lambda: held() == 0)
    said = alone(decode, 9)
    time.sleep(0.2)
    cancelled = alone(prefill, 9)  # by now the decode side waits in the room; whether this leg computes already or not
    cancelled.close()
    answer = said.getresponse()
    assert answer.status in (200, 500), answer.status  # 200 when the hand-over was faster than the cancellation
    answer.read()
    assert post(decode + "/v1/completions", dict(body, bootstrap_room=-1))[0] == 400
    assert post(decode + "/v1/completions", dict(body, bootstrap_room=1, bootstrap_port=1))[0] == 500, "nobody there"
    eventually("nothing is left behind", lambda: held() == 0 and metric(decode, "vllm:num_requests_running") == 0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    flags = parser.parse_args()
    with scratch() as folder:
        processes = Processes(flags.wattle, folder)
        try:
            _, at = processes.start("mock-engine", "--die-with-parent")
            api(at["url"])
            cancel(at["url"])
            load_report(processes, at["url"])
            dies(processes)
            loads(processes)
            _, prefill = processes.start("mock-engine", "--role", "prefill", "--gpus", "0", "--id", "p0", "--die-with-parent")
            _, decode = processes.start("mock-engine", "--role", "decode", "--gpus", "1", "--id", "d0", "--die-with-parent")
            hand_over(prefill["url"], decode["url"])
            meet(prefill["url"], decode["url"])
        finally:
            processes.end()


if __name__ == "__main__":
    main()
