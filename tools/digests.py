#!/usr/bin/env python3
"""Journal digests of every recipe on every scenario, at reduced length: what a change that only moves code must keep.

    tools/digests.py build/dev/wattle                    prints them
    tools/digests.py build/dev/wattle --out FILE       and keeps them
    tools/digests.py build/dev/wattle --against OLD      OLD: another wattle, or a file written before; exit 1 on any
                                                         difference, combinations that only one of them can run too

A combination that wattle refuses (a recipe that needs what the scenario lacks) is written down as refused. Simulated.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
REFUSED = "refused"


def length_s(scenario, arguments):
    """No shorter than one window of a workload whose rate is scaled window by window."""
    stated = tomllib.loads((ROOT / "scenarios" / f"{scenario}.toml").read_text(encoding="utf-8"))
    return max(arguments.for_s, 1.25 * stated["workload"].get("rate_window_s", 0))


def digest(wattle, scenario, recipe, arguments):
    length = f"workload.duration_s={length_s(scenario, arguments)}"
    command = [wattle, "sim", scenario, "--recipe", recipe, "--json", "--set", length]
    for pair in arguments.set:
        command += ["--set", pair]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode < 0:
        return f"killed by signal {-run.returncode}"
    if run.returncode > 0:
        return REFUSED
    return json.loads(run.stdout)["runs"][0]["journal_digest"]


def names(folder, only):
    every = sorted(path.stem for path in (ROOT / folder).glob("*.toml"))
    return [name for name in every if not only or name in only]


def measure(wattle, pairs, arguments):
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        found = pool.map(lambda pair: digest(wattle, *pair, arguments), pairs)
        return {f"{scenario} {recipe}": value for (scenario, recipe), value in zip(pairs, found)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wattle")
    parser.add_argument("--against", metavar="OLD")
    parser.add_argument("--out", metavar="FILE")
    parser.add_argument("--scenario", action="append", help="only this one; may be repeated")
    parser.add_argument("--recipe", action="append", help="only this one; may be repeated")
    parser.add_argument("--set", action="append", default=[], help="key=value, as for wattle sim; may be repeated")
    parser.add_argument("--for", dest="for_s", type=float, default=60.0, help="simulated seconds (default 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    arguments = parser.parse_args()

    pairs = [(s, r) for s in names("scenarios", arguments.scenario) for r in names("recipes", arguments.recipe)]
    new = measure(arguments.wattle, pairs, arguments)
    if arguments.out:
        pathlib.Path(arguments.out).write_text(json.dumps(new, indent=1) + "\n", encoding="utf-8")
    if not arguments.against:
        for pair, value in new.items():
            print(pair, value)
        return 0
    try:
        old = json.loads(pathlib.Path(arguments.against).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError):
        old = measure(arguments.against, pairs, arguments)
    differ = [pair for pair in new if new[pair] != old.get(pair, "not there")]
    for pair in differ:
        print(f"{pair}: {old.get(pair, 'not there')} became {new[pair]}")
    ran = sum(1 for value in new.values() if value != REFUSED)
    print(f"{len(new)} combinations, {ran} of them run, {len(new) - ran} refused; {len(differ)} differ")
    return 1 if differ or ran == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
