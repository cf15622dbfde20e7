"""Every `wattle ...` command in the documents and in the help texts has subcommands and options that there are, scenarios, recipes
and keys that `wattle config check` takes; the example files on the pages are valid; every `make` target, ctest name and script's
option is there. Commands that print something at once are run."""
import json
import os
import pathlib
import re
import subprocess
import tempfile

import markdown
from markdown import Code

# Run as they stand: they take no time, and write nothing but what they print.
PRINTS = {"recipes", "man", "completion", "key"}
EXAMPLE = re.compile(r"^ *# ((?:recipes|scenarios|specs/gpus|specs/llms)/[\w.-]+\.toml)\b.*\n((?:(?! *# \w+/).*\n)+)", re.M)
# Where a command names its scenario by a flag.
SCENARIO_FLAGS = ("--simulated", "--loads", "--scenario")


def placeholder(word: str) -> bool:
    return bool(re.search(r"…|\.\.\.|\$", word) or re.fullmatch(r"[A-Z_]+", word))


class Wattle:
    def __init__(self, program: str, root: pathlib.Path, home: str) -> None:
        self.root = root
        self.program = program
        self.env = {**os.environ, "WATTLE_HOME": home}
        self.home = home
        self.helps: dict[tuple[str, ...], str] = {}
        self.checked: dict[tuple[str, ...], str] = {}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([self.program, *words], capture_output=True, text=True, timeout=60, env=self.env, cwd=self.home)

    def help(self, path: tuple[str, ...]) -> str:
        if path not in self.helps:
            self.helps[path] = self.run(*path, "--help").stdout
        return self.helps[path]

    def subcommands(self, path: tuple[str, ...]) -> list[str]:
        return re.findall(r"^  ([a-z][a-z-]*) ", self.help(path).partition("Subcommands:")[2], re.M)

    def options(self, path: tuple[str, ...]) -> dict[str, bool]:
        """Each option's names, and whether a value follows."""
        found = {}
        for left in re.findall(r"^  (-\S*(?: \S+)*)", self.help(path), re.M):
            names, _, value = left.partition(" ")
            found.update({name: bool(value) and not value.startswith("Excludes") for name in names.split(",")})
        return found

    def all_paths(self, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return [path, *(more for name in self.subcommands(path) for more in self.all_paths((*path, name)))]

    def complaint(self, *words: str) -> str:
        """What `wattle config check WORDS` complains of; empty if of nothing."""
        words = tuple(str(self.root / word) if "/" in word and (self.root / word).exists() else word for word in words)
        if words not in self.checked:
            done = self.run("config", "check", *words)
            self.checked[words] = "" if done.returncode == 0 else done.stderr.strip().removeprefix("wattle: ")
        return self.checked[words]


def check_command(wattle: Wattle, words: list[str]) -> str | None:
    path: tuple[str, ...] = ()
    while len(words) > len(path) and words[len(path)] in wattle.subcommands(path):
        path = (*path, words[len(path)])
    rest = words[len(path):]
    known = wattle.options(path)
    if rest and wattle.subcommands(path) and not rest[0].startswith("-") and not placeholder(rest[0]):
        return f"`wattle {' '.join(path)}` has no subcommand {rest[0]}"
    positionals: list[str] = []
    values: dict[str, list[str]] = {}
    while rest:
        word = rest.pop(0)
        if not re.match(r"--?[a-zA-Z]", word):
            positionals.append(word)
            continue
        name, equals, value = word.partition("=")
        if name not in known:
            return f"`wattle {' '.join(path)}` has no option {name}"
        if known[name]:
            values.setdefault(name, []).append(value if equals else rest.pop(0) if rest else "…")
    return check_files(wattle, path, positionals, values)


def printing_problem(wattle: Wattle, words: list[str]) -> str | None:
    """`wattle key` alone names the command, `wattle key shop` runs it."""
    if not words or words[0] not in PRINTS or any(placeholder(word) or word[0] == "-" for word in words):
        return None
    if len(words) < 2 and words != ["recipes"]:
        return None
    done = wattle.run(*words)
    return None if done.returncode == 0 and done.stdout else f"`wattle {' '.join(words)}` exits with {done.returncode}: {done.stderr.strip()}"


def check_files(wattle: Wattle, path: tuple[str, ...], positionals: list[str], values: dict[str, list[str]]) -> str | None:
    """Scenario, recipes and keys, by the program itself."""
    named = [positionals[0]] if path and path[0] in ("sim", "planner") and positionals else values.get("--config", []) if path == ("up",) else []
    named += [value for flag in SCENARIO_FLAGS for value in values.get(flag, [])]
    scenario = next((name for name in named if not placeholder(name)), None)
    recipes = [name for name in values.get("--recipe", []) if not placeholder(name)]
    keys = [f"{key}={one}" for key, _, value in (text.partition("=") for text in values.get("--set", [])) for one in value.split("|")
            if not placeholder(key) and not placeholder(one)]
    for name in ([scenario] if scenario else []) + recipes:
        if complaint := wattle.complaint(name):
            return complaint

    def refused(*keys: str) -> str:
        """By every recipe: a key may belong to some of them only."""
        flags = [word for key in keys for word in ("--set", key)]
        tried = [wattle.complaint(scenario or "synthetic-poisson", "--recipe", recipe, *flags) for recipe in recipes or ["wattle", "static-max"]]
        return tried[0] if all(tried) else ""

    # Together, because some mean something beside others only; else one by one, because each may be another recipe's.
    return next((problem for key in keys if (problem := refused(key))), None) if refused(*keys) else None


def example_files(wattle: Wattle, pages: dict[str, str]) -> list[str]:
    """Writes the files that the pages print into a folder of one's own, as docs/configuration.md has it, and checks them."""
    examples: dict[str, Code] = {}
    for page, text in pages.items():
        for block in markdown.blocks(page, text):
            for match in EXAMPLE.finditer(block.text):
                examples[match.group(1)] = Code(page, block.line, re.sub(r"^    ", "", match.group(2), flags=re.M))
    for name, code in examples.items():
        file = pathlib.Path(wattle.home, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code.text, encoding="utf-8")
    for page, text in pages.items():
        for code, words in markdown.commands(page, text):
            if words[:2] == ["wattle", "fit"] and "--like" in words:
                done = wattle.run(*words[1:])
                if done.returncode != 0:
                    return [code.at(done.stderr.strip())]
    return [code.at(complaint) for name, code in examples.items() if (complaint := wattle.complaint(name))]


def help_pages(wattle: Wattle) -> dict[str, str]:
    return {f"wattle {' '.join((*path, '--help'))}": wattle.help(path) for path in wattle.all_paths()}


def make_problem(words: list[str], targets: set[str]) -> str | None:
    for word in words[1:]:
        if word[0] not in "-" and "=" not in word and not placeholder(word) and word not in targets:
            return f"`make {word}`: the Makefile has no such target"
    return None


def ctest_problem(words: list[str], tests: dict[str, list[str]]) -> str | None:
    for flag, pattern in zip(words, words[1:]):
        names = tests if flag == "-R" else {label for labels in tests.values() for label in labels} if flag == "-L" else None
        if names is not None and not any(re.search(pattern, name) for name in names):
            return f"`ctest {flag} {pattern}` runs nothing"
    return None


def script_problem(root: pathlib.Path, words: list[str]) -> str | None:
    """`python3 bench/x.py --flag`, `bench/x.py --flag`, `tools/x.sh`: the file is there, and has the flag."""
    words = words[1:] if words[0] == "python3" else words
    if not words or not re.fullmatch(r"(?:bench|tools|tests)/[\w/.]+\.(?:py|sh)", words[0]):
        return None
    file = root / words[0]
    if not file.exists():
        return f"{words[0]} is not there"
    near = "".join(other.read_text(encoding="utf-8") for other in file.parent.glob("*.py")) if "import" in file.read_text(encoding="utf-8") else ""
    for word in words[1:]:
        if word.startswith("--") and f'"{word.partition("=")[0]}"' not in near:
            return f"{words[0]} has no option {word}"
    return None


def problems_in(root: pathlib.Path, pages: dict[str, str], wattle: Wattle, tests: dict[str, list[str]]) -> list[str]:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (root / "Makefile").read_text(encoding="utf-8"), re.M))
    problems = example_files(wattle, pages)
    seen = 0
    for page, text in {**pages, **help_pages(wattle)}.items():
        for code, words in markdown.commands(page, text):
            program, problem = pathlib.PurePath(words[0]).name, None
            if program == "wattle":
                seen += 1
                problem = check_command(wattle, words[1:])
                problem = problem or printing_problem(wattle, words[1:])
            elif program == "make":
                problem = make_problem(words, targets)
            elif program == "ctest":
                problem = ctest_problem(words, tests)
            else:
                problem = script_problem(root, words)
            if problem:
                problems.append(code.at(problem))
    if seen == 0:
        problems.append("no `wattle` command found: a check over nothing proves nothing")
    return problems


PLANTED = """#

    wattle sim synthetic-poisson --recipe static-max
    wattle sim synthetic-poisson --recipe static-maxx
    wattle sim synthetic-poison --recipe static-max | head
    wattle simm synthetic-poisson
    wattle sim synthetic-poisson --recipes static-max
    WATTLE_DATA=… build/release/wattle forecast length train --date FILE
    wattle sim synthetic-poisson --recipe static-max \\
      --set slo.itl_mss=40

Run `make tests`, `make test`, `ctest -R e2e.nothing`, `ctest -L arch`, `bench/nothing.py`, `bench/crowds.py --nothing`, `wattle man sims`,
and `wattle up
--forr 20s`.

    # recipes/planted.toml
    [frequency]
    policy = "nope"
"""
BAD_LINES = {4, 5, 6, 7, 8, 9, 12, 13, 16}


def self_test(root: pathlib.Path, wattle: Wattle, tests: dict[str, list[str]]) -> list[str]:
    found = problems_in(root, {"planted.md": PLANTED}, wattle, tests)
    found = [problem for problem in found if problem.startswith("planted.md:")]
    lines = {int(problem.split(":")[1]) for problem in found}
    failures = [f"expected complaints about lines {sorted(BAD_LINES)}, not {sorted(lines)}: {found}"] if lines != BAD_LINES else []
    for word in ("make tests", "e2e.nothing", "bench/nothing.py", "--nothing", "man sims", "--forr", "static-maxx", "slo.itl_mss"):
        if not any(word in problem for problem in found):
            failures.append(f"expected a complaint about {word}: {found}")
    return failures


def main() -> None:
    flags = markdown.arguments()
    listed = subprocess.run(["ctest", "--test-dir", flags.build, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    tests = {test["name"]: next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
             for test in json.loads(listed.stdout)["tests"]}
    with tempfile.TemporaryDirectory() as home:
        wattle = Wattle(flags.wattle, flags.root.absolute(), home)
        problems = self_test(flags.root, wattle, tests) if flags.self_test else \
            problems_in(flags.root, markdown.pages(flags.root), wattle, tests)
    print("\n".join(problems) if problems else "commands: ok")
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
