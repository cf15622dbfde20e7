"""A decode engine that joins a running gateway (POST /workers) under EcoRoute gets its share of requests: routing observes it when
it joins, with its spec, like the initial ones."""
import argparse
import json
import threading

from processes import a_node, eventually, get, metric, post

MODEL = "llama-3.1-8b"
REQUESTS = 24


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    flags = parser.parse_args()
    with a_node(flags.wattle, gpus=3) as (node, _):
        prefill, early, late = node.engine("prefill", 0), node.engine("decode", 1), node.engine("decode", 2)
        _, at = node.gateway("--model", MODEL, "--recipe", "voltanallm", "--ttft-slo-ms", "600", "--itl-slo-ms", "60",
                             "--worker", f"{prefill['url']}=prefill,fpm={prefill['fpm']}",
                             "--worker", f"{early['url']}=decode,fpm={early['fpm']}")
        workers = lambda: json.loads(get(at["admin"] + "/workers"))["workers"]
        ready = lambda count: sum(w["status"] == "ready" for w in workers()) == count
        eventually("the gateway has found its engines", lambda: ready(2))
        status, answer = post(at["admin"] + "/workers",
                              {"url": late["url"], "worker_type": "decode", "step_reports": late["fpm"]})
        assert status == 202, answer
        eventually("it has found the late one, too", lambda: ready(3))

        statuses: list[int] = []

        def ask() -> None:
            body = {"model": MODEL, "prompt": "count", "max_tokens": 60, "ignore_eos": True}
            statuses.append(post(at["url"] + "/v1/completions", body)[0])

        threads = [threading.Thread(target=ask) for _ in range(REQUESTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [200] * REQUESTS, statuses
        tokens = {name: metric(one["url"], "vllm:generation_tokens_total") for name, one in (("early", early), ("late", late))}
        print(f"tokens decoded: {tokens}")
        assert min(tokens.values()) > 0, "one of the two was never chosen"


if __name__ == "__main__":
    main()
