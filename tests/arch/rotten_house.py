"""Shows that the link test and the header test catch planted violations: builds tests/arch/rotten part by part."""
import argparse
import os
import subprocess

# target -> None when it must build, else a text its failure must contain
EXPECTED = {
    "link_low": "answer",           # upward call: undefined symbol
    "link_high": None,              # the declared direction
    "link_good": None,
    "headers_low": "vector",        # header that forgot an include
    "headers_high": None,
    "headers_good": None,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("cmake", "generator", "compiler", "source", "work"):
        parser.add_argument(f"--{name}", required=True)
    a = parser.parse_args()
    # nm and linkers print in the user's language; the expectations here are in English
    environment = os.environ | {"LC_ALL": "C"}
    configure = [a.cmake, "-S", a.source, "-B", a.work, "-G", a.generator, f"-DCMAKE_CXX_COMPILER={a.compiler}"]
    run = subprocess.run(configure, capture_output=True, text=True, env=environment)
    if run.returncode != 0:
        raise SystemExit(f"the rotten house does not configure:\n{run.stdout}{run.stderr}")
    problems = []
    for target, why in EXPECTED.items():
        run = subprocess.run([a.cmake, "--build", a.work, "--target", target], capture_output=True, text=True, env=environment)
        output = run.stdout + run.stderr
        if why is None and run.returncode != 0:
            problems.append(f"{target}: should build, but:\n{output}")
        elif why is not None and run.returncode == 0:
            problems.append(f"{target}: built, so the check does not catch what it is there for")
        elif why is not None and not ("error" in output and why in output):
            problems.append(f"{target}: failed for another reason than \"{why}\":\n{output}")
    print("\n".join(problems) if problems else f"rotten house: ok ({len(EXPECTED)} parts as expected)")
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
