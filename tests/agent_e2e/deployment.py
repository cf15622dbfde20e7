"""One file for gateway and agent (--config): both start from it, the command line takes precedence, errors name the line, and an
agent with different beliefs is reported. `wattle init` writes such a file for the processes that run here."""
import argparse
import json
import os
import pathlib
import subprocess
import tomllib

from processes import a_node, eventually, get, metric, post


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    parser.add_argument("--example", required=True)
    flags = parser.parse_args()
    with a_node(flags.wattle) as (node, folder):
        prefill, decode = node.engine("prefill", 0), node.engine("decode", 1)
        text = pathlib.Path(flags.example).read_text()
        for old, new in (("http://127.0.0.1:9000", prefill["url"]), ("http://127.0.0.1:9001", decode["url"]),
                         ("tcp://127.0.0.1:5557", prefill["fpm"]), ("tcp://127.0.0.1:5558", decode["fpm"]),
                         ("127.0.0.1:8000", "127.0.0.1:0"), ("127.0.0.1:8001", "127.0.0.1:0"),
                         ("itl_ms = 60", "itl_ms = 60\ntbt_ms = 40"),
                         ("[agent] ", f"[agent]\nnvml = \"{flags.nvml}\"\nstate = \"{folder}/locks\"\n#")):
            assert old in text, old
            text = text.replace(old, new)
        file = os.path.join(folder, "wattle.toml")
        pathlib.Path(file).write_text(text.replace("127.0.0.1:9100", "127.0.0.1:0"))

        def starts(*more: str):
            return node.start("agent", "--config", file, *more)

        agent, at_agent = starts()
        # The agent's port is taken from the free ones, so that tests do not meet; the gateway is given it on the command line,
        # which holds instead of the file.
        _, at = node.start("gateway", "--config", file, "--agent", at_agent["admin"])
        eventually("both engines are ready", lambda: all(
            w["status"] == "ready" for w in json.loads(get(at["admin"] + "/workers"))["workers"]))
        status, answer = post(at["url"] + "/v1/completions", {"model": "llama-3.1-8b", "prompt": "count", "max_tokens": 5})
        assert status == 200, answer
        status, _ = post(at["url"] + "/v1/completions", {"model": "other", "prompt": "count", "max_tokens": 5})
        assert status == 404, "the file's models are those there are"
        eventually("the agent is heard of", lambda: json.loads(get(at["admin"] + "/usage"))["energy_j"]["metered"] > 0)
        assert metric(at["admin"], "wattle_gateway_agents_differ") == 0
        assert metric(at_agent["admin"], "wattle_agent_other_gpus") == 0, "the board is an A100-80G's, as the file says"

        # Another recipe and objective on the command line of the agent: the gateway reports the difference, and its end.
        admin = at_agent["admin"].removeprefix("http://")
        agent.terminate()
        agent.wait()
        agent, _ = starts("--recipe", "static-max", "--itl-slo-ms=40", "--admin", admin, "--gpu", "h100")
        eventually("the gateway notices", lambda: metric(at["admin"], "wattle_gateway_agents_differ") == 1)
        assert metric(at_agent["admin"], "wattle_agent_other_gpus") == 2, "these are no H100s"
        agent.terminate()
        agent.wait()
        agent, _ = starts("--admin", admin)
        eventually("they agree again", lambda: metric(at["admin"], "wattle_gateway_agents_differ") == 0)
        agent.terminate()
        agent.wait()
        starts("--tbt-slo-ms=50", "--admin", admin)
        eventually("clocks keep to mean gaps, too", lambda: metric(at["admin"], "wattle_gateway_agents_differ") == 1)

        def refused(changed: str, *words: str) -> str:
            pathlib.Path(file).write_text(changed)
            done = subprocess.run([flags.wattle, *words, "--config", file], env=node.env, capture_output=True, text=True)
            assert done.returncode == 2, done
            return done.stderr

        lines = text.splitlines()
        line = next(i for i, one in enumerate(lines, 1) if one.startswith("listen"))
        said = refused(text.replace("listen = ", "lissten = "), "gateway")
        assert f"wattle.toml:{line}: `wattle gateway` has no flag --lissten; did you mean --listen?" in said, said
        said = refused(text.replace("[gateway] ", "[gateway]\nthreads = 0\n#"), "gateway")
        assert "wattle.toml:" in said and "--threads" in said, said
        said = refused(text.replace("listen = ", "gap_timeout_s = -1\nlisten = "), "gateway")
        assert f"wattle.toml:{line}:" in said and "--gap-timeout-s" in said, said
        said = refused(text, "agent", "--node", "elsewhere")
        assert 'there is no node "elsewhere"; there are this' in said, said
        said = subprocess.run([flags.wattle, "agent", "--config", file + ".none"], capture_output=True, text=True)
        assert said.returncode == 2 and "wattle.toml.none" in said.stderr, said

        # init, on the same machine.
        ports = ",".join(one["url"].rsplit(":", 1)[1] for one in (prefill, decode))
        made = os.path.join(folder, "made.toml")
        init = [flags.wattle, "init", "--out", made, "--nvml", flags.nvml, "--ports", ports]
        done = subprocess.run(init, env=node.env, capture_output=True, text=True)
        assert done.returncode == 0 and "2 GPU(s), 2 engine(s)" in done.stdout, done
        wrote = tomllib.loads(pathlib.Path(made).read_text())
        assert wrote["fleet"]["gpu"] == "a100-80g" and wrote["fleet"]["llm"] == "llama-3.1-8b", wrote
        assert [w["url"] for w in wrote["worker"]] == [prefill["url"], decode["url"]], wrote
        assert [w["gpus"] for w in wrote["worker"]] == [[0], [1]], wrote
        odd = 'C:\\models\\"x"\n'
        at = node.start("mock-engine", "--gpus", "0", "--model", odd, "--die-with-parent")[1]
        made_odd = os.path.join(folder, "odd.toml")
        subprocess.run([*init[:3], made_odd, "--ports", at["url"].rsplit(":", 1)[1]], env=node.env, check=True, capture_output=True)
        assert tomllib.loads(pathlib.Path(made_odd).read_text())["fleet"]["models"] == [odd], "whatever an engine calls its model"
        again = subprocess.run(init, env=node.env, capture_output=True, text=True)
        assert again.returncode == 2 and "--force" in again.stderr, again
        done = subprocess.run([flags.wattle, "config", "check", made], env=node.env, capture_output=True, text=True)
        assert done.returncode == 0, done
        made_text = pathlib.Path(made).read_text()
        empty = os.path.join(folder, "empty.toml")
        pathlib.Path(empty).write_text(made_text + '[[node]]\nname = "other"\nagent = "127.0.0.1:9101"\n')
        text = pathlib.Path(empty).read_text().replace("[[worker]]", '[[worker]]\nnode = "this"')
        pathlib.Path(empty).write_text(text)
        done = subprocess.run([flags.wattle, "config", "check", empty], env=node.env, capture_output=True, text=True)
        assert done.returncode == 2 and "`wattle agent --node other` does not start" in done.stderr and "[[worker]]" in done.stderr, done
        for old, new in (("127.0.0.1:8080", "127.0.0.1:0"), ("127.0.0.1:8081", "127.0.0.1:0"), ("127.0.0.1:9100", "127.0.0.1:0"),
                         ('recipe = "static-max"', 'recipe = "static-sweet"'), ("[agent]", f'[agent]\nstate = "{folder}/locks-too"')):
            assert old in made_text, old
            made_text = made_text.replace(old, new)
        pathlib.Path(made).write_text(made_text)
        for one in [p for p in node.running if p.args[1] in ("agent", "gateway")]:
            node.stop(one)
        _, at_agent = node.start("agent", "--config", made)
        _, at = node.start("gateway", "--config", made, "--agent", at_agent["admin"])
        eventually("what it wrote is served", lambda: post(
            at["url"] + "/v1/completions", {"model": "llama-3.1-8b", "prompt": "count", "max_tokens": 5})[0] == 200)
        # No engine has an endpoint for step reports: gateway and agent identify it by its URL.
        eventually("its GPUs are metered", lambda: metric(at["admin"], "wattle_gateway_unmetered_workers") == 0
                   and json.loads(get(at["admin"] + "/usage"))["energy_j"]["metered"] > 0)
        gpus = [gpu for e in json.loads(get(at_agent["admin"] + "/engines"))["engines"] for gpu in e["gpus"]]
        for gpu in gpus:
            eventually("its clock is set", lambda gpu=gpu: metric(at_agent["admin"], "wattle_agent_applied_clock_mhz", gpu) == 1005)


if __name__ == "__main__":
    main()
