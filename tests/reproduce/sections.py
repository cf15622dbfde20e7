"""What the tests of `wattle reproduce`'s sections share: one section's rows and marks, with what holds of every section."""
import argparse
import json
import os
import subprocess

parser = argparse.ArgumentParser()
parser.add_argument("--wattle", required=True)
parser.add_argument("--root", required=True)
arguments = parser.parse_args()


def check(condition, what):
    if not condition:
        raise SystemExit("reproduce: " + str(what))


def reproduce(system, section, *flags, seconds):
    environment = dict(os.environ, WATTLE_HOME=arguments.root)
    environment.pop("WATTLE_DATA", None)
    done = subprocess.run([arguments.wattle, "reproduce", system, "--json", "--seconds", str(seconds), "--section", section, *flags],
                          env=environment, capture_output=True, text=True)
    check(done.returncode == 0, done.stderr)
    result = json.loads(done.stdout)
    check(result["rows"] and result["marks"], section + ": rows and marks")
    check(len({row["id"] for row in result["rows"]}) == len(result["rows"]), section + ": ids are unique")
    for row in result["rows"]:
        check("attainment" not in row["id"] or 0 <= row["ours"] <= 100, row)
        check("published" not in row or abs(row["difference"] - (row["ours"] - row["published"])) < 1e-6, row)
    return {row["id"]: row for row in result["rows"]}, {mark["name"]: mark for mark in result["marks"]}


def ours(rows, identity):
    check(identity in rows, identity + " among " + ", ".join(sorted(rows)[:20]))
    return rows[identity]["ours"]


def saved(a, b):
    return 100 * (1 - a / b)
