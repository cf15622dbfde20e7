#!/usr/bin/env python3
"""64 engines at 50 iterations/s each, controlled by one agent process pinned to one core, on virtual GPUs whose driver
calls take no time: lost reports, and the time from a report's arrival to the clock being applied. The engines are
bench/fpm_load, which publishes what engines publish and computes nothing. Run by tools/bench.py, or alone with
WATTLE=path/to/wattle; the JSON list of rows goes to stdout."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import urllib.request


def metrics(url: str) -> str:
    with urllib.request.urlopen(url + "/metrics", timeout=30) as answer:
        return answer.read().decode()


def values(text: str, name: str) -> list[float]:
    return [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(rf"{name}({{|\s)", line)]


def quantile(text: str, name: str, q: str) -> float:
    found = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
             if line.startswith(name + "{") and f'quantile="{q}"' in line]
    return max(found)


def wakeups(pid: int) -> int:
    """Of all its threads, since they began: times one gave its core up to wait, or was made to."""
    counts = 0
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        counts += sum(int(line.split()[1]) for line in status.read_text().splitlines() if "ctxt_switches" in line)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--engines", type=int, default=64)
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--recipe", default="eco-freq")
    parser.add_argument("--core", default="0")
    parser.add_argument("--idle-s", type=int, default=5, help="watched without reports, after the load")
    flags = parser.parse_args()
    wattle = pathlib.Path(os.environ["WATTLE"]).resolve()
    load = wattle.parent / "fpm_load"
    library = next(wattle.parent.rglob("libnvidia-ml.so.1"))
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, WATTLE_FAKE_NVML=f"{folder}/board,count={flags.engines},call_ms=0,transition_ms=0")
        publisher = subprocess.Popen([load, str(flags.engines), str(flags.rate)], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
        endpoints = [publisher.stdout.readline().strip() for _ in range(flags.engines)]
        words = ["taskset", "-c", flags.core, wattle, "agent", "--recipe", flags.recipe, "--itl-ms", "60", "--ttft-ms",
                 "600", "--nvml", library, "--state", f"{folder}/locks", "--no-guardian", "--json"]
        for i, endpoint in enumerate(endpoints):
            words += ["--engine", f"{endpoint}={i}@decode"]
        agent = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            url = json.loads(agent.stdout.readline())["admin"]
            # Subscriptions take effect in the background; an engine is there once one of its reports has come.
            deadline = time.monotonic() + 60
            while min(values(metrics(url), "wattle_agent_reports_total")) == 0:
                assert time.monotonic() < deadline, "not every engine was heard"
                publisher.stdin.write("warm\n")
                publisher.stdin.flush()
                time.sleep(0.2)
            time.sleep(0.5)
            before = metrics(url)
            ticks = lambda: sum(int(x) for x in pathlib.Path(f"/proc/{agent.pid}/stat").read_text().split(") ")[1].split()[11:13])
            used = ticks()
            steps = flags.rate * flags.seconds
            publisher.stdin.write(f"{steps}\n")
            publisher.stdin.flush()
            late = float(publisher.stdout.readline())
            time.sleep(0.5)
            after = metrics(url)
            used = (ticks() - used) / os.sysconf("SC_CLK_TCK")
            time.sleep(3)  # its meters stay awake for two seconds
            idle_ticks, idle_wakeups, began = ticks(), wakeups(agent.pid), time.monotonic()
            time.sleep(flags.idle_s)
            idle_s = time.monotonic() - began
            idle_cpu = (ticks() - idle_ticks) / os.sysconf("SC_CLK_TCK") / idle_s
            idle_rate = (wakeups(agent.pid) - idle_wakeups) / idle_s
        finally:
            agent.terminate()
            agent.wait()
            publisher.stdin.close()
            publisher.wait()
    total = lambda text, name: sum(values(text, name))
    sent = steps * flags.engines
    came = total(after, "wattle_agent_reports_total") - total(before, "wattle_agent_reports_total")
    missed = total(after, "wattle_agent_reports_missed_total") - total(before, "wattle_agent_reports_missed_total")
    print(f"published up to {late:.1f} ms late; {missed:.0f} sequence gaps; "
          f"{total(after, 'wattle_agent_clock_sets_total'):.0f} clocks set", file=sys.stderr)
    name = f"agent_{flags.engines}x{flags.rate}"
    rows = [{"name": f"{name}/reports_sent", "value": sent, "unit": "reports"},
            {"name": f"{name}/reports_lost", "value": sent - came, "unit": "reports"},
            {"name": f"{name}/agent_cpu", "value": round(100 * used / flags.seconds, 1), "unit": "% of a core"}]
    for q in ("0.5", "0.9", "0.99"):
        decided = 1e3 * quantile(after, "wattle_agent_report_to_command_seconds", q)
        rows.append({"name": f"{name}/report_to_command_p{100 * float(q):.0f}", "value": round(decided, 4), "unit": "ms"})
    # One interval from a report's arrival to the lock the driver took, its call (no time here) included and left out; of
    # the latter, the CPU time of the agent's threads, so that waiting for a core shows.
    for part, metric in (("report_to_applied", "wattle_agent_report_to_applied_seconds"),
                         ("report_to_applied_own", "wattle_agent_report_to_applied_own_seconds"),
                         ("report_to_applied_cpu", "wattle_agent_report_to_applied_cpu_seconds")):
        both = {kind: total(after, f"{metric}_{kind}") - total(before, f"{metric}_{kind}") for kind in ("sum", "count")}
        rows.append({"name": f"{name}/{part}_mean", "value": round(1e3 * both["sum"] / both["count"], 4), "unit": "ms"})
    # Of all GPUs together, under load: from a report to the driver's call. A bucket's bound is what is known of a quantile.
    buckets = lambda text: {float(le): float(count) for le, count in re.findall(
        r'^wattle_agent_node_report_to_applied_own_seconds_bucket{le="([^"]+)"} (\S+)$', text, re.MULTILINE)}
    old, new = buckets(before), buckets(after)
    within = {bound: new[bound] - old[bound] for bound in sorted(new)}
    changes = within[float("inf")]
    rows.append({"name": f"{name}/clock_changes", "value": changes, "unit": "clock changes"})
    for q in (0.5, 0.9, 0.99):
        bound = min(bound for bound in within if within[bound] >= q * changes)
        rows.append({"name": f"{name}/report_to_applied_own_p{100 * q:.0f}_at_most", "value": round(1e3 * bound, 3), "unit": "ms"})
    rows.append({"name": f"{name}/idle_wakeups", "value": round(idle_rate, 1), "unit": "/s"})
    rows.append({"name": f"{name}/idle_cpu", "value": round(100 * idle_cpu, 2), "unit": "% of a core"})
    for part in ("own", "cpu"):
        late = [total(text, f"wattle_agent_report_to_applied_{part}_over_1ms_total") for text in (before, after)]
        rows.append({"name": f"{name}/report_to_applied_{part}_over_1ms", "value": late[1] - late[0], "unit": "clock changes"})
    # A GPU's few clock changes include the first, made while 64 engines are being joined: the mean of those under load.
    applied = {part: total(after, f"wattle_agent_command_to_applied_seconds_{part}") -
               total(before, f"wattle_agent_command_to_applied_seconds_{part}") for part in ("sum", "count")}
    rows.append({"name": f"{name}/command_to_applied_mean", "value": round(1e3 * applied["sum"] / applied["count"], 4),
                 "unit": "ms"})
    print(json.dumps(rows, indent=1))


main()
