"""Runs `wattle forecast length` on made prompts and simulates with what it trains. Arguments: the wattle binary; "neural"
where libtorch was built in."""
import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from processes import check

WATTLE = str(pathlib.Path(sys.argv[1]).resolve())
NEURAL = sys.argv[2] == "neural"
ASKS = {"Answer yes or no": 3, "Summarise this in a sentence": 40, "Explain step by step": 300, "Write a long essay": 900}


def wattle(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "WATTLE_DATA"}
    return subprocess.run([WATTLE, *arguments], capture_output=True, text=True, env=environment)


def length(*arguments: str) -> subprocess.CompletedProcess[str]:
    return wattle("forecast", "length", *arguments)


def made(count: int, seed: int) -> list[dict[str, object]]:
    """The kind of request determines the answer's length, filler does not."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        ask = draw.choice(list(ASKS))
        filler = " ".join(draw.choice(["grid", "was", "clean", "on", "monday"]) for _ in range(draw.randrange(30)))
        rows.append({"prompt": f"{ask}: {filler}", "output_tokens": max(1, round(ASKS[ask] * draw.lognormvariate(0, 0.2))),
                     "tenant": "made", "model": "m"})
    return rows


def refuses_bad_rows(folder: pathlib.Path) -> None:
    file = folder / "bad.jsonl"
    good = '{"prompt": "a", "output_tokens": 3}\n'
    for bad, says in (('{"prompt": "a"}', "output_tokens is missing"), ('{"prompt": 7, "output_tokens": 3}', "prompt is 7"),
                      ('{"prompt": "a", "output_tokens": 0}', "output_tokens is 0"),
                      ('{"prompt": "a", "output_tokens": 1.5}', "output_tokens is 1.5"), ("[1]", "is no JSON object"),
                      ('{"prompt": "a", "output_tokens": 3', "is no JSON object"),
                      ('{"messages": [{"role": "user"}], "output_tokens": 3}', "messages must be")):
        file.write_text(good + "\n" + bad + "\n")
        run = length("bench", "--data", str(file))
        check(run.returncode == 2 and f"{file}:3: {says}" in run.stderr, f"{bad} should be refused", run)
    table = folder / "bad.csv"
    for text, says in (("prompt_tokens,output_tokens\n5,six\n", f'{table}:2: output_tokens is "six"'),
                       ("prompt_tokens,output_tokens\n5,\n", f"{table}:2: output_tokens is"),
                       ("prompt_tokens,output_tokens\n-5,6\n", f"{table}:2: prompt_tokens is -5"),
                       ("prompt_tokens\n5\n", "output_tokens"), ("output_tokens\n5\n", "neither a column prompt"),
                       ("", "is empty"), ("\n\n", "is empty")):
        table.write_text(text)
        run = length("bench", "--data", str(table))
        check(run.returncode == 2 and says in run.stderr, f"{text!r} should be refused", run)
    file.write_text(good * 50)
    run = length("bench", "--data", str(file))
    check(run.returncode == 2 and "has 50 rows, of which 12 are held out" in run.stderr, "too few rows", run)
    run = length("bench", "--data", str(folder / "absent"))
    check(run.returncode == 2 and "absent" in run.stderr, "an absent file", run)
    run = length("bench", "--data", str(file), "--below", "5", "--below", "3")
    check(run.returncode == 2 and "--below" in run.stderr, "borders that fall", run)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        refuses_bad_rows(folder)
        rows = made(1200, 1)
        data = folder / "made.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows))

        run = length("bench", "--data", str(data), "--recipe", "freesh", "--epochs", "3", "--json")
        check(run.returncode == 0, "the bench should run", run)
        said = json.loads(run.stdout)
        check(said["below"] == [232] and said["held_out"] == 300 and said["text"], "what was asked", run)
        scores = {p["name"]: p for p in said["predictors"]}
        check(("net" in scores) == NEURAL, "the net takes part where it was built", run)
        median = scores["running median"]["mae"]
        for one in ("recipe: trees", "trees, trained once") + (("net",) if NEURAL else ()):
            check(scores[one]["mae"] < 0.3 * median, f"{one} learns the ask", run)
            check(scores[one]["class_accuracy"] > 0.9, f"{one} tells long from short", run)
        check(scores["recipe: learned"]["mae"] > 0.9 * median, "lengths of prompts say nothing here", run)
        run = length("bench", "--data", str(data), "--no-neural")
        check(run.returncode == 0 and "best: " in run.stdout and "net" not in run.stdout, "a table", run)

        table = folder / "made.csv"
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["output_tokens", "tenant", "model", "prompt"])
            writer.writeheader()
            writer.writerows(rows)
        run = length("bench", "--data", str(table), "--recipe", "freesh", "--no-neural", "--json")
        again = {p["name"]: p["mae"] for p in json.loads(run.stdout)["predictors"]}
        check(again == {k: v["mae"] for k, v in scores.items() if k != "net"}, "a CSV of the same says the same", run)

        for kind in ("trees",) + (("net",) if NEURAL else ()):
            model = folder / kind
            run = length("train", "--data", str(data), "--kind", kind, "--out", str(model))
            check(run.returncode == 0 and "1200 answers" in run.stdout, f"{kind} should be trained", run)
            asks = folder / "asks.jsonl"
            asks.write_text("".join(json.dumps({"messages": [{"role": "user", "content": ask}], "tenant": "made", "model": "m"}) + "\n"
                                    for ask in ASKS))
            run = length("predict", "--data", str(asks), "--model", str(model))
            check(run.returncode == 0, f"{kind} should answer", run)
            guesses = [float(row["tokens"]) for row in csv.DictReader(run.stdout.splitlines())]
            for guess, tokens in zip(guesses, ASKS.values(), strict=True):
                check(0.5 * tokens <= guess <= 2.0 * tokens, f"{kind}: {guess} for {tokens}", run)
            run = length("predict", "--data", str(asks), "--model", str(data))
            check(run.returncode == 2 and str(data) in run.stderr, "what is no model is refused", run)

        out = folder / "run"
        common = ["sim", "synthetic-poisson", "--recipe", "miad", "--only", "--set", "workload.requests=1500",
                  "--set", "length.source=trees", "--set", "length.fall_back=false"]
        run = wattle(*common, "--out", str(out))
        check(run.returncode == 0, "the simulator should run with trees", run)
        with next(out.rglob("requests.csv")).open() as file:
            hinted = [int(row["predicted_output_tokens"]) for row in csv.DictReader(file)]
        check(hinted[0] == 0 and min(hinted[-100:]) > 0, "trees grow from the run's own answers", run)
        late = folder / "late"
        run = wattle(*common, "--set", "measurement.refit_delay_ms=3600000", "--out", str(late))
        with next(late.rglob("requests.csv")).open() as file:
            check({row["predicted_output_tokens"] for row in csv.DictReader(file)} == {"0"}, "growing them takes time", run)
        first = folder / "first"
        run = wattle(*common, "--set", f"length.trees={folder / 'trees'}", "--out", str(first))
        check(run.returncode == 0, "the simulator should run with trees that it is given", run)
        with next(first.rglob("requests.csv")).open() as file:
            hinted = [int(row["predicted_output_tokens"]) for row in csv.DictReader(file)]
        check(min(hinted) > 0, "it begins with them", run)
        run = wattle(*common, "--set", "length.trees=/nowhere/trees")
        check(run.returncode == 2 and "/nowhere/trees" in run.stderr, "trees that are not there", run)
    print("ok")


if __name__ == "__main__":
    main()
