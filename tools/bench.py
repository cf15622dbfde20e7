"""Runs every *_bench of a build and every executable in bench/, prints one table and writes one JSON file.

An executable in bench/ gets WATTLE (the binary) in its environment and prints a JSON list of
{"name", "value", "unit"} with optional "ratio" and "ratio_to" on stdout; all else it has to say goes to stderr.
"""
import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys


def machine() -> str:
    model = platform.machine()
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return f"{model}, {len(os.sched_getaffinity(0))} cores"


def micro(path: pathlib.Path) -> list[dict]:
    """Google Benchmark: time per call, and items per second where the benchmark counts items."""
    library = path.name.removesuffix("_bench")
    run = subprocess.run([path, "--benchmark_format=json"], stdout=subprocess.PIPE, text=True, check=True)
    rows = []
    for result in json.loads(run.stdout)["benchmarks"]:
        if result.get("run_type", "iteration") != "iteration":
            continue
        if result.get("error_occurred"):
            raise RuntimeError(f"{result['name']}: {result.get('error_message', 'failed')}")
        name = f"{library}.{result['name'].removeprefix('BM_')}"
        rows.append({"name": name, "value": result["cpu_time"], "unit": result["time_unit"]})
        if "items_per_second" in result:
            rows.append({"name": name + ".rate", "value": result["items_per_second"], "unit": "items/s"})
    return rows


def script(path: pathlib.Path, binary: pathlib.Path) -> list[dict]:
    run = subprocess.run([path.resolve()], stdout=subprocess.PIPE, text=True, check=True,
                         env=os.environ | {"WATTLE": str(binary.resolve())})
    rows = json.loads(run.stdout)
    for row in rows:
        missing = {"name", "value", "unit"} - row.keys()
        if missing:
            raise ValueError(f"a row lacks {', '.join(sorted(missing))}: {row}")
    return rows


def show(rows: list[dict]) -> None:
    def number(value: float) -> str:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"

    table = [("benchmark", "value", "unit", "ratio")]
    for row in rows:
        ratio = f"{row['ratio']:.3g} x {row.get('ratio_to', '')}" if "ratio" in row else ""
        table.append((row["name"], number(row["value"]), row["unit"], ratio))
    widths = [max(len(line[i]) for line in table) for i in range(4)]
    for line in table:
        print(f"{line[0]:<{widths[0]}}  {line[1]:>{widths[1]}}  {line[2]:<{widths[2]}}  {line[3]}".rstrip())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    jobs = [(p, lambda p=p: micro(p)) for p in sorted(arguments.build.glob("*_bench")) if os.access(p, os.X_OK)]
    scripts = pathlib.Path("bench")
    if scripts.is_dir():
        jobs += [(p, lambda p=p: script(p, arguments.build / "wattle")) for p in sorted(scripts.iterdir())
                 if p.is_file() and os.access(p, os.X_OK)]
    if not jobs:
        raise SystemExit(f"bench: nothing to run in {arguments.build}")
    rows, failed = [], []
    for path, job in jobs:
        print(f"bench: {path.name}", file=sys.stderr, flush=True)
        try:
            rows += job()
        except (subprocess.CalledProcessError, ValueError, RuntimeError, OSError) as error:
            failed.append(f"{path.name}: {error}")
    show(rows)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps({"machine": machine(), "benchmarks": rows}, indent=1) + "\n", encoding="utf-8")
    print(f"written: {arguments.out}")
    if failed:
        raise SystemExit("bench: failed: " + "; ".join(failed))


if __name__ == "__main__":
    main()
