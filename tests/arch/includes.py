"""Include-direction check: a file under src/ includes only its own library and those that the table permits."""
import pathlib
import re
import tempfile

import house

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]', re.M)


def problems_in(root: pathlib.Path) -> list[str]:
    table = house.read_table(root)
    cycle = house.find_cycle(table)
    problems = [f"cmake/libraries.cmake: dependency cycle {cycle}"] if cycle else []
    folders = {p.name for p in (root / "src").iterdir() if p.is_dir()}
    problems += [f"src/{stray}: no row in cmake/libraries.cmake" for stray in sorted(folders - table.keys())]
    problems += [f"src/{p.name}: files live in a library's folder" for p in (root / "src").iterdir() if p.is_file()]
    roots = [(root / "src" / name, name) for name in sorted(folders & table.keys())]
    for folder, library in roots:
        allowed = house.closure(table, library)
        for path in sorted(folder.rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            text = path.read_text(encoding="utf-8")
            for match in INCLUDE.finditer(text):
                quote, target = match.groups()
                line = text.count("\n", 0, match.start()) + 1
                where = f"{path.relative_to(root)}:{line}"
                head = target.split("/", 1)[0] if "/" in target else None
                if target.startswith("."):
                    problems.append(f"{where}: \"{target}\" is a relative path; write it from src/ (\"{library}/...\")")
                elif head in ("apps", "tests"):
                    problems.append(f"{where}: src/ never includes {head}/")
                elif quote == '"' and head in table and head not in allowed:
                    problems.append(f"{where}: {library} may not include \"{target}\"; the table lets it see "
                                    f"{', '.join(sorted(allowed))}")
                elif quote == '"' and not (root / "src" / target).is_file():
                    problems.append(f"{where}: \"{target}\" is no file under src/; quotes are for our own headers, "
                                    "written from src/")
                elif quote == "<" and (root / "src" / target).is_file():
                    problems.append(f"{where}: <{target}> is ours; use quotes")
    return problems


def self_test() -> list[str]:
    table = 'set(T\n  "low||"\n  "side|low|"\n  "high|low|"\n)\n'
    cases = {
        "upward": ("low", '#include "high/h.h"', True),
        "sideways": ("side", '#include "high/h.h"', True),
        "relative": ("high", '#include "../low/l.h"', True),
        "missing": ("high", '#include "low/absent.h"', True),
        "angle": ("high", "#include <low/l.h>", True),
        "own": ("high", '#include "high/h.h"', False),
        "declared": ("high", '#include "low/l.h"', False),
        "system": ("low", "#include <vector>", False),
    }
    failures = []
    for name, (library, include, bad) in cases.items():
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            for folder, header in (("low", "l.h"), ("side", "s.h"), ("high", "h.h")):
                (root / "src" / folder).mkdir(parents=True)
                (root / "src" / folder / header).write_text("#pragma once\n")
            (root / "cmake").mkdir()
            (root / "cmake" / "libraries.cmake").write_text(table)
            (root / "src" / library / "case.cc").write_text(include + "\n")
            if bool(problems_in(root)) != bad:
                failures.append(f"self-test {name}: expected {'a complaint' if bad else 'silence'} for {include}")
    return failures


if __name__ == "__main__":
    house.run_check(problems_in, self_test, "include direction: ok")
