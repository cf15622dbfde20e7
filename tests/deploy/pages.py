"""Runs the blocks of docs/deploy-*.md and docs/live.md that are labelled `run`, in order, in one shell per page: mock engines replace
vLLM and SGLang with the same command lines, virtual GPUs the real ones, and ports and paths are those of a test."""
import argparse
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

from processes import PATIENCE_S, scratch

# Stand-ins that come before the real programs in PATH. {wattle}, {nvml} and {folder} are filled in.
ENGINE = r"""#!/usr/bin/env python3
import os, sys
words = sys.argv[1:]
def value(flag, otherwise=None):
    return words[words.index(flag) + 1] if flag in words else otherwise
"""
STUBS = {
    "vllm": ENGINE + r"""
import json
assert words[0] == "serve", words
known = {"--served-model-name", "--host", "--port", "--scheduler-cls", "--additional-config"}
assert all(w in known for w in words if w.startswith("--")), words
reports = json.loads(value("--additional-config"))["wattle"]["step_reports"]
assert value("--scheduler-cls") == "wattle_vllm.scheduler.StepReports"
os.execv("{wattle}", ["wattle", "mock-engine", "--dialect", "vllm", "--listen", value("--host") + ":" + value("--port"), "--model",
         value("--served-model-name"), "--gpus", os.environ.get("CUDA_VISIBLE_DEVICES", "0"), "--fpm", reports, "--step-reports", "start"])
""",
    "python3": ENGINE.replace("/usr/bin/env python3", "{python}") + r"""
if words[:2] != ["-m", "sglang.launch_server"]:
    os.execv("{python}", ["python3"] + words)
known = {"--model-path", "--served-model-name", "--host", "--port", "--disaggregation-mode", "--disaggregation-bootstrap-port",
         "--enable-forward-pass-metrics", "--forward-pass-metrics-ipc-name"}
assert all(w in known for w in words if w.startswith("--")), words
assert "--enable-forward-pass-metrics" in words
os.execv("{wattle}", ["wattle", "mock-engine", "--dialect", "sglang", "--listen", value("--host") + ":" + value("--port"), "--model",
         value("--served-model-name"), "--gpus", os.environ["CUDA_VISIBLE_DEVICES"], "--role",
         value("--disaggregation-mode", "colocated"), "--fpm", value("--forward-pass-metrics-ipc-name") + ".0"])
""",
    "sudo": "#!/bin/sh\nexec \"$@\"\n",
    "wattle": "#!/bin/sh\ncase \"$*\" in *--nvml*) ;; agent*) shift; set -- agent --nvml {nvml} --state {folder}/locks \"$@\" ;; esac\n"
              "exec {wattle} \"$@\"\n",
}


def free_port(taken: set[int]) -> int:
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in taken:
            taken.add(port)
            return port


def run_page(page: pathlib.Path, flags: argparse.Namespace) -> int:
    text = page.read_text()
    blocks = re.findall(r"^```(\S+) ?(.*)\n((?:.*\n)*?)```$", text, re.M)
    assert text.count("```") == 2 * len(blocks), f"{page.name}: a block is not closed"
    assert {kind for kind, _, _ in blocks} <= {"sh", "toml"}, f"{page.name}: {[b[0] for b in blocks]}"
    script = [code for kind, how, code in blocks if (kind, how) == ("sh", "run")]
    files = {how: code for kind, how, code in blocks if kind == "toml"}
    assert script, f"{page.name} runs nothing"
    with scratch() as folder:
        taken: set[int] = set()
        ports: dict[str, int] = {}

        def of_test(code: str) -> str:
            """The same on this test's ports and in its folder."""
            for port in re.findall(r"\b(?:8[0-9]{3}|9[0-9]{3}|5557|5558)\b", code):
                ports.setdefault(port, free_port(taken))
            # The mock's prefill engine is met at the port that it serves at.
            if "9000" in ports and "8998" in ports:
                ports["8998"] = ports["9000"]
            for port, ours in ports.items():
                code = re.sub(rf"\b{port}\b", str(ours), code)
            for theirs, ours in (("/tmp/wattle-", f"{folder}/"), ("/dev/shm/wattle-", f"{folder}/"), ("/run/wattle", folder),
                                 ("build/release/fake_nvml/libnvidia-ml.so.1", flags.nvml)):
                code = code.replace(theirs, ours)
            return code

        stubs = pathlib.Path(folder) / "stubs"
        stubs.mkdir()
        for name, code in STUBS.items():
            for key, ours in {"wattle": flags.wattle, "nvml": flags.nvml, "folder": folder, "python": sys.executable}.items():
                code = code.replace("{" + key + "}", ours)
            (stubs / name).write_text(code)
            (stubs / name).chmod(0o755)
        for name, code in files.items():
            (pathlib.Path(folder) / name).write_text(of_test(code))
        env = dict(os.environ, PATH=f"{stubs}:{os.environ['PATH']}",
                   WATTLE_FAKE_NVML=f"{folder}/board,count=2,clock_min=210,clock_max=1410")
        with open(f"{folder}/out", "w+") as out:
            shell = subprocess.Popen(["bash", "-euo", "pipefail", "-c", of_test("".join(script))], cwd=folder, env=env, stdout=out,
                                     stderr=subprocess.STDOUT, start_new_session=True)
            try:
                code = shell.wait(4 * PATIENCE_S)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                os.killpg(shell.pid, signal.SIGKILL)  # its session includes the processes that the page started in the background
                shell.wait()
            out.seek(0)
            said = out.read()
        assert code == 0, f"{page.name}: {'took too long' if code is None else f'exit {code}'}\n{said}"
        for expected in re.findall(r"^<!-- says: (.*) -->$", text, re.M):
            assert re.search(expected, said), f"{page.name}: nothing like {expected} in\n{said}"
    return len(script)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--wattle", "--nvml", "--docs"):
        parser.add_argument(name, required=True)
    flags = parser.parse_args()
    pages = sorted(pathlib.Path(flags.docs).glob("deploy-*.md"))
    assert len(pages) >= 3, pages
    for page in [*pages, pathlib.Path(flags.docs) / "live.md"]:
        print(f"{page.name}: {run_page(page, flags)} blocks run")


if __name__ == "__main__":
    main()
