"""throttLL'eM's performance model M from a mock engine in real time: batches of many sizes at several locked clocks, over
HTTP and the fake NVML, steps told by the engine's own telemetry; M is learned from nine rows in ten and scored on the
rest (rates.cc)."""
import argparse
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "agent_e2e"))
from processes import Processes, scratch

# The paper's worst engine has 0.97. A starved test machine may lose cells; what is left must still tell.
LEAST_R2 = 0.97
CLOCKS = "705,1005,1200,1410"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    parser.add_argument("--rates", required=True)
    flags = parser.parse_args()
    with scratch() as folder:
        node = Processes(flags.wattle, folder)
        try:
            _, at = node.start("mock-engine", "--gpus", "1", "--die-with-parent")
            measured = os.path.join(folder, "measured.csv")
            subprocess.run([flags.wattle, "profile", "--url", at["url"], "--gpu", "1", "--nvml", flags.nvml, "--state",
                            os.path.join(folder, "state"), "--clocks", CLOCKS, "--telemetry", at["fpm"], "--concurrency",
                            "1,2,4,8,12,16,24,32,48,64", "--prompt", "1", "--output", "96", "--prefill", "64", "--out",
                            measured], env=node.env, check=True)
            scored = subprocess.run([flags.rates, measured, str(LEAST_R2)], stdout=subprocess.PIPE, text=True)
            print(scored.stdout)
            assert scored.returncode == 0, f"an R2 is below {LEAST_R2}"
        finally:
            node.end()


if __name__ == "__main__":
    main()
