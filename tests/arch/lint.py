"""Style as a test over the tree: banned phrases with their replacement, real time only where listed, exit
only in apps/, and ARCHITECTURE.md naming every folder of src/ and no other."""
import pathlib
import re
import subprocess
import tempfile

import house

CODE = (".h", ".cc", ".c")

# (pattern, what to do instead, path prefixes where it is allowed)
BANNED_IN_CODE = [
    (r"std::\w+_distribution\b", "use base/random.h: std distributions differ between standard libraries", ()),
    (r"\busing\s+namespace\s+std\b", "name what you use", ()),
    (r"(?<![\w.>])(std::|::)?(quick_|_)?exit\s*\(|\bstd::(abort|terminate)\s*\(", "return a Result; only apps/ ends the process",
     ("apps/", "src/launch/", "src/base/check.cc", "tests/")),
    (r"\babort\s*\(\s*\)", "return a Result, or WATTLE_CHECK for a broken invariant", ("apps/", "src/launch/", "src/base/check.cc", "tests/")),
]
# Outside of src/systems/ no code may depend on a system's name: its file there states what it needs.
SYSTEMS = r"throttllem|retail|voltana(?:llm)?|greenserve"
# Exceptions: `wattle reproduce` and the papers' profiling grids have systems' names as arguments, and fidelity's data sets are
# named after their authors.
SYSTEMS_AT_HOME = ("src/systems/", "src/policy/", "src/reproduce/", "tests/", "bench/", "apps/reproduce.cc", "apps/profile.cc",
                   "src/calibrate/live/grid", "src/fidelity/")
SYSTEM_REMEDY = "no system is known by name here; let its file in src/systems/ say what it needs"
BANNED_ANYWHERE = [
    # these patterns are split so that this file passes its own check
    (r"\b(TO" + r"DO|FIX" + r"ME)\b(?!\(#\d+\))", "add the issue's number: (#12)", ()),
    (r"/" + r"work/|/" + r"tmp/bash_jobs", "a path of one machine; take it from WATTLE_DATA or an argument", ()),
    (r"registry\.npm" + r"js\.org|py" + r"pi\.org|deb\." + r"debian\.org|proxy\.go" + r"lang\.org|crates" + r"\.io",
     "a registry host; let the ordinary client find it", ()),
]
# Private metaphors that have a standard or plain English term. Found in prose, in snake_case and in CamelCase. Exceptions: CSV's
# byte-order mark, and the JSON key "marks", which other programs read.
WORDS = {"to" + "ld": "reported, asked, said", "de" + "sk": "table, state", "ma" + "rk": "target", "ri" + "der": "billed request",
         "pass" + "enger": "request", "ne" + "ts": "checks", "do" + "or": "entry, exit", "ab" + "oard": "in flight", "bu" + "ry": "end",
         "bu" + "ried": "ended", "an" + "ew": "again", "de" + "ar": "expensive", "de" + "arer": "more expensive",
         "st" + "rike": "hit, apply", "bo" + "rn": "started", "who" + "ever": "the caller, the one that", "unt" + "old": "unsent"}
FORMS = "|".join(sorted(WORDS, key=len, reverse=True))
CAMEL = "|".join(word.capitalize() for word in sorted(WORDS, key=len, reverse=True))
PRIVATE = re.compile(rf"(?<![A-Za-z])(?i:{FORMS})(?i:s)?(?![a-z])|(?<=[a-z])(?:{CAMEL})s?(?![a-z])")
PRIVATE_ALLOWED = re.compile(r"(?i)byte[- ]?order[- ]?mark|\"marks\"")
# Who may read a real clock: the live driver's clock, the emulated GPUs, and what measures real time. A new row needs a
# decision record.
REAL_TIME = re.compile(r"\b(steady_clock|system_clock|high_resolution_clock)::now\b|\bclock_gettime\s*\(|\bgettimeofday\s*\(")
REAL_TIME_ALLOWED = ("src/net/clock.h", "src/virtual_gpu/", "src/testbed/", "src/experiment/simulate.cc", "fake_nvml/", "apps/", "tests/",
                     "bench/")
# Law 3: joules, grams and dollars come from the ledger, or from its entries in the journal.
ENERGY = [(pattern, "only the ledger (src/carbon) computes joules, grams and dollars (law 3): read its totals, a Sample's or an "
           "Outcome's energy, or the run's summary") for pattern in (
    r"\benergy_over\s*\(",
    r"\b\w*(joules?|energy_j|_j)_?(\[[^\]\n]*\])?\s*[-+]=",
    r"\bto_watts\s*\([^;\n]*\*|\*\s*to_watts\s*\(",
    r"\b\w*(watts|power)\w*(\.value\(\))?\s*\*\s*[\w.>()-]*(seconds|duration|_s\b)",
    r"\b\w*(seconds|duration|_s)(\(\))?\s*\*\s*[\w.>-]*(watts|power)\w*",
    r"\b3\.6e\+?(6|9|24|27)\b[^;\n]*\b\w*(intensity|grams|g_per_kwh|usd|price)",
    r"\b\w*(intensity|grams|g_per_kwh|usd|price)[\w.()]*[^;\n]*\b3\.6e\+?(6|9|24|27)\b",
)]
# Those who may: the ledger; what measures a device (counter and power reading to energy) or plays one; the simulated
# hardware's answer for one step; measured rows set against that hardware; a planner's objective, of what might run.
ENERGY_ALLOWED = ("src/carbon/", "src/units/", "src/node/meter.", "src/virtual_gpu/", "fake_nvml/", "src/engine/step_energy.h",
                  "src/fidelity/", "src/plan/", "tests/")
TEXT = CODE + (".py", ".cmake", ".txt", ".md", ".toml", ".sh", ".json", ".js", ".mjs", ".html", ".css", ".yml")
NO_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", re.S)


COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\\n])*\")", re.S)


def tree(root: pathlib.Path) -> list[pathlib.Path]:
    """Tracked and new files, not ignored ones; the plain folder when there is no git (a source archive)."""
    run = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    names = run.stdout.splitlines() if run.returncode == 0 else None
    if names is None:
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()]
        names = [n for n in names if not n.startswith(("build/", ".git/")) and "node_modules/" not in n]
    return sorted(root / n for n in names if (root / n).is_file())


def blank(match: re.Match[str]) -> str:
    """Comments and string literals are words, not code; their line breaks stay, so that line numbers do."""
    return re.sub(r"[^\n]", " ", match.group(0))


def blank_comment(match: re.Match[str]) -> str:
    return match.group(0) if match.group(1) else blank(match)


def problems_in(root: pathlib.Path) -> list[str]:
    problems: list[str] = []

    def scan(name: str, text: str, rules: list[tuple[str, str, tuple[str, ...]]]) -> None:
        for pattern, remedy, allowed in rules:
            if allowed and name.startswith(allowed):
                continue
            for match in re.finditer(pattern, text):
                line = text.count("\n", 0, match.start()) + 1
                problems.append(f"{name}:{line}: `{match.group(0).strip()}`: {remedy}")

    for path in tree(root):
        name = str(path.relative_to(root))
        if path.suffix not in TEXT and path.name not in ("Makefile", "run"):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        scan(name, text, BANNED_ANYWHERE)
        spared = PRIVATE_ALLOWED.sub(lambda m: " " * len(m.group(0)), text)
        for match in PRIVATE.finditer(spared) if name != "tests/arch/lint.py" else ():
            word = match.group(0)
            plain = WORDS.get(word.lower()) or WORDS[word.lower().removesuffix("s")]
            problems.append(f"{name}:{text.count(chr(10), 0, match.start()) + 1}: `{word}`: a private word; say {plain}")
        if path.suffix not in CODE:
            continue
        code = NO_COMMENT.sub(blank, text)
        scan(name, code, BANNED_IN_CODE)
        if not name.startswith(SYSTEMS_AT_HOME) and not name.endswith(("_test.cc", "_bench.cc")):
            scan(name, code, [(rf"(?i)\w*(?:{SYSTEMS})\w*", SYSTEM_REMEDY, ())])
            literals = COMMENT.sub(blank_comment, text)
            scan(name, literals, [(rf'"(?:{SYSTEMS})"', SYSTEM_REMEDY, ())])
        if not name.startswith(REAL_TIME_ALLOWED) and not name.endswith(("_test.cc", "_bench.cc")):
            scan(name, code, [(REAL_TIME.pattern, "time is an argument here (law 1)", ())])
        if not name.startswith(ENERGY_ALLOWED) and not name.endswith(("_test.cc", "_bench.cc")):
            scan(name, code, [(pattern, remedy, ()) for pattern, remedy in ENERGY])
    problems += architecture_problems(root)
    contributing = root / "CONTRIBUTING.md"
    if contributing.is_file() and contributing.read_text(encoding="utf-8").count("\n") > 60:
        problems.append("CONTRIBUTING.md: a map has at most 60 lines")
    return problems + broken_links(root)


def architecture_problems(root: pathlib.Path) -> list[str]:
    """The layers table has a row `| 3 | `policy` | ...` for each folder of src/; other rows say (to come)."""
    page = root / "ARCHITECTURE.md"
    if not page.is_file():
        return ["ARCHITECTURE.md: missing"]
    rows = {m.group(1): m.group(0) for m in re.finditer(r"^\|\s*\d\s*\|\s*`(\w+)`.*$", page.read_text(encoding="utf-8"), re.M)}
    folders = {p.name for p in (root / "src").iterdir() if p.is_dir()}
    table = house.read_table(root).keys()
    problems = [f"ARCHITECTURE.md: the layers table misses src/{name}" for name in sorted((folders | table) - rows.keys())]
    problems += [f"ARCHITECTURE.md: `{name}` is no row of cmake/libraries.cmake" for name in sorted(rows.keys() - table)]
    for name in sorted(rows.keys() & table):
        to_come = "(to come)" in rows[name]
        if to_come and name in folders:
            problems.append(f"ARCHITECTURE.md: `{name}` says (to come) and is there")
        if not to_come and name not in folders:
            problems.append(f"ARCHITECTURE.md: `{name}` is not there; its row should say (to come)")
    return problems


def anchors(page: pathlib.Path) -> set[str]:
    """The headings of a page as a link's part after # names them: GitHub's rule."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in re.findall(r"^#+ +(.*?)\s*$", text, re.M))
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in plain}


def broken_links(root: pathlib.Path) -> list[str]:
    problems = []
    for page in tree(root):
        if page.suffix != ".md":
            continue
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
            target, anchor = match.groups()
            if "://" in target or target.startswith("mailto:"):
                continue
            to = page.parent / target if target else page
            if not to.exists():
                missing = target
            elif anchor and to.suffix == ".md" and anchor not in anchors(to):
                missing = f"{target}#{anchor}"
            else:
                continue
            problems.append(f"{page.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}: link to {missing}, which is not there")
    return problems


def self_test() -> list[str]:
    cases = {  # file -> (content, complained about?)
        "src/base/a.cc": ("std::uniform_int_distribution<int> d;", True),
        "src/base/b.cc": ("using namespace std;", True),
        "src/base/c.cc": ("// TO" + "DO: later", True),
        "src/base/d.cc": ("// TO" + "DO(#12): later", False),
        "src/base/e.cc": ("void f() { std::exit(1); }", True),
        "src/base/f.cc": ("void f() { abort(); }", True),
        "apps/g.cc": ("void f() { std::exit(1); }", False),
        "src/base/check.cc": ("void f() { std::abort(); }", False),
        "src/base/h.cc": ("auto t = std::chrono::steady_clock::now();", True),
        "src/net/clock.h": ("auto t = std::chrono::steady_clock::now();", False),
        "src/net/i.cc": ("auto t = std::chrono::system_clock::now();", True),
        "src/base/j.cc": ("// steady_clock::now is not for us, nor is exit(1)", False),
        "src/base/k.cc": ("const char* p = \"/" + "work/x\";", True),
        "src/gateway/o.cc": ("policy::ThrottllemOptions o;", True),
        "src/sim/p.cc": ("bool f(P p) { return p.name == \"retail\"; }", True),
        "src/sim/q.cc": ("// as throttLL'eM does, \"retail\" too\nint x;", False),
        "src/systems/r.cc": ("policy::Throttllem t;", False),
        "src/sim/s_test.cc": ("auto r = load(\"voltanallm\");", False),
        "apps/ea.cc": ("double joules = 0; void f(double p) { joules += p; }", True),
        "apps/eb.cc": ("double f(Watts w) { return w.value() * seconds; }\nvoid g() { energy_j_[i] += x; }", True),
        "src/reproduce/ec.cc": ("auto e = to_watts(sample.power).value() * period.seconds();", True),
        "src/reproduce/ed.cc": ("auto e = run.seconds * mean_watts;", True),
        "src/gateway/ee.cc": ("auto e = energy_over(power, span);", True),
        "src/testbed/ef.cc": ("auto g = energy.value() / 3.6e6 * intensity.value();", True),
        "src/carbon/eg.cc": ("auto e = energy_over(power, span); joules += 1;", False),
        "src/node/meter.cc": ("auto e = energy_over(power, span);", False),
        "src/report/eh.cc": ("auto mean = energy.joules() / seconds; total += sample.energy - before;", False),
        "src/sim/ta.cc": ("int un" + "told_tokens;", True),
        "src/sim/tb.cc": ("struct Lease" + "Desk {};", True),
        "src/sim/tc.cc": ("// fits it an" + "ew", True),
        "src/sim/td.cc": ("std::string override_, benchmark, Markdown, watermark, scoreboard, outdoors;", False),
        "src/sim/te.cc": ("// A byte-order mark\nauto m = object[\"marks\"];", False),
        "docs/tf.md": ("The mar" + "ks are met.", True),
        "docs/m.md": ("[x](nowhere.md)", True),
        "docs/n.md": ("[x](m.md)", False),
        "docs/na.md": ("## A `b`, c\n[x](#a-b-c) [y](nb.md#b) [z](m.md)", False),
        "docs/nb.md": ("# B\n[x](#a-b-c)", True),
        "docs/nc.md": ("[x](nb.md#a)", True),
        "Makefile": ("all:\n\tcurl https://py" + "pi.org/x\n", True),
    }
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        for name, (content, _) in cases.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content + "\n")
        (root / "src" / "ghost").mkdir()
        (root / "cmake").mkdir()
        (root / "cmake" / "libraries.cmake").write_text('  "base||"\n  "live|base|"\n  "later|base|"\n  "ghost||"\n')
        (root / "ARCHITECTURE.md").write_text("| 0 | `base` | x |\n| 5 | `live` | x |\n| 9 | `gone` | x |\n| 4 | `later` | x |\n")
        found = problems_in(root)
        for name, (_, bad) in cases.items():
            if any(p.startswith((name + ":",)) for p in found) != bad:
                failures.append(f"self-test {name}: expected {'a complaint' if bad else 'silence'}")
        for expected in ("misses src/ghost", "`gone` is no row", "`later` is not there"):
            if not any(expected in p for p in found):
                failures.append(f"self-test ARCHITECTURE.md: expected a complaint with \"{expected}\"")
    return failures


if __name__ == "__main__":
    house.run_check(problems_in, self_test, "lint: ok")
