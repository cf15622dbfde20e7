"""Shared by the tests of `wattle reproduce`: rows and targets of one section, with checks for every section."""
import argparse
import json
import os
import subprocess

from processes import check

parser = argparse.ArgumentParser()
parser.add_argument("--wattle", required=True)
parser.add_argument("--root", required=True)
arguments = parser.parse_args()


def run(system, section, *flags):
    """Its rows and targets by name, without the data set."""
    environment = dict(os.environ, WATTLE_HOME=arguments.root)
    environment.pop("WATTLE_DATA", None)
    done = subprocess.run([arguments.wattle, "reproduce", system, "--json", "--section", section, *flags],
                          env=environment, capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)
    result = json.loads(done.stdout)
    check(result["system"] == system, result["system"])
    check(len({row["id"] for row in result["rows"]}) == len(result["rows"]), section + ": ids are unique")
    for row in result["rows"]:
        check("published" not in row or abs(row["difference"] - (row["ours"] - row["published"])) < 1e-9, row)
    return {row["id"]: row for row in result["rows"]}, {target["name"]: target for target in result["marks"]}


def reproduce(system, section, *flags, seconds):
    rows, targets = run(system, section, "--seconds", str(seconds), *flags)
    check(rows and targets, section + ": rows and targets")
    for row in rows.values():
        check("attainment" not in row["id"] or 0 <= row["ours"] <= 100, row)
    return rows, targets


def ours(rows, identity):
    check(identity in rows, identity + " among " + ", ".join(sorted(rows)[:20]))
    return rows[identity]["ours"]


def saved(a, b):
    return 100 * (1 - a / b)
