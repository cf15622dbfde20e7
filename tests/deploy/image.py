"""packaging/docker where there is no Docker and no registry: the Dockerfile is built by buildah over a Debian 12 made by mmdebstrap (in
place of debian:12 and debian:12-slim), and Debian's docker-compose starts compose.yaml on podman, which answers Docker's API, with nothing
but loopback for a network. One more file changes in it what this machine cannot be: GPUs are virtual instead of by NVIDIA's runtime, the
engine is a mock, limits are at most our own, and the host's folders are this test's. Then gateway and agent are looked at, and killed.
Takes minutes and 4 GB under build/image, most of them once. Exit 77 (skipped) where a tool is missing."""
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
from sandbox import again_in_namespaces, need, need_tools, pure_cgroups

COMPOSE = "packaging/docker/compose.yaml"
CONFIG = """
[fleet]
recipe = "static-max"
set = ["frequency.clock_mhz=1005"]
gpu = "a100-80g"
llm = "llama-3.1-8b"
models = ["llama-3.1-8b"]
[gateway]
listen = "127.0.0.1:8000"
admin = "127.0.0.1:8001"
[agent]
nvml = "/usr/lib/wattle/libnvidia-ml.so.1"
gpu_locks = "/run/lock/wattle"
[[node]]
name = "this"
agent = "127.0.0.1:9100"
[[worker]]
url = "http://127.0.0.1:9000"
gpus = [0]
step_reports = "tcp://127.0.0.1:5557"
"""


def limits() -> dict[str, int]:
    """What containers are given by podman otherwise may be more than a process without CAP_SYS_RESOURCE can have."""
    most = {"nofile": (resource.RLIMIT_NOFILE, 1048576), "nproc": (resource.RLIMIT_NPROC, 32768)}
    hard = {name: resource.getrlimit(which)[1] for name, (which, _) in most.items()}
    return {name: most[name][1] if hard[name] == resource.RLIM_INFINITY else min(hard[name], most[name][1]) for name in most}


def configure(home: pathlib.Path) -> None:
    """Images and containers of this test's own."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "storage.conf").write_text(f'[storage]\ndriver = "overlay"\ngraphroot = "{home}/storage"\nrunroot = "{home}/run"\n')
    ulimits = [f"{name}={most}:{most}" for name, most in limits().items()]
    (home / "containers.conf").write_text(f'[containers]\ncgroups = "disabled"\ndefault_ulimits = {json.dumps(ulimits)}\n')
    os.environ["CONTAINERS_STORAGE_CONF"] = str(home / "storage.conf")
    os.environ["CONTAINERS_CONF"] = str(home / "containers.conf")


def build(root: pathlib.Path, home: pathlib.Path) -> None:
    pure_cgroups()
    names = re.findall(r"^FROM (\S+)", (root / "packaging/docker/Dockerfile").read_text(), re.M)
    for name in names:
        if subprocess.run(["podman", "image", "exists", name]).returncode != 0:
            if not (home / "debian.tar").exists():
                subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", home / "debian.tar"], check=True)
            subprocess.run(["podman", "import", "--quiet", home / "debian.tar", f"docker.io/library/{name}"], check=True)
    (home / "ccache").mkdir(exist_ok=True)
    subprocess.run(["buildah", "bud", "--layers", "--isolation", "chroot", "--network", "host", "--pull-never",
                    "--volume", f"{home}/ccache:/root/.cache/ccache", "--file", root / "packaging/docker/Dockerfile", "--tag", "wattle", root],
                   check=True)


def changes(home: pathlib.Path) -> dict:
    board = {"WATTLE_FAKE_NVML": "/board/board,count=2,clock_min=210,clock_max=1410"}
    config = f"{home}/wattle.toml:/etc/wattle/wattle.toml:ro"
    virtual = {"environment": board, "volumes": [f"{home}/board:/board"]}
    return {"services": {
        "gateway": {"volumes": [config], "ulimits": {name: {"soft": most, "hard": most} for name, most in limits().items()}},
        "agent": {**virtual, "runtime": "crun",
                  "volumes": [config, f"{home}/board:/board", f"{home}/state:/var/lib/wattle", f"{home}/lock:/run/lock"]},
        "engine": {**virtual, "image": "wattle", "user": "0:0", "network_mode": "host",
                   "command": ["mock-engine", "--gpus", "0", "--listen", "127.0.0.1:9000", "--fpm", "tcp://127.0.0.1:5557"]}}}


def podman(*words: str) -> str:
    return subprocess.run(["podman", *words], check=True, capture_output=True, text=True).stdout.strip()


def pid_of(service: str) -> int:
    """Of the first process of its container; 0: it does not run."""
    return int(podman("inspect", "--format", "{{.State.Pid}}", f"wattle_{service}_1"))


def status_of(pid: int) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())


@contextlib.contextmanager
def docker_api(home: pathlib.Path):
    os.environ["DOCKER_HOST"] = f"unix://{home}/podman.sock"
    with open(home / "podman.log", "w") as log:
        service = subprocess.Popen(["podman", "system", "service", "--time", "0", os.environ["DOCKER_HOST"]], stderr=log)
    try:
        eventually("podman answers Docker's API", (home / "podman.sock").exists)
        yield
    finally:
        service.terminate()
        service.wait()


def clock() -> float:
    return metric("http://127.0.0.1:9000", "wattle_mock_engine_clock_mhz")


def answers(url: str) -> bool:
    try:
        return bool(get(url))
    except OSError:
        return False


def check_containers(compose) -> None:
    compose("up", "-d")
    eventually("the engine is up", lambda: answers("http://127.0.0.1:9000/metrics"))
    eventually("the agent has locked the clock", lambda: clock() == 1005)
    eventually("the gateway is ready", lambda: answers("http://127.0.0.1:8000/health"))
    assert post("http://127.0.0.1:8000/v1/completions", {"model": "llama-3.1-8b", "prompt": "a", "max_tokens": 3})[0] == 200
    podman("healthcheck", "run", "wattle_gateway_1")
    podman("exec", "wattle_gateway_1", "test", "-s", "/etc/ssl/certs/ca-certificates.crt")  # or no carbon source is believed
    gateway, agent = status_of(pid_of("gateway")), status_of(pid_of("agent"))
    assert int(gateway["CapBnd"], 16) == 0 and gateway["Uid"].split()[0] == "65534", gateway
    assert int(agent["CapEff"], 16) == int(agent["CapBnd"], 16) == 1 << 21 | 1 << 23, agent  # SYS_ADMIN, SYS_NICE
    for service, status in (("gateway", gateway), ("agent", agent)):
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
        assert subprocess.run(["podman", "exec", f"wattle_{service}_1", "touch", "/tmp/x", "/etc/x"], capture_output=True).returncode != 0
    assert os.SCHED_RR in {os.sched_getscheduler(int(task)) & 3 for task in os.listdir(f"/proc/{pid_of('agent')}/task")}


def check_kills(compose) -> None:
    """kill -9 of a container's first process takes all in it: its guardian, too."""
    agent = pid_of("agent")
    os.kill(agent, signal.SIGKILL)
    eventually("the agent's container is started again", lambda: pid_of("agent") not in (0, agent))
    eventually("it has taken off what its predecessor left locked", lambda: answers("http://127.0.0.1:9100/metrics") and metric(
        "http://127.0.0.1:9100", "wattle_agent_restored_at_start_total") == 1)
    eventually("and locked the clock itself", lambda: clock() == 1005)
    gateway = pid_of("gateway")
    os.kill(gateway, signal.SIGKILL)
    eventually("the gateway's container is started again", lambda: pid_of("gateway") not in (0, gateway))
    eventually("and serves", lambda: answers("http://127.0.0.1:8000/health"))
    # For good: who kills a container by its name does not have it back.
    podman("kill", "--signal", "KILL", "wattle_agent_1")
    eventually("it is gone", lambda: pid_of("agent") == 0)
    assert clock() == 1005, "nobody is left to take the lock off"
    compose("run", "--rm", "-T", "agent", "agent", "--config", "/etc/wattle/wattle.toml", "--unlock")
    assert clock() == 1410
    compose("up", "-d")
    eventually("the agent locks the clock", lambda: clock() == 1005)
    compose("stop", "agent")
    assert clock() == 1410, "an agent that is stopped leaves nothing locked"


def run(root: pathlib.Path, home: pathlib.Path) -> None:
    """In a network namespace, too."""
    pure_cgroups()
    need("ip", "link", "set", "lo", "up")
    for folder in ("board", "state", "lock"):
        shutil.rmtree(home / folder, ignore_errors=True)
        (home / folder).mkdir()
    (home / "wattle.toml").write_text(CONFIG)
    (home / "virtual.yaml").write_text(json.dumps(changes(home)))  # JSON is YAML
    (home / "podman.sock").unlink(missing_ok=True)

    def compose(*words: str) -> None:
        subprocess.run(["docker-compose", "--project-name", "wattle", "-f", root / COMPOSE, "-f", home / "virtual.yaml", *words], check=True)

    with docker_api(home):
        try:
            check_containers(compose)
            check_kills(compose)
        except BaseException:
            compose("logs", "--tail=20")
            raise
        finally:
            compose("down", "--timeout", "5")
    print("the image was built and its containers ran as compose.yaml says, were killed and stopped: 0 clocks left locked")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--step", choices=("build", "run"))
    flags = parser.parse_args()
    root = flags.root.resolve()
    home = root / "build/image"
    configure(home)
    if flags.step == "build":
        build(root, home)
    elif flags.step == "run":
        run(root, home)
    else:
        need_tools("buildah", "podman", "crun", "mmdebstrap", "docker-compose", "ip")
        sys.exit(again_in_namespaces(__file__, "--step", "build") or again_in_namespaces(__file__, "--step", "run", more=("--net",)))


if __name__ == "__main__":
    main()
