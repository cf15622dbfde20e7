"""Namespaces in which a test may mount, listen and start containers: they and everything in them are removed with the process."""
import os
import pathlib
import shutil
import subprocess
import sys
from typing import NoReturn

SKIPPED = 77  # ctest's code for a skipped test


def skip(why: str) -> NoReturn:
    print(f"skipped: {why}", flush=True)
    sys.exit(SKIPPED)


def need(*words: str) -> None:
    """What only prepares: where it is refused, this machine lets no container be made."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        skip(f"{' '.join(words)}: {done.stderr.strip()}")


def need_tools(*tools: str) -> None:
    if os.geteuid() != 0:
        skip("making a container is root's")
    missing = [tool for tool in ("unshare", *tools) if shutil.which(tool) is None]
    if missing:
        skip(f"there is no {', '.join(missing)}")
    need("unshare", "--mount", "true")


def unpack(folder: pathlib.Path, packages: dict[str, str]) -> None:
    """Debian's packages, by a file that each has: installing them would start services."""
    folder.mkdir(parents=True, exist_ok=True)
    for package, file in packages.items():
        if not (folder / file).exists():
            need("sh", "-c", f"cd {folder} && apt-get download {package} && dpkg -x {package}_*.deb .")
    os.environ["PATH"] = f"{folder}/usr/bin:{folder}/usr/sbin:{os.environ['PATH']}"


def status_of(pid: int) -> dict[str, str]:
    """/proc/PID/status by field."""
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())


def again_in_namespaces(script: str, *words: str, more: tuple[str, ...] = ()) -> int:
    """This script with its words and `words`, in a mount namespace; `more`: further ones, as unshare's flags."""
    return subprocess.run(["unshare", "--mount", "--propagation", "private", *more, sys.executable, "-B", script, *sys.argv[1:],
                           *words]).returncode


def host_of_its_own() -> None:
    """Makes /run and /var temporary in a mount namespace."""
    need("mount", "-t", "tmpfs", "tmpfs", "/run")
    for folder in ("upper", "work", "lock"):
        os.mkdir(f"/run/{folder}")
    need("mount", "-t", "overlay", "overlay", "-o", "lowerdir=/var,upperdir=/run/upper,workdir=/run/work", "/var")


def remove_cgroups(name: str) -> None:
    """Removes cgroups that runs left in this machine's hierarchy when they were killed with their namespaces."""
    for folder in [pathlib.Path("/sys/fs/cgroup", name), *pathlib.Path("/sys/fs/cgroup").glob(f"*/{name}")]:
        for below, _, _ in os.walk(folder, topdown=False):
            os.rmdir(below)


def pure_cgroups() -> None:
    """Cgroups as systemd and container runtimes use them today, whatever this machine's are. In a mount namespace."""
    if os.path.ismount("/sys/fs/cgroup"):
        need("umount", "-R", "/sys/fs/cgroup")
    need("mount", "-t", "cgroup2", "none", "/sys/fs/cgroup")
