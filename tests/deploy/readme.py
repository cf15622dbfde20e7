"""The README's first live commands, run unchanged by a user without write access: the agent runs, sets nothing, and has the same
beliefs as the gateway. Only ports, the socket's folder and the NVML library are the test's."""
import argparse
import json
import os
import pathlib
import re
import shlex

from pages import free_port
from processes import a_node, eventually, get, metric


def commands(readme: pathlib.Path) -> list[list[str]]:
    """`wattle agent …` and `wattle gateway …`, each with its continued lines."""
    text = readme.read_text(encoding="utf-8").replace("\\\n", " ")
    found = [shlex.split(line) for line in re.findall(r"^    wattle (?:agent|gateway) .*$", text, re.M)]
    assert [words[1] for words in found] == ["agent", "gateway"], found
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--wattle", "--nvml", "--readme"):
        parser.add_argument(name, required=True)
    flags = parser.parse_args()
    with a_node(flags.wattle, gpus=1) as (node, folder):
        taken: set[int] = set()
        ports = {port: str(free_port(taken)) for port in ("9000", "9100", "8000", "8001")}

        def of_test(word: str) -> str:
            for port, ours in ports.items():
                word = re.sub(rf"\b{port}\b", ours, word)
            return word.replace("/tmp/", f"{folder}/")

        node.env["HOME"] = "/nonexistent"
        agent, gateway = ([of_test(word) for word in words[1:]] for words in commands(pathlib.Path(flags.readme)))
        node.start("mock-engine", "--gpus", "0", "--gpu", "h100", "--listen", f"127.0.0.1:{ports['9000']}", "--fpm", f"ipc://{folder}/fpm.0",
                   "--die-with-parent")
        log = os.path.join(folder, "gateway.log")
        _, of_agent = node.start(*agent, "--nvml", flags.nvml)
        _, of_gateway = node.start(*gateway, "--listen", f"127.0.0.1:{ports['8000']}", "--admin", f"127.0.0.1:{ports['8001']}", log=log)
        assert of_agent["guardian_pid"] == -1 and metric(of_agent["admin"], "wattle_agent_advisory") == 1
        eventually("the gateway reads the agent's meters",
                   lambda: json.loads(get(of_gateway["admin"] + "/usage"))["meters"] == "emulated")
        with open(log, encoding="utf-8") as said:
            assert metric(of_gateway["admin"], "wattle_gateway_agents_differ") == 0, said.read()
    print("the README's agent and gateway agree")


if __name__ == "__main__":
    main()
