"""What the documents and help texts name in code font exists: files of this tree, keys of the reference, tests, metrics, environment
variables, and identifiers of the code."""
import fnmatch
import pathlib
import re
import subprocess
import tempfile

import markdown
from commands import Wattle, help_pages

SOURCES = (".h", ".cc", ".c", ".py", ".cmake", ".txt", ".toml", ".sh", ".json", ".yml", ".yaml", ".service", ".mjs", ".in")
FOREIGN = {"malloc_info", "--tensor-parallel-size", "--enable-cache-report"}  # glibc's, vLLM's and SGLang's
TEST = re.compile(r"\b(?:TEST|TEST_F|TEST_P|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\(\s*(\w+),\s*(\w+)")
BENCHMARK = re.compile(r"\bBENCHMARK\w*\(\s*(\w+)")


class Tree:
    def __init__(self, root: pathlib.Path, wattle: Wattle, tests: set[str]) -> None:
        keys = reference_keys(wattle)
        listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
        self.files = listed.stdout.splitlines() if listed.returncode == 0 else [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
        self.files = [name for name in self.files if not name.startswith("build/")]
        self.folders = {str(folder) for name in self.files for folder in pathlib.PurePath(name).parents}
        self.top = {name.split("/")[0] for name in self.files} | {folder.split("/")[1] for folder in self.folders if re.match(r"src/\w+$", folder)}
        text = "\n".join((root / name).read_text(encoding="utf-8", errors="replace") for name in self.files
                         if (name.endswith(SOURCES) or name in ("Makefile", "packaging/docker/Dockerfile")) and not name.startswith("tests/docs/"))
        self.words = set(re.findall(r"\w+", text))
        self.text = text
        self.unit_tests = {".".join(match) for match in TEST.findall(text)}
        self.keys, self.sections = keys, {key.split(".")[0] for key in keys}
        self.words |= {key.rpartition(".")[2] for key in keys}  # some are put together in the code
        self.words |= {f"{folder.split('/')[1]}_{kind}" for folder in self.folders if re.match(r"src/\w+$", folder) for kind in ("test", "bench")}
        self.options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text)) | {name for path in wattle.all_paths() for name in wattle.options(path)}
        self.tests, self.families = tests, {name.split(".")[0] for name in tests if "." in name}

    def has_file(self, name: str) -> bool:
        """`control/next_step.h` is in src/; `naive.cc` is in the folder that the sentence is about."""
        name = name.rstrip("/")
        names = (name, "*/" + name, f"*/{name}.h")  # `plan/reshard`: a header and its source
        return any(fnmatch.fnmatch(path, one) for one in names for path in (*self.files, *self.folders))


def problem(tree: Tree, span: str) -> str | None:
    span = span.replace("NAME", "*")
    if re.search(r"…|\.\.\.|[A-Z]{2,}\.toml|[<>]|^[._]", span) or span in FOREIGN:
        return None
    if re.fullmatch(r"[\w.*-]+(/[\w.*-]+)*/?", span) and (span.endswith((".h", ".cc", ".py", ".cmake")) or
                                                        ("/" in span and span.split("/")[0] in tree.top)):
        return None if tree.has_file(span) else "no such file"
    if span.startswith("--"):
        return option_problem(tree, span)
    key = re.sub(r"\s*=.*", "", span)
    if re.fullmatch(r"[a-z]\w*(\.[a-z0-9]\w*)+", key) and key.split(".")[0] in tree.sections | tree.families:
        known = re.sub(r"\.\d+\.", ".", key) in tree.keys or any(name.startswith(key) for name in tree.tests) or \
            any(file.endswith(key) for file in tree.files) or f'"{key}"' in tree.text
        return None if known else "no key of the reference, no test"
    if re.fullmatch(r"[A-Z]\w+\.[\w*]+", span) and not tree.has_file(span):
        return None if any(fnmatch.fnmatch(test, span) for test in tree.unit_tests) else "no such test"
    if re.fullmatch(r"\w+(::\w+)+|[A-Z][a-z]+[A-Z]\w*|WATTLE_\w+|[a-z]\w*_\w+", span):
        missing = [word for word in span.split("::") if word not in tree.words]
        return "no such name in the code" if missing else None
    if filtered := re.search(r"--(?:gtest|benchmark)_filter='?([\w.*/-]+)", span):
        pattern = filtered.group(1)
        if "benchmark" in span:
            return None if any(pattern in name for name in BENCHMARK.findall(tree.text)) else "no such benchmark"
        return None if any(fnmatch.fnmatch(test, pattern) for test in tree.unit_tests) else "no such test"
    return None


def option_problem(tree: Tree, span: str) -> str | None:
    """Options named without their command: of some command of ours, or of an engine that a test starts with them."""
    for option in re.findall(r"(?<!\S)--[a-z][\w-]*", span):
        if option not in tree.options and option not in FOREIGN:
            return f"no command has {option}"
    for key in re.findall(r"--set ([a-z][\w.]*)=", span):
        if re.sub(r"\.\d+\.", ".", key) not in tree.keys | {"key"}:
            return f"no key {key}"
    return None


def reference_keys(wattle: Wattle) -> set[str]:
    """`section.key` of every key in the reference; a key of [frequency.prefill] is one of [frequency] and [frequency.decode], too."""
    keys = set()
    with tempfile.TemporaryDirectory() as folder:
        done = wattle.run("config", "reference", "--out", folder)
        assert done.returncode == 0, done
        for page in pathlib.Path(folder).glob("*.md"):
            section = ""
            for line in page.read_text(encoding="utf-8").splitlines():
                if heading := re.match(r"#+ (.*)", line):
                    named = re.search(r"\[+([a-z_.]+)\]+", heading.group(1))
                    section = named.group(1) + "." if named else section if line.startswith("###") else ""
                elif row := re.match(r"\| `([a-z_0-9.]+)` \|", line):
                    base, phase, _ = section.partition(".prefill.")
                    keys |= {f"{base}{part}.{row.group(1)}" for part in ("", ".prefill", ".decode")} if phase else {section + row.group(1)}
    return keys


def problems_in(root: pathlib.Path, pages: dict[str, str], tree: Tree) -> list[str]:
    return [code.at(f"`{code.text}`: {what}") for page, text in pages.items() for code in markdown.spans(page, text)
            if (what := problem(tree, code.text))]


GOOD = ("docs/live.md", "control/plan_check", "naive.cc", "frequency.late_requests", "frequency.decode.margin=0.1", "fleet.0.count=4", "e2e.managers",
        "FleetFaults.*", "Plan::levels", "FleetLoop", "wattle_gateway_report_sources", "WATTLE_CACHE", "--clock-lease-s", "--set slo.itl_ms=40",
        "plan_test --gtest_filter='Sharding.*'", "unmetered_s", "a plain word")
BAD = ("docs/alive.md", "control/plan_checker", "naively.cc", "frequency.late_request_count", "frequency.encode.margin=0.1", "fleet.0.counts=4",
       "e2e.mangers", "FleetFaultz.*", "Plan::lewels", "FleetLoops", "wattle_gateway_report_sauces", "WATTLE_CASH", "--clock-leash-s",
       "--set slo.itl_mss=40", "plan_test --gtest_filter='Shardings.*'", "unmetred_s")


def self_test(root: pathlib.Path, tree: Tree) -> list[str]:
    found = problems_in(root, {"planted.md": "\n".join(f"`{name}`" for name in (*GOOD, *BAD))}, tree)
    expected = [f"planted.md:{line}:" for line in range(len(GOOD) + 1, len(GOOD) + len(BAD) + 1)]
    lines = [re.match(r"[^:]*:\d+:", problem).group(0) for problem in found]
    return [] if lines == expected else [f"expected complaints at {expected}, not", *found]


def main() -> None:
    flags = markdown.arguments()
    listed = subprocess.run(["ctest", "--test-dir", flags.build, "-N"], capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as home:
        wattle = Wattle(flags.wattle, flags.root.absolute(), home)
        tree = Tree(flags.root, wattle, set(re.findall(r"Test +#\d+: (\S+)", listed)))
        found = self_test(flags.root, tree) if flags.self_test else problems_in(flags.root, {**markdown.pages(flags.root), **help_pages(wattle)}, tree)
    print("\n".join(found) if found else "names: ok")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
