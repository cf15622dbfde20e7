"""`wattle up` with a recipe that scales states a saving only after the fleet's first transition: before, old and new engines draw
power for the same load."""
import argparse
import json
import subprocess


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    flags = parser.parse_args()

    def up(seconds: int, load_s: float, *more: str) -> str:
        sets = [word for key in (f"spawn.load_s={load_s}", "spawn.warm_s=0.2", "scaling.period_s=0.5", "scaling.grace_s=1",
                                 "fleet.0.max_load_per_s=50", "fleet.1.max_load_per_s=100", "fleet.2.max_load_per_s=200",
                                 "workload.trace=", "workload.synthetic=azure-conv", "workload.peak_load=0.02",
                                 "workload.trough_load=0") for word in ("--set", key)]
        done = subprocess.run([flags.wattle, "up", "--config", "throttllem-llama2-13b-autoscale", "--recipe",
                               "triton-autoscale", "--for", f"{seconds}s", "--port", "0", "--admin-port", "0", *sets, *more],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done
        return done.stdout

    text = up(4, 60)
    assert "first switch was not over" in text and "saved against" not in text, text
    rows = [line for line in text.splitlines() if line.strip().startswith("4s")]
    assert rows and " - " in rows[0], text

    run = json.loads(up(16, 0.5, "--json"))  # on a busy machine the switch takes seconds
    assert run["first_switch_over"], run
    assert run["mean_gpus"] < 4, "most of the time the one-GPU engine served alone"


if __name__ == "__main__":
    main()
