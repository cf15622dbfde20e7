"""Runs of `wattle sim`, for the benches in this folder."""
import json
import os
import subprocess
import sys
from typing import NamedTuple

WATTLE = os.environ.get("WATTLE", "build/release/wattle")
refusals = set()


class Run(NamedTuple):
    kj: float
    gaps: float   # kept, in percent, as the next two
    first: float  # first tokens
    all: float    # requests with all their objectives; refused ones are not kept
    seconds: float
    idle_kw: float  # of the fleet
    finished: float  # percent of requests
    grams: float  # of CO2
    gpus: float   # in use, in the mean


def run(scenario, recipe, settings):
    """None: refused, for example a model that does not fit; each reason is printed once."""
    command = [WATTLE, "sim", scenario, "--recipe", recipe, "--only", "--json"]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2:
        if (reason := done.stderr.strip()) not in refusals:
            refusals.add(reason)
            print(f"left out: {reason}", file=sys.stderr)
        return None
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    one = json.loads(done.stdout)["runs"][0]
    shares = (one["slo"].get(f"{kind}attainment") for kind in ("itl_", "ttft_", ""))
    kept = (float("nan") if share is None else 100 * share for share in shares)
    return Run(one["energy_j"]["total"] / 1e3, *kept, one["sim"]["virtual_s"], one["idle_power_w"] / 1e3,
               100 * one["requests"]["finished"] / one["requests"]["arrived"], one["carbon_g"], one["mean_gpus"])


def saved(one, most):
    """Percent of the energy of `most`, both until the later end: a fleet is not switched off when a run's last request has left."""
    period = max(one.seconds, most.seconds)
    ours, theirs = (r.kj + (period - r.seconds) * r.idle_kw for r in (one, most))
    return 100 * (1 - ours / theirs)
