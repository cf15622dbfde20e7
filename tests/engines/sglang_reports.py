"""SGLang's own publisher of step reports (only its class, as there is no wheel for CPUs) with an agent: every report is used, none
dropped, and they decide clocks."""
import argparse
import pathlib
import subprocess
import sys
import zipfile

from processes import a_node, eventually, metric
from real_engines import SKIPPED, Missing, environment, run

SGLANG = "0.5.23"
STEPS = 500

PUBLISHER = '''
import sys, time
sys.path.insert(0, sys.argv[1])
from forward_pass_metrics import ForwardPassMetrics, QueuedRequestMetrics, ScheduledRequestMetrics, _FpmPublisherThread
out = _FpmPublisherThread(sys.argv[2], "sglang-worker", 0)
out.set_idle(True)
print("up", flush=True)
for line in sys.stdin:  # how many steps: a prompt, then its decodes
    out.set_idle(False)
    for i in range(int(line)):
        out.publish(ForwardPassMetrics(worker_id="sglang-worker", wall_time=0.02, scheduled_requests=ScheduledRequestMetrics(
            num_prefill_requests=1, sum_prefill_tokens=700) if i == 0 else ScheduledRequestMetrics(
            num_decode_requests=3, sum_decode_kv_tokens=2100 + 3 * i, var_decode_kv_tokens=2.5),
            queued_requests=QueuedRequestMetrics(num_prefill_requests=2, sum_prefill_tokens=640)))
        time.sleep(0.002)
out.shutdown()
'''


def publisher(folder: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
    """A python, and the folder of SGLang's file."""

    def install(python: pathlib.Path) -> None:
        why = f"SGLang {SGLANG} (PyPI) cannot be had"
        run(str(python), "-m", "pip", "install", "--quiet", "pyzmq", "msgspec", why=why)
        home = python.parent.parent
        run(str(python), "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(home),
            f"sglang=={SGLANG}", why=why)
        (wheel,) = home.glob("sglang-*.whl")
        text = zipfile.ZipFile(wheel).read("sglang/srt/observability/forward_pass_metrics.py")
        (home / "forward_pass_metrics.py").write_bytes(text)
        wheel.unlink()

    python = environment(folder / "sglang", f"sglang {SGLANG}", install)
    return python, python.parent.parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    parser.add_argument("--engines", type=pathlib.Path, required=True)
    flags = parser.parse_args()
    flags.engines.mkdir(parents=True, exist_ok=True)
    try:
        python, home = publisher(flags.engines)
    except Missing as why:
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    with a_node(flags.wattle) as (node, folder):
        endpoint = f"ipc://{folder}/fpm.0"  # as SGLang names it, with the data-parallel rank at its end
        engine = subprocess.Popen([str(python), "-c", PUBLISHER, str(home), endpoint], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        node.running.append(engine)
        assert engine.stdout.readline() == "up\n"
        _, at = node.start("agent", "--engine", f"{endpoint}=0", "--recipe", "eco-freq", "--ttft-ms", "2000", "--itl-ms", "200",
                           "--nvml", flags.nvml, "--state", f"{folder}/state")
        of = lambda name, label="": metric(at["admin"], f"wattle_agent_{name}", label)
        eventually("its heartbeat is heard", lambda: of("reports_total") > 0)
        before = of("reports_total")
        engine.stdin.write(f"{STEPS}\n")
        engine.stdin.flush()
        eventually("each step is heard", lambda: of("reports_total") >= before + STEPS)
        dropped = {name: of(name) for name in ("reports_missed_total", "reports_late_total", "reports_duplicate_total")}
        dropped.update({reason: of("reports_dropped_total", f'reason="{reason}"') for reason in (
            "bad_frames", "truncated", "wrong_shape", "other_version", "out_of_range", "unknown_instance")})
        assert not any(dropped.values()), dropped
        assert of("decode_requests") == 3
        eventually("a clock is locked", lambda: of("applied_clock_mhz") > 0)
        engine.stdin.close()
        print(f"{int(of('reports_total'))} reports of SGLang's publisher, none dropped; decided {of('commanded_clock_mhz'):.0f} MHz")


if __name__ == "__main__":
    main()
