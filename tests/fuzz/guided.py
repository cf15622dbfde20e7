"""Runs one libFuzzer target from its kept corpus for a while. A corpus is a text file, an input a line, with what is not
printable escaped as \\n, \\r, \\t, \\\\ and \\xNN; what a crash prints is such a line, and a fix adds it to the file. --keep writes
back the smallest set of inputs that reaches what all of them and this run reach."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

LONGEST_KEPT = 600  # bytes: longer inputs rarely reach more code
SHORT = {"n": b"\n", "r": b"\r", "t": b"\t", "\\": b"\\"}
LONG = {byte[0]: f"\\{letter}" for letter, byte in SHORT.items()}


def escaped(data: bytes) -> str:
    return "".join(LONG.get(b) or (chr(b) if 32 <= b < 127 else f"\\x{b:02x}") for b in data)


def unescaped(line: str) -> bytes:
    def one(found: re.Match) -> bytes:
        letter = found.group(1)
        return SHORT[letter] if letter in SHORT else bytes.fromhex(letter[1:])

    out, at = b"", 0
    for found in re.finditer(r"\\([nrt\\]|x[0-9a-f]{2})", line):
        out += line[at:found.start()].encode("ascii") + one(found)
        at = found.end()
    return out + line[at:].encode("ascii")


def unpack(corpus: pathlib.Path, folder: pathlib.Path) -> int:
    lines = corpus.read_text("ascii").splitlines() if corpus.exists() else []
    for i, line in enumerate(lines):
        (folder / f"kept-{i}").write_bytes(unescaped(line))
    return len(lines)


def run(fuzzer: str, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([fuzzer, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


def keep(fuzzer: str, inputs: pathlib.Path, smallest: pathlib.Path, corpus: pathlib.Path) -> None:
    smallest.mkdir()
    done = run(fuzzer, "-merge=1", str(smallest), str(inputs))
    if done.returncode != 0:
        sys.exit(done.stdout)
    found = (path.read_bytes() for path in smallest.iterdir())
    kept = sorted((data for data in found if len(data) <= LONGEST_KEPT), key=lambda data: (len(data), data))
    corpus.parent.mkdir(exist_ok=True)
    corpus.write_text("".join(escaped(data) + "\n" for data in kept), "ascii")
    print(f"{corpus.name}: {len(kept)} inputs kept")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fuzzer", required=True)
    parser.add_argument("--corpus", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--keep", action="store_true")
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(scratch)
        inputs = work / "inputs"
        inputs.mkdir()
        kept = unpack(flags.corpus, inputs)
        if run(flags.fuzzer, "--seeds-to", str(inputs)).returncode != 0 or not any(inputs.iterdir()):
            sys.exit(f"{flags.fuzzer} has no valid inputs to begin with")
        done = run(flags.fuzzer, f"-max_total_time={flags.seconds}", "-max_len=4096", "-timeout=20", "-rss_limit_mb=2048",
                   f"-artifact_prefix={work}/", "-print_final_stats=1", str(inputs))
        if done.returncode != 0:
            found = [p for p in work.iterdir() if p.is_file()]
            print(done.stdout[-6000:])
            print("input:", *(escaped(p.read_bytes()) for p in found))
            sys.exit(1)
        reached = re.findall(r"ft: (\d+) corp: (\d+)", done.stdout)
        executed = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout)
        if not reached or not executed or int(reached[-1][0]) < 50:
            sys.exit(done.stdout[-6000:] + "\nlibFuzzer does not see what the code passes through")
        features, corpus = reached[-1]
        print(f"{executed.group(1)} inputs in {flags.seconds} s from {kept} kept ones: {features} features, {corpus} inputs reach them")
        if flags.keep:
            keep(flags.fuzzer, inputs, work / "smallest", flags.corpus)


if __name__ == "__main__":
    main()
