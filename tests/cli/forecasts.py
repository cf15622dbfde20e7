"""Runs `wattle forecast bench` on a made price. Arguments: the wattle binary; "neural" where libtorch was built in."""
import datetime
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

from processes import check

WATTLE = str(pathlib.Path(sys.argv[1]).resolve())
NEURAL = sys.argv[2] == "neural"


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "WATTLE_DATA"}
    return subprocess.run([WATTLE, "forecast", "bench", *arguments], capture_output=True, text=True, env=environment)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        prices = pathlib.Path(folder) / "caiso-price-5min" / "CAISO_20240509_20240521.csv"
        prices.parent.mkdir()
        start = datetime.datetime(2024, 5, 9, 7)
        rows = ["INTERVALSTARTTIME_GMT,INTERVALENDTIME_GMT,VALUE"]
        for i in range(12 * 288):  # a daily wave, alike every day: seasonal-naive knows it, persistence does not
            at = start + datetime.timedelta(minutes=5 * i)
            rows.append(f"{at},{at + datetime.timedelta(minutes=5)},{30 + 20 * math.sin(2 * math.pi * i / 288):.4f}")
        prices.write_text("\n".join(rows) + "\n")

        run = bench("--data", folder, "--task", "price", "--updates", "2", "--json")
        check(run.returncode == 0, "the bench should run", run)
        said = json.loads(run.stdout)
        check(said["neural"] == NEURAL, "the neural module should be there exactly where it was built", run)
        scores = {f["name"]: f for f in said["tasks"][0]["forecasters"]}
        check(scores["seasonal-naive"]["mae"] < 1e-3 < scores["persistence"]["mae"], "naive forecasts", run)
        check(scores["seasonal-naive"]["beats_persistence"] and not scores["persistence"]["beats_seasonal_naive"],
               "verdicts", run)
        check(scores["ridge on lags"]["mae"] < 0.1 * scores["persistence"]["mae"], "ridge", run)
        check(("lstm" in scores) == NEURAL, "the LSTM takes part where it was built", run)
        check(len(scores["persistence"]["mae_by_lead"]) == said["tasks"][0]["horizon"], "errors by lead", run)
        run = bench("--data", folder, "--task", "price", "--no-neural")
        check(run.returncode == 0 and "seasonal-naive" in run.stdout and "lstm" not in run.stdout, "a table", run)
        run = bench("--data", folder, "--task", "weather")
        check(run.returncode == 2 and "traffic-coding" in run.stderr, "an unknown task names the known ones", run)
        run = bench("--data", folder, "--task", "traffic-coding")
        check(run.returncode == 2 and "invocations_ten_second_Coding.csv" in run.stderr, "an absent file is named", run)
        for steps in (2, 500, 7 * 288 - 1):  # three days are held out, four are to be learnt from
            prices.write_text("\n".join(rows[:steps + 1]) + "\n")
            run = bench("--data", folder, "--task", "price", "--no-neural")
            check(run.returncode == 2 and prices.name in run.stderr and f"covers {steps} steps" in run.stderr,
                   "a file too short to hold days out is refused", run)
        prices.write_text("\n".join(rows[:7 * 288 + 1]) + "\n")
        run = bench("--data", folder, "--task", "price", "--no-neural")
        check(run.returncode == 0, "the shortest file runs", run)
        own = pathlib.Path(folder) / "own.csv"
        hours = [f"{start + datetime.timedelta(hours=i)},{5 + i % 24}" for i in range(24 * 20)]
        own.write_text("when,load\n" + "\n".join(hours) + "\n")
        columns = ("--time", "when", "--value", "load")
        run = bench("--file", str(own), *columns, "--horizon", "6", "--no-neural", "--json")
        check(run.returncode == 0, "a file of one's own runs", run)
        said = json.loads(run.stdout)["tasks"][0]
        check(said["step_minutes"] == 60 and said["horizon"] == 6 and said["held_out_steps"] == 120, "its steps", run)
        scores = {f["name"]: f["mae"] for f in said["forecasters"]}
        check(scores["seasonal-naive"] == 0 < scores["persistence"], "its days are alike", run)
        check(bench("--file", str(own), "--no-neural").returncode == 2, "its columns have to be named", run)
        run = bench("--file", str(own), *columns, "--task", "price")
        check(run.returncode == 2 and "--file" in run.stderr, "a file or a task", run)
        run = bench("--file", str(own), *columns, "--horizon", "121", "--no-neural")
        check(run.returncode == 2 and "120 steps are held out" in run.stderr, "a horizon beyond what is held out", run)
        for days, weekly in ((6, False), (14, False), (18, False), (28, False), (30, True)):  # weeks are learned from a month
            some = [f"{start + datetime.timedelta(hours=i)},{5 + i % 24}" for i in range(24 * days)]
            own.write_text("when,load\n" + "\n".join(some) + "\n")
            run = bench("--file", str(own), *columns, "--no-neural")
            check(run.returncode == 0 and ("template, week" in run.stdout) == weekly, f"{days} days of hours", run)
            check(("kalman" in run.stdout) == (days >= 18), "the Kalman filter learns from 309 steps", run)
            check(("kalman level-trend is left out: " in run.stderr) == (days < 18), "who is left out is said", run)
            check(("ridge" in run.stdout) == (days > 6), "ridge learns from 91", run)
        run = bench("--file", str(own), *columns, "--no-neural", "--json")
        check(json.loads(run.stdout)["tasks"][0]["left_out"] == [], "nobody is left out of a month", run)
        empty, nan = (f"{hours[i].split(',')[0]},{value}" for i, value in ((50, ""), (51, "NaN")))
        own.write_text("when,load\n" + "\n".join([*hours[:50], empty, nan, *hours[52:100], *hours[103:]]) + "\n")
        run = bench("--file", str(own), *columns, "--no-neural")
        check(run.returncode == 0 and "5 of 480 steps unknown" in run.stdout, "gaps are unknown", run)
        own.write_text("when,load\n" + "\n".join(hours[:100] + [hours[100].replace(":00:00", ":30:00")]) + "\n")
        run = bench("--file", str(own), *columns, "--no-neural")
        check(run.returncode == 2 and "own.csv:102" in run.stderr and "5400 s" in run.stderr, "half a step is placed", run)
        own.write_text("when,load\n" + "\n".join(hours[:24 * 5]) + "\n")
        run = bench("--file", str(own), *columns, "--no-neural")
        check(run.returncode == 2 and "at least 96 more" in run.stderr, "a file too short", run)
        run = bench("--task", "price")
        check(run.returncode == 2 and "WATTLE_DATA" in run.stderr, "no data", run)
    print("ok")


if __name__ == "__main__":
    main()
