"""The two units under a real systemd: this machine's root is booted as a container (systemd-nspawn) over a temporary overlay, with
loopback as its only network; `make install` and the page's commands are run in it, and agent, guardian and gateway killed. GPUs and
engines are emulated. Exit 77 (skipped) where no such container can be made."""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

from processes import Processes, eventually, metric, post
from sandbox import again_in_namespaces, need, need_tools, pure_cgroups, skip, status_of

HERE = "/opt/wattle-test"  # in the container
UNITS = {"wattle-agent": 33, "wattle-gateway": 17}  # and how open systemd-analyze may find them
NVML = "/usr/lib/wattle/libnvidia-ml.so.1"
# The container's own files: it boots no service of the machine's, and its exit status is the test's result.
TEST_UNIT = """[Unit]
After=basic.target
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
TimeoutStartSec=200
Environment=WATTLE_FAKE_NVML=/dev/shm/board,count=2,clock_min=210,clock_max=1410 PYTHONPATH={here} WATTLE_PATIENCE_S={patience}
ExecStart={python} -B {here}/units.py --inside
StandardOutput=file:{here}/said
StandardError=inherit
"""
CONFIG = """
[agent]
nvml = "{nvml}"
gpu_locks = "/run/lock/wattle"
[[node]]
name = "other"
agent = "127.0.0.1:9101"
[[node]]
name = "this"
agent = "127.0.0.1:9100"
[[worker]]
url = "http://127.0.0.1:9000"
node = "this"
gpus = [0]
step_reports = "tcp://127.0.0.1:5557"
"""


def boot(flags: argparse.Namespace, folder: pathlib.Path) -> None:
    """In a mount namespace of its own: what is mounted goes with it."""
    pure_cgroups()
    need("mount", "-t", "tmpfs", "tmpfs", str(folder))
    root = folder / "root"
    for name in ("upper", "work", "root"):
        (folder / name).mkdir()
    need("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work", str(root))
    subprocess.run([flags.cmake, "--install", flags.build, "--prefix", "/usr"], check=True, stdout=subprocess.DEVNULL,
                   env=dict(os.environ, DESTDIR=str(root)))
    here = root / HERE.lstrip("/")
    here.mkdir(parents=True)
    for file in ("docs/deploy-containers.md", "tests/agent_e2e/processes.py", "tests/deploy/sandbox.py", "tests/deploy/units.py"):
        shutil.copy(os.path.join(flags.root, file), here)
    units = root / "etc/systemd/system"
    (units / "wattle-test.service").write_text(TEST_UNIT.format(
        here=HERE, python=sys.executable, patience=os.environ.get("WATTLE_PATIENCE_S", 25)))
    (units / "wattle-test.target").write_text("[Unit]\nRequires=basic.target\nAfter=basic.target\nWants=wattle-test.service\n")
    (root / "etc/fstab").write_text("")
    booted = subprocess.run(["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", f"--machine=wattle-{os.getpid()}",
                             "-D", root, "--boot", "systemd.unit=wattle-test.target"],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    said = here / "said"
    reported = said.read_text() if said.exists() else ""
    print(reported, end="")
    if "systemd is up" not in reported:
        print(booted.stdout, booted.stderr)
        skip("systemd does not boot here")
    sys.exit(booted.returncode)


def systemctl(*words: str) -> str:
    done = subprocess.run(["systemctl", *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done, journal())
    return done.stdout.strip()


def journal() -> str:
    return subprocess.run(["journalctl", "--no-pager", "-o", "cat"], capture_output=True, text=True).stdout


def pid_of(unit: str) -> int:
    return int(systemctl("show", "-P", "MainPID", unit))


def in_cgroup(unit: str) -> set[int]:
    group = systemctl("show", "-P", "ControlGroup", unit)
    file = pathlib.Path(f"/sys/fs/cgroup{group}/cgroup.procs")
    return {int(pid) for pid in file.read_text().split()} if group and file.exists() else set()


def restarted(unit: str, before: int) -> None:
    eventually(f"{unit} is back", lambda: pid_of(unit) not in (0, before))


def serves() -> bool:
    return subprocess.run(["curl", "-sfo/dev/null", "http://127.0.0.1:8000/health"]).returncode == 0


def check_files() -> None:
    """systemd's security rating of them, from 0 to 100."""
    verified = subprocess.run(["systemd-analyze", "verify", *(f"{unit}.service" for unit in UNITS)], capture_output=True, text=True)
    assert verified.returncode == 0 and not verified.stderr, verified
    for unit, at_most in UNITS.items():
        rated = subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={at_most}", f"{unit}.service"],
                               capture_output=True, text=True)
        assert rated.returncode == 0, rated.stdout


def start_by_the_page(clock) -> None:
    page = pathlib.Path(HERE, "deploy-containers.md").read_text()
    config = re.search(r"^```toml wattle.toml\n(.*?)^```$", page, re.M | re.S)[1]
    assert 'recipe = "wattle"' in config
    pathlib.Path("wattle.toml").write_text(config.replace('recipe = "wattle"', 'recipe = "static-max"\nset = ["frequency.clock_mhz=1005"]')
                                           + CONFIG.format(nvml=NVML))
    pathlib.Path("/etc/default/wattle-agent").write_text(f"NODE=--node=this\nWATTLE_FAKE_NVML={os.environ['WATTLE_FAKE_NVML']}\n")
    # Its commands, but for apt's.
    shell = re.search(r"^apt install .*\n(install .*\nsystemctl .*\n)", page, re.M)[1]
    subprocess.run(["sh", "-e", "-c", shell], check=True, stderr=subprocess.DEVNULL)
    eventually("the agent has locked the clock", lambda: clock() == 1005)
    eventually("the gateway is ready", serves)
    body = {"model": "llama-3.1-8b", "prompt": "a", "max_tokens": 3}
    assert post("http://127.0.0.1:8000/v1/completions", body)[0] == 200
    logged = lambda: subprocess.run(["journalctl", "-o", "cat", "_SYSTEMD_UNIT=wattle-gateway.service", "_TRANSPORT=stdout"],
                                    check=True, capture_output=True, text=True).stdout.splitlines()
    eventually("the request stands in the journal", lambda: any("request_id" in json.loads(line) for line in logged()[1:]))
    assert "listening" in logged()[0], logged()


def check_processes() -> None:
    """The kernel's view of them."""
    agent, gateway = (pid_of(unit) for unit in UNITS)
    of_agent, of_gateway = status_of(agent), status_of(gateway)
    assert {int(of_agent[f"Cap{one}"], 16) for one in ("Prm", "Eff", "Bnd")} == {1 << 21 | 1 << 23}, of_agent  # SYS_ADMIN, SYS_NICE
    assert int(of_gateway["CapBnd"], 16) == 0 and "0" not in of_gateway["Uid"].split(), of_gateway
    for status in (of_agent, of_gateway):
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status
    for pid in (agent, gateway):
        mounts = [line.split() for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
        assert "ro" in next(words[5] for words in mounts if words[4] == "/").split(","), mounts
    assert os.SCHED_RR in {os.sched_getscheduler(int(task)) & 3 for task in os.listdir(f"/proc/{agent}/task")}
    assert list(pathlib.Path("/run/lock/wattle").iterdir()) and pathlib.Path("/var/lib/wattle/agent-locks").exists()


def check_admin_socket() -> None:
    """For root and members of the page's group only."""
    socket = "/run/wattle/admin.sock"
    assert stat.S_ISSOCK(os.stat(socket).st_mode)
    ask = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", socket, "http://localhost/workers"]
    as_user = lambda group: ["setpriv", "--reuid", "65534", "--regid", group, "--clear-groups", *ask]
    for words, expected in ((ask, "200"), (as_user("adm"), "200"), (as_user("nogroup"), "403")):
        answer = subprocess.run(words, capture_output=True, text=True).stdout
        assert answer == expected, (words, answer)


def check_credentials() -> None:
    """Keys that only root may read, as the page states."""
    page = pathlib.Path(HERE, "deploy-containers.md").read_text()
    said = subprocess.run(["wattle", "key", "shop"], check=True, capture_output=True, text=True).stdout.splitlines()
    pathlib.Path("keys.json").write_text(f'{{"keys": [{said[3].strip()}]}}')
    line = re.search(r'`(keys = "/run/credentials/.*?")`', page)[1]
    file = pathlib.Path("/etc/wattle/wattle.toml")
    file.write_text(file.read_text().replace("[gateway]\n", f"[gateway]\n{line}\n"))
    shell = re.search(r"^```sh\n(install -m 600 .*?)^```$", page, re.M | re.S)[1]
    subprocess.run(["sh", "-e", "-c", shell], check=True)
    eventually("it serves with keys", serves)
    body = {"model": "llama-3.1-8b", "prompt": "a", "max_tokens": 3}
    for headers, expected in (({}, 401), ({"Authorization": f"Bearer {said[1].strip()}"}, 200)):
        assert post("http://127.0.0.1:8000/v1/completions", body, headers)[0] == expected
    assert stat.S_IMODE(os.stat("/etc/wattle/keys.json").st_mode) == 0o600


def check_kills(clock) -> None:
    agent, gateway = (pid_of(unit) for unit in UNITS)
    os.kill(gateway, signal.SIGKILL)
    restarted("wattle-gateway", gateway)
    eventually("it serves again", serves)
    (guardian,) = in_cgroup("wattle-agent") - {agent}
    os.kill(agent, signal.SIGKILL)
    eventually("the guardian takes the lock off", lambda: clock() == 1410)
    restarted("wattle-agent", agent)
    eventually("the next agent locks the clock", lambda: clock() == 1005)
    eventually("the guardian of the killed one has ended", lambda: guardian not in in_cgroup("wattle-agent"))

    # Both at once, and no next start: the unit's own ExecStopPost takes the lock off.
    drop_in = pathlib.Path("/run/systemd/system/wattle-agent.service.d/once.conf")
    drop_in.parent.mkdir(parents=True)
    drop_in.write_text("[Service]\nRestart=no\n")
    systemctl("daemon-reload")
    both = in_cgroup("wattle-agent")
    assert len(both) == 2, both
    systemctl("kill", "--kill-whom=all", "--signal=SIGKILL", "wattle-agent")
    eventually("the lock is off, by --unlock", lambda: clock() == 1410)
    eventually("the unit has ended", lambda: systemctl("show", "-P", "ActiveState", "wattle-agent") == "failed")
    assert not in_cgroup("wattle-agent")
    after = systemctl("show", "-P", "ExecStopPost", "wattle-agent")
    assert "status=0" in after, after
    drop_in.unlink()
    systemctl("daemon-reload")
    systemctl("start", "wattle-agent")
    eventually("the clock is locked", lambda: clock() == 1005)


def check_stops(clock) -> None:
    for unit in UNITS:
        systemctl("stop", unit)
        state = systemctl("show", "-P", "Result", unit)
        assert state == "success" and not in_cgroup(unit), (unit, state, journal())
    assert clock() == 1410


def inside() -> None:
    print("systemd is up:", systemctl("is-active", "basic.target"), flush=True)
    node = Processes("/usr/bin/wattle", "/dev/shm")
    node.env = dict(os.environ)
    engine = node.start("mock-engine", "--gpus", "0", "--listen", "127.0.0.1:9000", "--fpm", "tcp://127.0.0.1:5557")[1]
    clock = lambda: metric(engine["url"], "wattle_mock_engine_clock_mhz")
    assert clock() == 1410
    check_files()
    start_by_the_page(clock)
    check_processes()
    check_admin_socket()
    check_credentials()
    check_kills(clock)
    check_stops(clock)
    node.end()
    print("agent and gateway ran under systemd, were killed and stopped: 0 clocks left locked")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--inside", action="store_true")
    parser.add_argument("--in-namespace", type=pathlib.Path, metavar="FOLDER")
    for name in ("--cmake", "--build", "--root"):
        parser.add_argument(name)
    flags = parser.parse_args()
    if flags.inside:
        try:
            return inside()
        except BaseException:
            print(journal(), flush=True)
            raise
    if flags.in_namespace:
        return boot(flags, flags.in_namespace)
    need_tools("systemd-nspawn")
    with tempfile.TemporaryDirectory(prefix="wattle-") as folder:
        sys.exit(again_in_namespaces(__file__, "--in-namespace", folder))


if __name__ == "__main__":
    main()
