"""The command line itself: exit codes, errors that name the flag, the same flag for outputs everywhere."""
import csv
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

WATTLE = sys.argv[1]


def run(*arguments: str, **more) -> subprocess.CompletedProcess:
    more.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([WATTLE, *arguments], stderr=subprocess.PIPE, text=True, timeout=60, **more)


def check(holds: bool, what: object) -> None:
    if not holds:
        raise SystemExit(f"failed: {what}")


def version() -> None:
    done = run("--version")
    check(done.returncode == 0 and re.fullmatch(r"wattle \d+\.\d+\.\d+\n", done.stdout), done)


def a_temporary_folder_that_is_not_there() -> None:
    env = {**os.environ, "TMPDIR": "/nonexistent"}
    done = run("--version", env=env)
    check(done.returncode == 0 and done.stdout.startswith("wattle "), done)
    done = run("planner", "--help", env=env)
    check(done.returncode == 0 and "--logs" in done.stdout, done)


def a_profile_in_a_folder_of_ones_own() -> None:
    """As docs/configuration.md has it: nothing but the GPU's file is there before."""
    with tempfile.TemporaryDirectory() as home:
        specs = pathlib.Path(home) / "specs" / "gpus"
        specs.mkdir(parents=True)
        (specs / "my-gpu.toml").write_text(
            "clock_min_mhz = 210\nclock_max_mhz = 1740\nclock_step_mhz = 15\ntdp_w = 350\nmemory_gb = 48\n"
            "memory_bandwidth_gb_per_s = 900\nbf16_tflops = 180\nnvlink_gb_per_s = 32\nsm_count = 96\n")
        done = run("fit", "--gpu", "my-gpu", "--like", "a40", cwd=home, env={**os.environ, "WATTLE_HOME": home})
        check(done.returncode == 0 and (pathlib.Path(home) / "profiles" / "my-gpu.toml").exists(), done)


def pools_of_windows() -> None:
    """Slots that make no whole window are reported; a plan in which no window can be served has failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        files = {"profile": "partition,request_type,mode,tp,gpu,gpus_per_worker,worker_power_w,max_qps,mean_e2e_latency_s,mean_ttft_ms,mean_tbt_ms\n"
                            "1,SS,1,TP2,A100,2,700,5,8,120,60\n",
                 "capacity": "site,a100\n1,4\n", "slo": "request_type,ttft_ms,tbt_ms\nSS,300,150\n",
                 "demand": "slot_5min,ss_qps\n" + "".join(f"{i},2\n" for i in range(12)),
                 "emissions": "slot_5min,site1_lb_co2_per_mwh\n" + "".join(f"{i},900\n" for i in range(12))}
        words = ["plan", "pools"]
        for key, text in files.items():
            (folder / key).write_text(text, encoding="utf-8")
            words += ["--" + key, str(folder / key)]
        done = run(*words, "--slots", "7")
        check(done.returncode == 0 and "0 slots at the beginning and 5 at the end" in done.stderr, done)
        done = run(*words, "--slots", "6")
        check(done.returncode == 0 and done.stderr == "", done)
        done = run(*words, "--slots", "6", "--solver", "glpk")
        check(done.returncode == 2 and "must be cbc or highs" in done.stderr, done)
        done = run(*words, "--slots", "6", "--solver", "highs")
        check(done.returncode == 0 or "this build does not contain" in done.stderr, done)
        done = run(*words, "--slots", "6", "--json")
        planned = json.loads(done.stdout)
        check([window["window"] for window in planned["windows"]] == [0, 1], planned)
        for key in ("energy_j", "carbon_g", "cost_usd"):
            check(planned[key] == sum(window[key] for window in planned["windows"]), planned)
        done = run(*words, "--gap", "1.5")
        check(done.returncode == 2 and "--gap" in done.stderr, done)
        (folder / "slo").write_text("request_type,ttft_ms,tbt_ms\nSS,1,1\n", encoding="utf-8")
        done = run(*words, "--formulation", "published")
        check(done.returncode == 1, done)


def unknown_flag() -> None:
    for arguments in (("sim", "--bogus"), ("replay", "--bogus", "trace.csv"), ("--bogus",), ("sim", "--bogus", "azure-conv-2p2d")):
        done = run(*arguments)
        check(done.returncode == 2 and "--bogus" in done.stderr, (arguments, done))
    done = run("sim")
    check(done.returncode == 2 and "scenario" in done.stderr, done)


def a_value_does_not_swallow_what_follows() -> None:
    done = run("sim", "--set", "workload.requests=20", "--only", "--recipe", "static-max", "synthetic-poisson")
    check(done.returncode == 0 and "20 requests" in done.stdout, done)


def a_comparison_has_its_saving_in_json() -> None:
    done = run("sim", "synthetic-poisson", "--recipe", "static-max", "--recipe", "static-sweet", "--set", "workload.requests=200", "--json")
    first, second = json.loads(done.stdout)["runs"]
    check(first["saved"] == 0 and 0.05 < second["saved"] < 0.95, (first["saved"], second["saved"]))


def names_of_nothing() -> None:
    done = run("simm", "synthetic-poisson")
    check(done.returncode == 2 and "simm: there is no such subcommand" in done.stderr, done)
    done = run("config", "check", "/nonexistent/x.toml")
    check(done.returncode == 2 and done.stderr == "wattle: /nonexistent/x.toml: no such file\n", done)


def folders_that_are_not_there() -> None:
    """Reported before the work, not after it; a folder of pages is made."""
    with tempfile.TemporaryDirectory() as folder:
        missing = f"{folder}/missing/x"
        for words in (("reproduce", "freesh", "--section", "day", "-o", missing), ("validate", "--out", missing + ".md"),
                      ("profile", "--simulated", "synthetic-poisson", "--out", missing),
                      ("forecast", "length", "train", "--data", "/nonexistent", "--out", missing)):
            done = run(*words)
            check(done.returncode == 3 and done.stdout == "" and len(done.stderr.splitlines()) == 1 and missing in done.stderr, done)
        done = run("man", "--out", f"{folder}/man/pages")
        check(done.returncode == 0 and pathlib.Path(folder, "man/pages/wattle-sim.1").exists(), done)


def full_disk() -> None:
    for arguments in (("recipes",), ("sim", "synthetic-poisson", "--set", "workload.requests=20", "--json"), ("--version",)):
        with open("/dev/full", "w") as full:
            done = run(*arguments, stdout=full)
        check(done.returncode == 3 and "standard output" in done.stderr, (arguments, done))


def faults_of_what_is_not_there() -> None:
    """A script of faults that could never happen is refused by its line, not run without them."""
    text = (pathlib.Path(__file__).parents[2] / "scenarios" / "synthetic-poisson.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "s.toml"
        for fault, words in (("instance = 99", "there is no instance 99; the fleet has 2"), ("node = 0", "no [[node]] is stated"),
                             ("instance = 0\nnode = 0", "state one of the two"), ("instance = 0\nhang_s = 3", "unknown key fault.hang_s"),
                             ("instance = 0\ndown_s = -1", "fault.down_s is -1"), ("instance = 0.5", "fault.instance")):
            file.write_text(f"{text}\n[[fault]]\nat_s = 1\n{fault}\n", encoding="utf-8")
            done = run("sim", str(file), "--only", "--set", "workload.requests=20")
            check(done.returncode == 2 and words in done.stderr and "s.toml:" in done.stderr, (fault, done))


def keys_that_nothing_reads() -> None:
    """--set keys of policies that this run does not have are refused by name."""
    for key, words in (("spawn.load_s=9", "a recipe whose fleet scales"), ("reshard.sync_s=9", "a recipe whose fleet scales"),
                       ("scaling.period_s=9", "a recipe whose fleet scales"),
                       ("scaling.profiled_together=2", "need a load profile"),
                       ("workload.load_lengths=azure-conv", "workload.peak_load or trough_load"),
                       ("measurement.refit_delay_ms=9", "predictor learns online")):
        refused(f"--set {key.split('=')[0]}: {key.split('=')[0]} does nothing without", "--recipe", "static-max", "--set", key)
        refused(words, "--recipe", "static-max", "--recipe", "eco-freq", "--set", key)
    done = run("sim", "throttllem-llama2-13b-autoscale", "--only", "--recipe", "static-max", "--recipe",
               "static-sweet-autoscale", "--set", "spawn.load_s=9", "--set", "scaling.period_s=9", "--set",
               "workload.duration_s=300")
    check(done.returncode == 0, done)


def units_are_said_once() -> None:
    text = run("mock-engine", "--help").stdout
    for flag, unit in (("--step-gap-ms", "(ms)"), ("--max-num-seqs", "(requests)"), ("--power-limit-w", "(W)")):
        line = re.search(rf"{flag} .*(\n {{30}}.*)*", text)
        check(line is not None and unit not in line[0], (flag, line and line[0]))


def recipes_are_named() -> None:
    """One broken recipe does not hide another one, and errors about a scenario name the recipe."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name, "recipes")
        folder.mkdir()
        (folder / "broken.toml").write_text('[frequency]\npolicy = "nope"\n')
        (folder / "zz-late.toml").write_text('extends = "voltanallm"\n[predictor]\nonline = true\nring = 10\nwindow = 20\n')
        env = {**os.environ, "WATTLE_HOME": name}
        for json_too in ((), ("--json",)):
            done = run("recipes", *json_too, env=env)
            check(done.returncode == 2 and "broken.toml:2" in done.stderr and "zz-late" in done.stdout, done)
        refused("zz-late.toml:5: predictor.window", "--recipe", "static-max", "--recipe", "zz-late", env=env,
                scenario="azure-conv-2p2d")
        refused("(recipe freesh)", "--recipe", "static-max", "--recipe", "freesh")
        refused("(recipe static-sweet-autoscale)", "--recipe", "static-max", "--recipe", "static-sweet-autoscale",
                scenario="azure-conv-2p2d")


def sim(*arguments: str, scenario: str = "synthetic-poisson", **more) -> subprocess.CompletedProcess:
    return run("sim", scenario, *arguments, **more)


def refused(words: str, *arguments: str, scenario: str = "synthetic-poisson", **more) -> None:
    done = sim(*arguments, scenario=scenario, **more)
    check(done.returncode == 2 and words in done.stderr, (words, arguments, done))


def runs_of_nothing() -> None:
    """A run without a request is refused, whatever left none; of nothing served no statistic is stated."""
    for key, value in (("duration_s", "0.01"), ("start_s", "1e6"), ("copies", "0.00001"), ("requests", "0")):
        refused(f"workload.{key}", "--set", f"workload.{key}={value}")
    refused("no request arrives in the first half", "--set", "workload.requests=1", "--match-attainment", "--json")
    text = (pathlib.Path(__file__).parents[2] / "scenarios" / "synthetic-poisson.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "s.toml").write_text(text.replace("count = 2", "count = 1") + "\n[[fault]]\nat_s = 0\ninstance = 0\n")
        dead = ("--set", "workload.requests=20", "--only")
        done = sim(*dead, "--json", "--out", folder, scenario=f"{folder}/s.toml")
        run_json = json.loads(done.stdout)["runs"][0]
        check(done.returncode == 0 and run_json["requests"]["finished"] == 0, done)
        check(run_json["slo"]["itl_attainment"] is None and run_json["ttft_ms"]["p99"] is None, run_json)
        rows = pathlib.Path(folder, "static-max", "requests.csv").read_text(encoding="utf-8").splitlines()
        check(len(rows) == 21 and sum(",in_flight," in row for row in rows) == run_json["requests"]["in_flight"] > 0, rows)
        done = sim(*dead, scenario=f"{folder}/s.toml")
        check("nan" not in done.stdout and re.search(r"^static-max .* - ", done.stdout, re.M), done)
        pathlib.Path(folder, "late.toml").write_text(text + "\n[[fault]]\nat_s = 1000\ninstance = 0\n")
        done = sim(*dead, scenario=f"{folder}/late.toml")
        check(done.returncode == 0 and "the fault at 1000 s did not happen" in done.stderr and "late.toml:" in done.stderr, done)


def who_plans_by_a_profile_needs_no_maximum_load() -> None:
    """An objective for whole requests that none of its instances keeps is missed, not refused."""
    done = sim("--recipe", "dynamollm-ours", "--only", "--set", "slo.e2e_ms=500", "--set", "workload.requests=50")
    check(done.returncode == 0, done)
    refused("no load meets it", "--recipe", "triton-autoscale", "--only", "--set", "slo.e2e_ms=500")


def less_work_is_no_saving() -> None:
    with tempfile.TemporaryDirectory() as folder:
        few = pathlib.Path(folder, "few.toml")
        few.write_text('[admission]\npolicy = "bounded"\nmax_in_flight_per_instance = 1\nmax_held = 0\n')
        compared = ("--recipe", "static-max", "--recipe", str(few), "--only", "--set", "workload.requests=200")
        done = sim(*compared)
        by_source = sim(*compared, "--by-source", "--json")
    check(by_source.returncode == 0 and all(r["saved"] is None for r in json.loads(by_source.stdout)["runs"]), by_source)
    line = next(line for line in done.stdout.splitlines() if line.startswith("few "))
    check(line.split()[2] == "-" and 0 < float(line.split()[3][:-1]) < 99 and "no saving is stated" in done.stdout, done)


def who_kept_everything() -> None:
    """The table has the share of requests that kept all their objectives; here most miss one of the three."""
    asked = ("--only", "--set", "workload.requests=200", "--set", "slo.e2e_ms=2000")
    header, row = sim(*asked).stdout.splitlines()[:2]
    kept = json.loads(sim(*asked, "--json").stdout)["runs"][0]["slo"]
    check(0.1 < kept["attainment"] < 0.9 < kept["ttft_attainment"], kept)
    column = header.split("  all")[0] + "  all"
    check(row[:len(column)].endswith(f" {100 * kept['attainment']:.1f}%"), (header, row))


def objectives_nobody_stated() -> None:
    """Tables have "-" for an objective that no request is held to: it is neither kept nor missed."""
    text = (pathlib.Path(__file__).parents[2] / "scenarios" / "synthetic-poisson.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        unstated = pathlib.Path(folder) / "s.toml"
        unstated.write_text(text.replace("itl_ms = 60\n", ""), encoding="utf-8")
        asked = pathlib.Path(folder) / "t.toml"  # by a tier alone
        asked.write_text(unstated.read_text(encoding="utf-8") + '\n[[tier]]\nname = "fast"\nitl_ms = 60\n', encoding="utf-8")

        def rows(file: object, recipe: str, *arguments: str) -> list[list[str]]:
            done = run("sim", str(file), *arguments, "--only", "--set", "workload.requests=40")
            found = re.findall(rf"^{recipe} .*$", done.stdout, re.M)
            check(done.returncode == 0 and found, done)
            return [line.split() for line in found]

        for file, itl in (("synthetic-poisson", True), (unstated, False), (asked, True)):
            cells = rows(file, "static-max")[0]
            check(cells[6].endswith("%") and (cells[7] != "-") == itl, cells)
            done = run("sim", str(file), "--only", "--set", "workload.requests=40", "--json")
            kept = json.loads(done.stdout)["runs"][0]["slo"]
            check((kept["itl_attainment"] is not None) == itl and kept["e2e_attainment"] is None, kept)
        cells = rows(unstated, "static-max", "--match-attainment")[0]
        check(cells[3].endswith("%") and cells[4:7] == ["-", "-", "-"], cells)
        for cells in rows(unstated, "static-sweet", "--recipe", "static-max", "--recipe", "static-sweet", "--by-source"):
            at = [i for i, cell in enumerate(cells) if cell.endswith("%")]  # saved, TTFT, all
            check(len(at) == 3 and cells[at[1] + 1] == "-", cells)


def a_cost_without_a_price() -> None:
    """Unknown is an empty cell, as null is in JSON, not 0."""
    with tempfile.TemporaryDirectory() as folder:
        for price, known in (("0", False), ("2", True)):
            out = pathlib.Path(folder) / price
            done = sim("--only", "--set", "workload.requests=20", "--set", f"cost.price_usd_per_h={price}", "--out", str(out))
            check(done.returncode == 0, done)
            with open(out / "static-max" / "requests.csv", newline="", encoding="utf-8") as rows:
                costs = [row["cost_usd"] for row in csv.DictReader(rows)]
            check(len(costs) == 20 and all(bool(cost) == known for cost in costs), costs)
            summary = json.loads((out / "static-max" / "run.json").read_text(encoding="utf-8"))["summary"]
            check((summary["cost_usd"] is not None) == known, summary["cost_usd"])
            if known:
                check(0 < sum(map(float, costs)) <= summary["cost_usd"], costs)


def a_carbon_of_no_known_intensity() -> None:
    """Beyond the end of their files neither a request's carbon nor its cost is known: empty cells, counted."""
    head = 'llm = "llama-3.1-8b"\n[workload]\nrequests = 30\nrate_per_s = 1\n[[fleet]]\ngpu = "a100-80g"\nsite = "here"\n'
    for key, cell, other in (("intensity", "carbon_g", "cost_usd"), ("electricity", "cost_usd", "carbon_g")):
        with tempfile.TemporaryDirectory() as folder:
            series = pathlib.Path(folder, "hour.csv")
            column = {"intensity": "grams", "electricity": "usd"}[key]
            series.write_text(f"time,{column}\n2024-01-01T00:00:00Z,100\n2024-01-01T00:00:05Z,200\n", encoding="utf-8")
            scenario = pathlib.Path(folder, "s.toml")
            scenario.write_text(head + '[[site]]\nname = "here"\ngpu_usd_per_h = 1\nstart = "2024-01-01T00:00:00Z"\n'
                                f'{key}_file = "{series}"\n{key}_column = "{column}"\n', encoding="utf-8")
            done = run("sim", str(scenario), "--only", "--out", folder)
            check(done.returncode == 0 and "requests have none" in done.stdout, done)
            with open(pathlib.Path(folder, "static-max", "requests.csv"), newline="", encoding="utf-8") as rows:
                served = list(csv.DictReader(rows))
            unknown = [row for row in served if not row[cell]]
            check(0 < len(unknown) < 30 and all(float(row["left_s"]) > 10 for row in unknown), served)
            check(all(row["energy_j"] and row[other] for row in served), served)
            summary = json.loads(pathlib.Path(folder, "static-max", "run.json").read_text(encoding="utf-8"))["summary"]
            counted = "unknown_carbon_requests" if key == "intensity" else "unknown_price_requests"
            check(summary["by_class"]["0"][counted] == len(unknown), (summary["by_class"], len(unknown)))


def gaps_of_a_tier() -> None:
    """The only tier is stricter than the fleet, and its gaps are what is judged."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = pathlib.Path(folder, "tier.toml")
        scenario.write_text('llm = "llama-3.1-8b"\n[workload]\nrequests = 50\n[slo]\nitl_ms = 100\n'
                            '[[tier]]\nname = "gold"\nitl_ms = 5\n[[fleet]]\ngpu = "a100-80g"\n')
        done = json.loads(run("sim", str(scenario), "--only", "--json").stdout)
        check(done["runs"][0]["slo"]["itl_attainment"] < 0.05, done["runs"][0]["slo"])


def one_folder_each() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a", "b"):
            pathlib.Path(folder, f"{name}.toml").write_text('name = "mine"\n')
        both = ("--recipe", f"{folder}/a.toml", "--recipe", f"{folder}/b.toml", "--only", "--set", "workload.requests=20")
        refused("two of the recipes are called mine", *both, "--out", f"{folder}/out")
        check(sim(*both).returncode == 0, "without --out they do not meet")
        pathlib.Path(folder, "a.toml").write_text('name = "../../escape"\n')
        refused("a.toml:1: name is", "--recipe", f"{folder}/a.toml", "--only")


def a_refusal_comes_before_the_first_run() -> None:
    with tempfile.TemporaryDirectory() as name:
        out = pathlib.Path(name) / "out"
        done = run("sim", "synthetic-poisson", "--recipe", "static-max", "--recipe", "wattle", "--set", "slo.ttft_ms=none",
                   "--out", str(out))
        check(done.returncode == 2 and "slo.ttft_ms; state it" in done.stderr and not out.exists(), done)


def beside_the_scenario() -> None:
    text = (pathlib.Path(__file__).parents[2] / "scenarios" / "azure-conv-1.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "s.toml").write_text(re.sub(r"^trace = .*$", 'trace = "t.csv"', text, flags=re.M))
        pathlib.Path(folder, "t.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,10,5\n2023-11-16 18:15:47,10,5\n")
        done = sim("--only", scenario="s.toml", cwd=folder)
        check(done.returncode == 0 and "2 requests" in done.stdout, done)


def values_out_of_bounds() -> None:
    refused("--seed", "--seed", "-1")
    refused("--seed", "--seed", "18446744073709551615")
    refused("--by-source", "--match-attainment", "--by-source")
    refused("--set classes.prompt_below", "--set", "classes.prompt_below=[10,5]")
    refused("--seed: seed is given twice: 9 by --set seed and 4 here", "--seed", "4", "--set", "seed=9")
    for flag, value, words in (("--ttft-slo-ms", "nan", "finite"), ("--itl-ms", "-5", "--itl"), ("--speed", "inf", "inf is not a finite number")):
        done = run("replay", "t.csv", "--url", "http://127.0.0.1:1", flag, value)
        check(done.returncode == 2 and words in done.stderr and len(done.stderr) < 300, (flag, done))
    done = run("gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--model", "m", "--worker", "http://127.0.0.1:1",
               "--worker", "127.0.0.1:1/")
    check(done.returncode == 2 and "--worker: 127.0.0.1:1/ is said twice" in done.stderr, done)
    shared = ["--worker", "http://127.0.0.1:1,fpm=tcp://127.0.0.1:3", "--worker", "http://127.0.0.1:2,fpm=tcp://127.0.0.1:3"]
    done = run("gateway", "--model", "m", "--check", *shared)
    check(done.returncode == 2 and "--worker: tcp://127.0.0.1:3 is where another worker" in done.stderr, done)
    done = run("agent", "--check", "--engine", "tcp://127.0.0.1:3=0", "--engine", "tcp://127.0.0.1:3=1")
    check(done.returncode == 2 and "is the second at tcp://127.0.0.1:3" in done.stderr, done)
    done = run("agent", "--check", "--engine", "http://LOCALHOST:3/=0", "--engine", "http://localhost:3=1")
    check(done.returncode == 2 and "is the second at http://localhost:3" in done.stderr, done)
    done = run("gateway", "--model", "m", "--check", "--worker", "http://127.0.0.1:1", "--traces-endpoint", "https://127.0.0.1:1")
    check(done.returncode == 2 and "--traces-endpoint: " in done.stderr and "http://" in done.stderr, done)
    for flag in ("--carbon-g-per-kwh", "--gpu-usd-per-h"):
        done = run("gateway", "--model", "m", "--check", "--worker", "http://127.0.0.1:1", flag, "1e308")
        check(done.returncode == 2 and flag in done.stderr and "10000" in done.stderr, done)
    with tempfile.TemporaryDirectory() as folder:
        token = pathlib.Path(folder, "token")
        for text in ("a secret of\nsome length\n", "a secret of some length \n", "a secret of some\0length"):
            token.write_text(text)
            done = run("gateway", "--model", "m", "--check", "--worker", "http://127.0.0.1:1", "--admin-token-file", str(token))
            check(done.returncode == 2 and "--admin-token-file: " in done.stderr and "one line" in done.stderr, (text, done))
    slots = ["--slot", "0=0@ipc:///x", "--slot", "0=1@ipc:///x"]
    planner = ["planner", "throttllem-llama2-13b-autoscale", "--recipe", "static-max", "--gateway", "http://127.0.0.1:1", "--check"]
    done = run(*planner, *slots)
    check(done.returncode == 2 and "--slot 0=1@ipc:///x: is the second at ipc:///x" in done.stderr, done)
    done = run(*planner, "--slot", "0=0@")
    check(done.returncode == 2 and "--slot 0=0@: is POOL=GPU" in done.stderr, done)
    done = run(*planner, *slots[:2], "--manager", "http://127.0.0.1:2", "--manager", "http://127.0.0.1:2")
    check(done.returncode == 2 and "--manager: is named twice" in done.stderr, done)
    done = run("up", "--port", "99999")
    check(done.returncode == 2 and "from 0 to 65535" in done.stderr, done)
    done = run("trace", "synth", "x.csv", "--requests", "0")
    check(done.returncode == 2 and "--requests: is 0" in done.stderr, done)


def nothing_is_ignored() -> None:
    """What names nothing that there is, is refused where it is said: by flag, or by the line of the deployment's file."""
    listens = ("gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    for more, words in ((("--model", "m", "--set", "a.b=1"), "--set a.b: "),
                        (("--model", "m", "--set", "frequency.mode=shadow", "--scenario", "synthetic-poisson"), "recipe"),
                        (("--model", "m", "--gpu", "nope"), "--gpu"), (("--model", "m", "--llm", "nope"), "--llm"),
                        (("--model", ""), "--model")):
        done = run(*listens, *more)
        check(done.returncode == 2 and words in done.stderr, (more, done))
    for arguments, words in ((("key", ""), "tenant"), (("agent", "--engine", "tcp://127.0.0.1:1=0", "--recipe", ""), "--recipe")):
        done = run(*arguments)
        check(done.returncode == 2 and words in done.stderr, (arguments, done))
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/w.toml"
        for more, words in ((("--recipe", "nope"), "nope"), (("--ports", "70000"), "--ports"), (("--ports", "0"), "--ports")):
            done = run("init", "--out", out, *more)
            check(done.returncode == 2 and words in done.stderr and not pathlib.Path(out).exists(), (more, done))
        fleet = '[fleet]\nrecipe = "static-max"\ngpu = "h100"\nllm = "llama-3.1-8b"\nmodels = {}\n[gateway]\n{}\n'
        for models, key, line, words in (('["m"]', 'log_requests = "maybe"', 7, "log-requests"), ("[]", "", 5, "--model"),
                                         ('[""]', "", 5, "--model"), ('["m"]', 'config = "x.toml"', 7, "--config"),
                                         ('["m"]', "help = true", 7, "--help"), ('["m"]', 'admin_usr = "x"', 7, "--admin-user")):
            pathlib.Path(out).write_text(fleet.format(models, key), encoding="utf-8")
            done = run("gateway", "--config", out)
            check(done.returncode == 2 and f"w.toml:{line}: " in done.stderr and words in done.stderr and not done.stdout, (models, key, done))


DEPLOYMENT = """[fleet]
recipe = "eco-freq"
gpu = "a100-80g"
llm = "llama-3.1-8b"
models = ["llama-3.1-8b"]
[[node]]
name = "a"
agent = "127.0.0.1:9100"
[[worker]]
url = "http://127.0.0.1:9000"
gpus = [0]
step_reports = "tcp://127.0.0.1:9010"
[gateway]
listen = "127.0.0.1:9330"
admin = "127.0.0.1:9331"
"""


def deployments_are_checked_by_what_would_run() -> None:
    """What `wattle config check` lets pass starts; what does not start it names by line, as the start does."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "w.toml"
        file.write_text(DEPLOYMENT, encoding="utf-8")
        done = run("config", "check", str(file))
        check(done.returncode == 0 and "wattle gateway" in done.stdout and not done.stderr, done)
        end = len(DEPLOYMENT.splitlines()) + 1
        more = [(DEPLOYMENT + text + "\n", end, words) for text, words in (
            ("zzz = 1", "--zzz"), ("threads = -1", "--threads"), ("gap_timeout_s = nan", "--gap-timeout-s"), ("drain_s = inf", "--drain-s"),
            ("gap_timeout_s = 1e10", "1e9 at most"), ("help = true", "--help"))]
        more += [(DEPLOYMENT.replace("9330", "99330"), 14, "--listen"), (DEPLOYMENT.replace("http://127.0.0.1:9000", "ftp://x"), 9, "ftp://x"),
                 (DEPLOYMENT.replace("eco-freq", "eco-frek"), 2, "eco-freq"), (DEPLOYMENT.replace("a100-80g", "a100-80"), 3, "--gpu"),
                 (DEPLOYMENT.replace("9331", "9330"), 15, "--admin"),
                 (DEPLOYMENT.replace("127.0.0.1:9100", "http://127.0.0.1:9100"), 6, "http://http://127.0.0.1:9100"),
                 (DEPLOYMENT.replace("gpus = [0]", 'gpus = [0]\nsite = "Nowhere"'), 9, 'there is no site "Nowhere"'),
                 (DEPLOYMENT.replace("gpus = [0]", 'gpus = [0]\npool = "xx"'), 9, 'there is no pool "xx"')]
        for text, line, words in more:
            file.write_text(text, encoding="utf-8")
            for command in (("config", "check", str(file)), ("gateway", "--config", str(file))):
                done = run(*command)
                check(done.returncode == 2 and f"w.toml:{line}: " in done.stderr and words in done.stderr and not done.stdout,
                      (text.splitlines()[-1], command, done))
        file.write_text(DEPLOYMENT + '[agent]\nlost_after_s = 1e12\n', encoding="utf-8")
        done = run("config", "check", str(file))
        check(done.returncode == 2 and f"w.toml:{end + 1}: " in done.stderr and "--lost-after-s" in done.stderr, done)
    gateway = ("gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--model", "m", "--worker")
    for more, words in ((("http://127.0.0.1:1,site=Nowhere",), "no site"), (("http://127.0.0.1:1,pool=xx",), "no pool"),
                        (("http://127.0.0.1:1,type=XL",), "no class"), (("http://127.0.0.1:1,model=other",), "no --model"),
                        (("http://127.0.0.1:1", "--recipe", "retail", "--e2e-slo-ms", "10000"), "--agent: retail"),
                        (("http://127.0.0.1:1", "--keys", "/no/such/keys"), "/no/such/keys")):
        checked, started = run(*gateway, *more, "--check"), run(*gateway, *more)
        check(checked.returncode == started.returncode == 2 and words in checked.stderr and checked.stderr == started.stderr,
              (more, checked, started))
    done = run("gateway", "--model", "m", "--gap-timeout-s", "1e10")
    check(done.returncode == 2 and "--gap-timeout-s" in done.stderr and "1e9 at most" in done.stderr, done)


def no_metrics() -> None:
    child = subprocess.Popen([WATTLE, "mock-engine", "--fpm", "off", "--gpu", "a100-80g", "--listen", "127.0.0.1:0"],
                             stdout=subprocess.PIPE, text=True)
    lines = [child.stdout.readline() for _ in range(2)]
    child.terminate()
    child.wait(20)
    check(lines[1] == "forward-pass metrics off\n", lines)


def outputs() -> None:
    """-o, --out: the one word for where a result goes."""
    commands = re.findall(r"^  ([a-z-]+) ", run("--help").stdout.split("ubcommands:")[1], re.M)
    check("sim" in commands and len(commands) > 12, commands)
    for command in commands:
        text = run(command, "--help").stdout
        check(not re.search(r"--(output|write|html)\b(?!-)", text), (command, text))
    done = run("validate", "--out", "page.pdf")
    check(done.returncode == 2 and "page.pdf" in done.stderr, done)


class NotFound(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


def replay_without_answers() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), NotFound)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as scratch:
        trace = pathlib.Path(scratch) / "trace.csv"
        trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" +
                         "".join(f"2023-11-16 18:15:46.{i}000000,10,5\n" for i in range(5)))
        url = f"http://127.0.0.1:{server.server_address[1]}"
        done = run("replay", str(trace), "--url", url)
        check(done.returncode == 3 and "5 x http 404" in done.stderr, done)
        check("100.0%" not in done.stdout and re.search(r"^ITL +-", done.stdout, re.M), done)
        done = run("replay", str(trace), "--url", url, "--json")
        check(done.returncode == 3 and '"itl_attainment":null' in done.stdout, done)
    server.shutdown()


for test in (version, a_temporary_folder_that_is_not_there, a_profile_in_a_folder_of_ones_own, pools_of_windows, unknown_flag, a_value_does_not_swallow_what_follows, a_comparison_has_its_saving_in_json,
             names_of_nothing, folders_that_are_not_there, full_disk, faults_of_what_is_not_there, keys_that_nothing_reads, units_are_said_once, recipes_are_named, runs_of_nothing,
             who_plans_by_a_profile_needs_no_maximum_load, less_work_is_no_saving,
             who_kept_everything, objectives_nobody_stated, a_cost_without_a_price, a_carbon_of_no_known_intensity, gaps_of_a_tier, one_folder_each, a_refusal_comes_before_the_first_run, beside_the_scenario, values_out_of_bounds, nothing_is_ignored,
             deployments_are_checked_by_what_would_run, no_metrics, outputs, replay_without_answers):
    test()
print("flags: ok")
