"""Runs `wattle trace` on made and on broken traces. Argument: the wattle binary."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from processes import check

WATTLE = str(pathlib.Path(sys.argv[1]).resolve())
FORMATS = ("azure", "vidur", "splitwise", "mooncake", "burstgpt")


def wattle(*arguments: str, data: str = "", cwd: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "WATTLE_DATA"}
    if data:
        environment["WATTLE_DATA"] = data
    return subprocess.run([WATTLE, "trace", *arguments], capture_output=True, text=True, env=environment, cwd=cwd)


def summary(path: pathlib.Path, *more: str) -> dict:
    run = wattle("summary", str(path), "--json", *more)
    check(run.returncode == 0 and run.stderr == "", "summary should work", run)
    return json.loads(run.stdout)  # fails on anything but one object


def main() -> None:
    with tempfile.TemporaryDirectory() as folder_name:
        folder = pathlib.Path(folder_name)
        made = folder / "made.csv"
        run = wattle("synth", str(made), "--like", "azure-conv", "--max-prompt", "20000")
        check(run.returncode == 0, "synth should work", run)
        figures = summary(made)
        check(figures["rows"] == 19366 and figures["format"] == "azure", f"unlike the trace: {figures}", run)
        check(abs(figures["rate_per_s"] - 5.53) < 0.15, f"unlike the trace: {figures}", run)

        # The same seed makes the same file, another seed another.
        again, other = folder / "again.csv", folder / "other.csv"
        wattle("synth", str(again), "--like", "azure-conv", "--max-prompt", "20000")
        wattle("synth", str(other), "--like", "azure-conv", "--max-prompt", "20000", "--seed", "2")
        check(made.read_bytes() == again.read_bytes(), "one seed made two traces", run)
        check(made.read_bytes() != other.read_bytes(), "two seeds made one trace", run)

        # Round through every format, recognised by the first line.
        at = made
        for name in (*FORMATS, "azure"):
            to = folder / f"round-{name}"
            run = wattle("convert", str(at), str(to), "--to", name)
            check(run.returncode == 0, "convert should work", run)
            at = to
            round_figures = summary(at)
            check(round_figures["format"] == name, f"not {name}", run)
            for key in ("rows", "prompt_tokens", "output_tokens", "span_s"):
                check(round_figures[key] == figures[key], f"{key} changed on the way to {name}", run)

        # Synthetic arrivals with their own parameters; the data directory comes before the current one.
        run = wattle("synth", "p.csv", "--requests", "20000", "--rate", "50", "--cv", "2", "--format", "vidur", cwd=folder_name)
        check(run.returncode == 0, "synth should work", run)
        figures = summary(folder / "p.csv")
        check(abs(figures["arrival_cv"] - 2.0) < 0.15, f"cv is off: {figures}", run)
        # --duration is of the arrivals as --rate has them, and its help says so.
        run = wattle("synth", "d.csv", "--rate", "10", "--cv", "0", "--rate-scale", "10", "--duration", "5", cwd=folder_name)
        check(run.returncode == 0 and summary(folder / "d.csv")["rows"] in (49, 50, 51), "5 s at 10/s, then compressed", run)
        run = wattle("synth", "--help")
        check("before --rate-scale" in re.sub(r"\s+", " ", run.stdout), "help says which seconds are meant", run)
        run = wattle("summary", "p.csv", "--json", data=folder_name, cwd="/")
        check(run.returncode == 0 and json.loads(run.stdout)["rows"] == 20000, "WATTLE_DATA should be looked in", run)

        cut = folder / "cut.csv"
        cut.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,1\n2023-11-16 18:1")
        failed = folder / "failed.csv"
        failed.write_text("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n1,m,5,0,5,x\n2,m,5,6,11,x\n")
        check(summary(failed)["skipped_failed"] == 1, "a failed row is counted", run)
        hashed = folder / "hashed.jsonl"
        hashed.write_text('{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}\n')
        for code, message, arguments in (
            (2, f"{cut}:3: has 1 field where the header has 3; is the file cut short?", ["summary", str(cut)]),
            (2, "no such file", ["summary", "absent.csv"]),
            (2, "--format: is 'csv'; it must be azure", ["summary", str(made), "--format", "csv"]),
            (2, "the header has no column 'arrived_at'", ["summary", str(made), "--format", "vidur"]),
            (2, "has none of what begins a known trace", ["summary", __file__]),
            (2, "--to: is 'xml'", ["convert", str(made), str(folder / "x"), "--to", "xml"]),
            (2, "--rate: is -1; it must be above 0", ["synth", str(folder / "x"), "--rate", "-1"]),
            (2, "--like: is 'azure'", ["synth", str(folder / "x"), "--like", "azure"]),
            (2, "excludes", ["synth", str(folder / "x"), "--like", "azure-conv", "--rate", "2"]),
            (2, "--duration: is 0; it must be a number of seconds above 0", ["synth", str(folder / "x"), "--duration", "0"]),
            (2, "--duration: nan is not a finite number", ["synth", str(folder / "x"), "--duration", "nan"]),
            (2, "subcommand", []),
            (3, "cannot be written", ["convert", str(made), str(folder / "no" / "x"), "--to", "vidur"]),
            (0, "1 rows without an answer (0 tokens) were left out",
             ["convert", str(failed), str(folder / "y"), "--to", "vidur"]),
            (0, "what 1 prompts consist of was left out",
             ["convert", str(hashed), str(folder / "y"), "--to", "vidur"]),
            (2, "is the trace to convert", ["convert", str(hashed), str(hashed), "--to", "vidur"]),
        ):
            run = wattle(*arguments)
            check(run.returncode == code and message in run.stderr, f"expected exit {code} and: {message}", run)
        check(not (folder / "x").exists(), "a refused command left a file", run)
    print("ok")


main()
