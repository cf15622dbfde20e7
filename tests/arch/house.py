"""Reads the table of libraries (cmake/libraries.cmake): which library may depend on which."""
import argparse
import pathlib
import re
from collections.abc import Callable

ROW = re.compile(r'^\s*"([a-z_]+)\|([a-z_,]*)\|([^"|]*)"\s*$', re.M)


def read_table(root: pathlib.Path) -> dict[str, set[str]]:
    """Library -> directly declared dependencies. Exits when the table cannot be read: a check over nothing proves nothing."""
    text = (root / "cmake" / "libraries.cmake").read_text(encoding="utf-8")
    table = {name: set(filter(None, depends.split(","))) for name, depends, _ in ROW.findall(text)}
    if len(table) < 2:
        raise SystemExit("cmake/libraries.cmake: found no rows of the form \"name|depends|externals\"")
    for name, depends in table.items():
        for unknown in depends - table.keys():
            raise SystemExit(f"cmake/libraries.cmake: {name} depends on {unknown}, which is not a row")
    return table


def closure(table: dict[str, set[str]], name: str) -> set[str]:
    """All libraries that `name` may include, itself among them."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        at = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        todo.extend(table[at])
    return seen


def find_cycle(table: dict[str, set[str]]) -> str | None:
    for name in table:
        for dependency in table[name]:
            if name in closure(table, dependency):
                return f"{name} -> {dependency} -> {name}"
    return None


def run_check(problems_in: Callable[[pathlib.Path], list[str]], self_test: Callable[[], list[str]], ok: str) -> None:
    """The command line of a check over a tree: --root DIR, or --self-test; exits 1 with the problems it prints."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    problems = self_test() if arguments.self_test else problems_in(arguments.root)
    print("\n".join(problems) if problems else ok)
    raise SystemExit(1 if problems else 0)
