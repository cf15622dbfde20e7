"""The shape of files as a test: none longer than 500 lines, no function longer than 100, and no circle of includes, where
a source and its header count as one."""
import pathlib
import re
import tempfile

import house

FILE_LINES = 500
FUNCTION_LINES = 100
FOLDERS = ("src", "apps", "tests", "bench", "fake_nvml")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
# What opens a block that is no function. clang-format puts a function's closing brace at its own indentation.
NO_FUNCTION = re.compile(r"^\s*(namespace|struct|class|enum|union|extern|template <.*> (struct|class))\b|=\s*\{$")


def code_files(root: pathlib.Path) -> list[pathlib.Path]:
    found = [p for folder in FOLDERS for p in (root / folder).rglob("*") if p.suffix in (".h", ".cc", ".c")]
    return sorted(p for p in found if "build" not in p.relative_to(root).parts)


def long_functions(name: str, lines: list[str]) -> list[str]:
    problems = []
    for start, line in enumerate(lines):
        if not line.endswith("{") or NO_FUNCTION.search(line) or line.startswith("}"):
            continue
        indent = len(line) - len(line.lstrip())
        head = start  # a signature over several lines ends in "... {"; its body is indented deeper than its first line
        while head > 0 and start - head < 12 and (lines[head].count("(") < lines[head].count(")") or
                                                  lines[head].lstrip().startswith((":", ","))):
            head -= 1
        indent = min(indent, len(lines[head]) - len(lines[head].lstrip()))
        if indent > 4 or "(" not in "".join(lines[head:start + 1]):
            continue
        close = re.compile(r"^ {%d}\}" % indent)
        end = next((i for i in range(start + 1, len(lines)) if close.match(lines[i])), len(lines) - 1)
        if end - head + 1 > FUNCTION_LINES:
            problems.append(f"{name}:{head + 1}: {end - head + 1} lines in one function, at most {FUNCTION_LINES}: {lines[head].strip()[:60]}")
    return problems


def unit_of(path: pathlib.PurePath) -> str:
    """An x_impl.h belongs to the header x.h."""
    return str(path.with_suffix("")).removesuffix("_impl")


def circles(root: pathlib.Path, files: list[pathlib.Path]) -> list[str]:
    """Strongly connected units with more than one member (Tarjan, iterative)."""
    edges: dict[str, set[str]] = {}
    for path in files:
        unit = unit_of(path.relative_to(root))
        targets = edges.setdefault(unit, set())
        for target in INCLUDE.findall(path.read_text(encoding="utf-8")):
            for base in (root / "src", path.parent, root):
                if (base / target).is_file():
                    targets.add(unit_of((base / target).resolve().relative_to(root.resolve())))
                    break
        targets.discard(unit)
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    result = []
    for first in sorted(edges):
        if first in index:
            continue
        work = [(first, iter(sorted(edges[first])))]
        index[first] = low[first] = len(index)
        stack.append(first)
        on_stack.add(first)
        while work:
            unit, targets = work[-1]
            for target in targets:
                if target not in edges:
                    continue
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(edges[target]))))
                    break
                if target in on_stack:
                    low[unit] = min(low[unit], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[unit])
                if low[unit] == index[unit]:
                    members = []
                    while True:
                        members.append(stack.pop())
                        on_stack.discard(members[-1])
                        if members[-1] == unit:
                            break
                    if len(members) > 1:
                        result.append("circle of includes: " + ", ".join(sorted(members)))
    return result


def problems_in(root: pathlib.Path) -> list[str]:
    files = code_files(root)
    problems = []
    for path in files:
        name = str(path.relative_to(root))
        lines = path.read_text(encoding="utf-8").split("\n")
        if len(lines) - 1 > FILE_LINES:
            problems.append(f"{name}: {len(lines) - 1} lines, at most {FILE_LINES}; split it by noun")
        problems += long_functions(name, lines)
    return problems + circles(root, files)


def self_test() -> list[str]:
    body = "".join(f"  int x{i} = {i};\n" for i in range(FUNCTION_LINES))
    cases = {
        "src/a/long_file.cc": ("int x;\n" * (FILE_LINES + 1), "long_file.cc: 501 lines"),
        "src/a/long.cc": ("int f() {\n" + body + "}\n", "long.cc:1: 102 lines"),
        "src/a/wrapped.cc": ("int f(int a,\n      int b) {\n" + body + "}\n", "wrapped.cc:1: 103 lines"),
        "src/a/member.h": ("struct S {\n  int f() {\n" + body.replace("  int", "    int") + "  }\n};\n", "member.h:2: 102 lines"),
        "src/a/one.h": ('#include "a/two.h"\n', "circle of includes: src/a/one, src/a/two"),
        "src/a/two.cc": ('#include "a/two.h"\n#include "a/one.h"\n', "circle"),
        "src/a/two.h": ("", "circle"),
    }
    fine = {
        "src/b/space.cc": "namespace b {\n" + "void f() {\n  g();\n}\n" * 100 + "}\n",
        "src/b/table.cc": "const int kTable[] = {\n" + "    1,\n" * 200 + "};\n",
        "src/b/own.cc": '#include "b/own.h"\n',
        "src/b/own.h": "",
    }
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        for name, content in {**{n: c for n, (c, _) in cases.items()}, **fine}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        found = problems_in(root)
        failures += [f"self-test {name}: no complaint with \"{expected}\"" for name, (_, expected) in cases.items()
                     if not any(expected in p for p in found)]
        failures += [f"self-test {name}: {p}" for name in fine for p in found if name in p or unit_of(pathlib.PurePath(name)) in p]
    return failures


if __name__ == "__main__":
    house.run_check(problems_in, self_test, "shape: ok")
