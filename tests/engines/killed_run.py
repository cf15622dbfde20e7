"""A run of the engines' tests that is killed leaves no engine behind: neither its process nor what that has started."""
import pathlib
import signal
import subprocess
import sys
import tempfile

from processes import eventually
from real_engines import end_group, processes_of

RUN = """
import pathlib, sys, time
from real_engines import Engine
engine = Engine(["/bin/sh", "-c", "sleep 600 & sleep 600"], 1, pathlib.Path(sys.argv[1]) / "log", {})
print(engine.process.pid, flush=True)
time.sleep(600)
"""


def main() -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.Popen([sys.executable, "-B", "-c", RUN, folder], stdout=subprocess.PIPE, text=True)
            group = int(run.stdout.readline())
            try:
                eventually("the engine and its child run", lambda: len(processes_of(group)) >= 2)
                run.send_signal(how)
                run.wait()
                eventually(f"nothing is left after {how.name}", lambda: not processes_of(group), seen=lambda: processes_of(group))
            finally:
                run.kill()
                end_group(group)


if __name__ == "__main__":
    main()
