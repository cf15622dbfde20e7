"""ReTail live: the gateway tracks the queue and chooses the clock when a request arrives, the agent sets it, and the engine runs
at it. A long answer needs a higher clock than a short one; cancelled requests no longer count; without the gateway the clock is
the highest."""
import json
import os
import threading

from processes import a_node, arguments, eventually, get, metric, post

HIGHEST = 1410
SCENARIO = "throttllem-llama2-13b-tp1"


def main() -> None:
    flags = arguments()
    with a_node(flags.wattle) as (node, folder):
        kind = ("--gpu", "a100-40g", "--llm", "llama-2-13b", "--block-size", "128")
        _, engine = node.start("mock-engine", *kind, "--gpus", "0", "--die-with-parent")
        _, agent = node.start("agent", "--engine", f"{engine['fpm']}=0", "--recipe", "retail", *kind, "--nvml", flags.nvml,
                              "--state", os.path.join(folder, "locks"))
        gateway, at = node.gateway("--model", "llama-2-13b",
                                   "--recipe", "retail", *kind, "--scenario", SCENARIO, "--set", "workload.trace=",
                                   "--set", "workload.synthetic=azure-conv", "--e2e-slo-ms", "30000", "--agent",
                                   agent["admin"], "--worker", f"{engine['url']},fpm={engine['fpm']}")
        workers = lambda: json.loads(get(at["admin"] + "/workers"))["workers"]
        eventually("the gateway has found its engine", lambda: workers()[0]["status"] == "ready")
        clock = lambda: metric(engine["url"], "wattle_mock_engine_clock_mhz")
        decided = lambda: workers()[0]["view"]["clock_mhz"]

        def ask(tokens: int) -> threading.Thread:
            body = {"model": "llama-2-13b", "prompt": "count", "max_tokens": tokens, "ignore_eos": True}
            thread = threading.Thread(target=lambda: answers.append(post(at["url"] + "/v1/completions", body)[0]))
            thread.start()
            return thread

        def chosen(tokens: int) -> float:
            """The clock for one such request alone, read while the engine serves it."""
            thread = ask(tokens)
            thread.join()
            eventually("the engine runs at the clock that was decided", lambda: clock() == decided())
            return clock()

        answers: list[int] = []
        short, long = chosen(40), chosen(600)
        print(f"40 tokens: {short:.0f} MHz, 600 tokens: {long:.0f} MHz")
        assert short < long < HIGHEST, "a longer answer needs a higher clock, and neither the highest"
        assert chosen(40) == short, "the long one is gone"

        # The neediest of all that are there decides, no matter which came last.
        thread = ask(600)
        eventually("the long one is in", lambda: clock() >= long)
        ask(40).join()
        assert thread.is_alive() and clock() >= long, clock()
        thread.join()
        assert answers == [200] * 5, answers

        gateway.kill()
        gateway.wait()
        eventually("nobody renews the lease: the highest clock", lambda: clock() == HIGHEST)


if __name__ == "__main__":
    main()
