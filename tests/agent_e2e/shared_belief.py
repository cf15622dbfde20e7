"""A gateway and an agent under a recipe with a learning latency predictor: the gateway learns from the agent's measurements and
uses a fit of them; a gateway that starts later learns from the agent's newest steps."""
import os
import threading

from processes import a_node, arguments, eventually, metric, post

MODEL = "llama-3.1-8b"
LEARNS = ("--recipe", "greenserve", "--set", "predictor.form=linear", "--set", "predictor.refit_every=20")


def main() -> None:
    flags = arguments()
    with a_node(flags.wattle, gpus=2) as (node, folder):
        prefill = node.engine("prefill", 0)
        decode = node.engine("decode", 1)
        _, agent = node.start("agent", "--engine", f"{prefill['fpm']}=0@prefill", "--engine", f"{decode['fpm']}=1@decode",
                              *LEARNS, "--ttft-ms", "600", "--itl-ms", "60", "--nvml", flags.nvml,
                              "--state", os.path.join(folder, "state"))

        def gateway() -> dict:
            return node.gateway("--model", MODEL, *LEARNS,
                                "--ttft-slo-ms", "600", "--itl-slo-ms", "60", "--agent", agent["admin"],
                                "--worker", f"{prefill['url']}=prefill,fpm={prefill['fpm']}",
                                "--worker", f"{decode['url']}=decode,fpm={decode['fpm']}")[1]

        first = gateway()
        eventually("it serves", lambda: post(first["url"] + "/v1/completions",
                                             {"model": MODEL, "prompt": "a", "max_tokens": 2})[0] == 200)
        # Different lengths: a step is measured when the policy decides, which is when the batch changes.
        ask = lambda tokens: post(first["url"] + "/v1/completions",
                                  {"model": MODEL, "prompt": "count", "max_tokens": tokens, "ignore_eos": True})
        threads = [threading.Thread(target=ask, args=(20 + 7 * i,)) for i in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        samples = lambda at, who: metric(at, f"wattle_{who}_predictor_samples_total")
        assert samples(agent["admin"], "agent") > 30, f"the agent has measured little: {samples(agent['admin'], 'agent')}"
        eventually("the gateway has learnt what the agent has measured",
                   lambda: samples(first["admin"], "gateway") == samples(agent["admin"], "agent"))
        late = gateway()
        eventually("so has one that starts later",
                   lambda: samples(late["admin"], "gateway") == samples(agent["admin"], "agent"))
        print(f"measured steps: agent {samples(agent['admin'], 'agent')}, gateway {samples(first['admin'], 'gateway')}; "
              f"fits in use: {metric(first['admin'], 'wattle_gateway_predictor_adopted_total')}")


if __name__ == "__main__":
    main()
