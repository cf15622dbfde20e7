"""Namespaces in which a test may mount, listen and start containers as it likes: they and all that is in them go with the process."""
import os
import shutil
import subprocess
import sys
from typing import NoReturn

SKIPPED = 77  # what ctest takes for "could not be run here"


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


def again_in_namespaces(script: str, *words: str, more: tuple[str, ...] = ()) -> int:
    """This script with its words and `words`, in a mount namespace; `more`: further ones, as unshare's flags."""
    return subprocess.run(["unshare", "--mount", "--propagation", "private", *more, sys.executable, "-B", script, *sys.argv[1:],
                           *words]).returncode


def pure_cgroups() -> None:
    """As systemd and container runtimes have them today, whatever this machine's are. In a mount namespace of one's own."""
    if os.path.ismount("/sys/fs/cgroup"):
        need("umount", "-R", "/sys/fs/cgroup")
    need("mount", "-t", "cgroup2", "none", "/sys/fs/cgroup")
