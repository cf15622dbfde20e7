"""The page's Docker commands, by Debian's Docker in separate namespaces. There is no registry: debian:12 and debian:12-slim are made
by mmdebstrap. A second file next to compose.yaml adapts it to this machine: limits of at most our own, and a mock engine. A
stand-in for NVIDIA's container runtime adds the fake NVML. Then gateway and agent are inspected, and killed. Takes ten minutes
and 4 GB under build/deploy, most of it once. Exit 77 (skipped) if a tool is missing."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys

from processes import eventually, get, metric, post
from sandbox import again_in_namespaces, host_of_its_own, need, need_tools, remove_cgroups, status_of, unpack

PACKAGES = {"docker.io": "usr/sbin/dockerd", "containerd": "usr/bin/containerd", "runc": "usr/sbin/runc"}
CONFIG = """
[fleet]
recipe = "static-max"
set = ["frequency.clock_mhz=1005"]
gpu = "a100-80g"
llm = "llama-3.1-8b"
models = ["llama-3.1-8b"]
[gateway]
listen = "127.0.0.1:8000"
[agent]
gpu_locks = "/run/lock/wattle"
[[node]]
name = "this"
agent = "127.0.0.1:9100"
[[worker]]
url = "http://127.0.0.1:9000"
gpus = [0]
step_reports = "tcp://127.0.0.1:5557"
"""
# What NVIDIA's container runtime does: it brings the driver's library in, and devices.
RUNTIME = """#!{python}
import json, os, sys
words = sys.argv[1:]
if "create" in words:
    file = os.path.join(words[words.index("--bundle") + 1], "config.json")
    config = json.load(open(file))
    bind = lambda source, target, *how: config["mounts"].append(
        {{"source": source, "destination": target, "type": "bind", "options": ["bind", *how]}})
    bind("{home}/libnvidia-ml.so.1", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "ro")
    bind("/run/board", "/dev/wattle-board")
    config["process"]["env"].append("WATTLE_FAKE_NVML=/dev/wattle-board/board,count=2,clock_min=210,clock_max=1410")
    json.dump(config, open(file, "w"))
os.execvp("runc", ["runc", *words])
"""


def nvidia_runtime(home: pathlib.Path) -> str:
    """In namespaces of its own."""
    program = home / "nvidia-container-runtime"
    program.write_text(RUNTIME.format(python=sys.executable, home=home))
    program.chmod(0o755)
    pathlib.Path("/run/board").mkdir()
    return str(program)


@contextlib.contextmanager
def docker(home: pathlib.Path):
    """In separate namespaces; only images remain."""
    os.environ.update(DOCKER_HOST="unix:///run/docker.sock", DOCKER_BUILDKIT="1")
    shutil.rmtree(home / "docker/containers", ignore_errors=True)
    with open(home / "docker.log", "w") as log:
        daemon = subprocess.Popen(["dockerd", "--data-root", home / "docker", "--host", os.environ["DOCKER_HOST"], "--bridge", "none",
                                   "--iptables=false", "--ip6tables=false", "--add-runtime", f"nvidia={nvidia_runtime(home)}"], stderr=log)
    try:
        eventually("Docker answers", lambda: subprocess.run(["docker", "version"], capture_output=True).returncode == 0)
        yield
    finally:
        daemon.terminate()
        daemon.wait()


def ask(*words: str) -> str:
    return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout.strip()


def commands(root: pathlib.Path) -> list[str]:
    page = (root / "docs/deploy-containers.md").read_text()
    found = re.search(r"^## Docker\n.*?^```sh\n(.*?)^```$", page, re.M | re.S)[1].splitlines()
    assert [line.split()[:2] for line in found] == [["docker", "build"], ["cp", "wattle.toml"], ["docker", "compose"]], found
    return found


def build(root: pathlib.Path, home: pathlib.Path) -> None:
    """With this machine's network, for packages."""
    with docker(home):
        for name in re.findall(r"^FROM (\S+)", (root / "packaging/docker/Dockerfile").read_text(), re.M):
            if not ask("images", "--quiet", name):
                if not (home / "debian.tar").exists():
                    subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", home / "debian.tar"], check=True)
                ask("import", str(home / "debian.tar"), name)
        subprocess.run([*commands(root)[0].split(), "--network", "host", "--progress", "plain"], cwd=root, check=True)
        ask("image", "prune", "--force")  # the one it takes the place of
        container = ask("create", "wattle")
        for file in ("/usr/lib/wattle/libnvidia-ml.so.1", "/usr/bin/wattle"):
            ask("cp", f"{container}:{file}", str(home))
        ask("rm", container)


def changes() -> dict:
    """A process without CAP_SYS_RESOURCE cannot give more than it has."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return {"services": {
        "gateway": {"ulimits": {"nofile": {"soft": min(files, 1048576), "hard": min(files, 1048576)}}},
        "engine": {"image": "wattle", "user": "0:0", "network_mode": "host", "runtime": "nvidia",
                   "command": ["mock-engine", "--gpus", "0", "--listen", "127.0.0.1:9000", "--fpm", "tcp://127.0.0.1:5557"]}}}


def inspect(service: str, what: str) -> str:
    return ask("inspect", "--format", f"{{{{.State.{what}}}}}", f"docker_{service}_1")


def pid_of(service: str) -> int:
    """Of the first process of its container; 0: it does not run."""
    return int(inspect(service, "Pid"))


def clock() -> float:
    return metric("http://127.0.0.1:9000", "wattle_mock_engine_clock_mhz")


def answers(url: str) -> bool:
    try:
        return bool(get(url))
    except OSError:
        return False


def check_containers() -> None:
    eventually("the engine is up", lambda: answers("http://127.0.0.1:9000/metrics"))
    eventually("the agent has locked the clock", lambda: clock() == 1005)
    eventually("the gateway is ready", lambda: answers("http://127.0.0.1:8000/health"))
    assert post("http://127.0.0.1:8000/v1/completions", {"model": "llama-3.1-8b", "prompt": "a", "max_tokens": 3})[0] == 200
    eventually("Docker finds the gateway well", lambda: inspect("gateway", "Health.Status") == "healthy")
    ask("exec", "docker_gateway_1", "test", "-s", "/etc/ssl/certs/ca-certificates.crt")  # or no carbon source is believed
    gateway, agent = status_of(pid_of("gateway")), status_of(pid_of("agent"))
    assert int(gateway["CapBnd"], 16) == 0 and gateway["Uid"].split()[0] == "65534", gateway
    assert int(agent["CapEff"], 16) == int(agent["CapBnd"], 16) == 1 << 21 | 1 << 23, agent  # SYS_ADMIN, SYS_NICE
    for service, status in (("gateway", gateway), ("agent", agent)):
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
        assert subprocess.run(["docker", "exec", f"docker_{service}_1", "touch", "/tmp/x"], capture_output=True).returncode != 0
    assert os.path.exists("/var/lib/wattle/agent-locks") and os.listdir("/run/lock/wattle")


def check_kills(compose) -> None:
    """kill -9 of a container's first process takes all in it: its guardian, too."""
    agent = pid_of("agent")
    os.kill(agent, signal.SIGKILL)
    eventually("the agent's container is started again", lambda: pid_of("agent") not in (0, agent))
    eventually("it has taken off what its predecessor left locked", lambda: answers("http://127.0.0.1:9100/metrics") and metric(
        "http://127.0.0.1:9100", "wattle_agent_restored_at_start_total") == 1)
    eventually("and locked the clock itself", lambda: metric("http://127.0.0.1:9100", "wattle_agent_applied_clock_mhz") == clock() == 1005)
    gateway = pid_of("gateway")
    os.kill(gateway, signal.SIGKILL)
    eventually("the gateway's container is started again", lambda: pid_of("gateway") not in (0, gateway))
    eventually("and serves", lambda: answers("http://127.0.0.1:8000/health"))
    # Obeyed once its predecessor's lease is over; until then the clock is the highest. Stopped, it begins no such contest any more.
    compose("stop", "gateway")
    eventually("the agent locks its own clock again", lambda: clock() == 1005)
    # For good: a container that was killed by its name is not restarted.
    ask("kill", "docker_agent_1")
    eventually("it is gone", lambda: pid_of("agent") == 0)
    assert clock() == 1005, "nobody is left to take the lock off"
    compose("run", "--rm", "-T", "agent", "agent", "--config", "/etc/wattle/wattle.toml", "--unlock")
    assert clock() == 1410
    compose("up", "-d")
    eventually("the agent locks the clock", lambda: clock() == 1005)
    compose("stop", "agent")
    assert clock() == 1410, "an agent that is stopped leaves nothing locked"


def run(root: pathlib.Path, home: pathlib.Path) -> None:
    """In a network namespace, too, in a copy of the files that the page's commands use."""
    need("ip", "link", "set", "lo", "up")
    folder = pathlib.Path("/run/here")
    shutil.copytree(root / "packaging/docker", folder / "packaging/docker")
    (folder / "wattle.toml").write_text(CONFIG)
    (folder / "virtual.yaml").write_text(json.dumps(changes()))  # JSON is YAML
    file = "-f packaging/docker/compose.yaml"
    _, copy, up = commands(root)

    def compose(*words: str) -> None:
        subprocess.run(["docker-compose", *file.split(), "-f", "virtual.yaml", *words], cwd=folder, check=True)

    with docker(home):
        try:
            subprocess.run(["sh", "-e", "-c", f"{copy}\n{up.replace(f'docker compose {file}', f'docker-compose {file} -f virtual.yaml')}"],
                           cwd=folder, check=True)
            check_containers()
            check_kills(compose)
        except BaseException:
            compose("logs", "--tail=20")
            raise
        finally:
            compose("down", "--timeout", "5")
    print("the image was built and its containers ran as the page says, were killed and stopped: 0 clocks left locked")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--step", choices=("build", "run"))
    flags = parser.parse_args()
    root = flags.root.resolve()
    home = root / "build/deploy"
    if flags.step:
        host_of_its_own()
        return (build if flags.step == "build" else run)(root, home)
    need_tools("mmdebstrap", "docker-compose", "ip")
    unpack(home, PACKAGES)
    own = ("--pid", "--fork", "--mount-proc", "--kill-child")
    code = again_in_namespaces(__file__, "--step", "build", more=own) or again_in_namespaces(__file__, "--step", "run", more=(*own, "--net"))
    remove_cgroups("docker")
    sys.exit(code)


if __name__ == "__main__":
    main()
