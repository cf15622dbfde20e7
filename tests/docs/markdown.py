"""What stands in code font in a Markdown page: blocks (fenced or indented) and spans, and the commands in both."""
import argparse
import dataclasses
import pathlib
import re
import shlex
import subprocess

FENCE = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)\1```$", re.M)
INDENTED = re.compile(r"(?<=\n\n)((?:(?: {4,}\S.*|[ ]*)\n)+)")
SPAN = re.compile(r"(?<!`)`((?:[^`\n]|\n(?!\s*\n))+)`(?!`)")
# What begins another command on the same line.
BETWEEN = re.compile(r"(?:^|\s)(?:\|\|?|&&?|do|then|until|while|if)(?=\s|$)|;")


@dataclasses.dataclass(frozen=True)
class Code:
    page: str
    line: int
    text: str

    def at(self, what: str) -> str:
        return f"{self.page}:{self.line}: {what}"


def pages(root: pathlib.Path) -> dict[str, str]:
    """The documents by their path. Decisions and the list of changes are dated: they say what was so then."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True, text=True)
    names = listed.stdout.splitlines() if listed.returncode == 0 else [str(p.relative_to(root)) for p in root.rglob("*.md")]
    names = [name for name in names if not name.startswith(("docs/decisions/", "build/")) and name != "CHANGELOG.md" and (root / name).exists()]
    return {name: (root / name).read_text(encoding="utf-8") for name in sorted(names)}


def blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group(0))


def blocks(page: str, text: str) -> list[Code]:
    found = [Code(page, text.count("\n", 0, m.start(3)) + 1, m.group(3)) for m in FENCE.finditer(text)]
    rest = FENCE.sub(blank, text)
    return found + [Code(page, rest.count("\n", 0, m.start()) + 1, m.group(1)) for m in INDENTED.finditer(rest) if m.group(1).strip()]


def spans(page: str, text: str) -> list[Code]:
    rest = INDENTED.sub(blank, FENCE.sub(blank, text))
    return [Code(page, rest.count("\n", 0, m.start()) + 1, " ".join(m.group(1).split())) for m in SPAN.finditer(rest)]


def split(code: Code) -> list[tuple[Code, list[str]]]:
    """The commands of one line, as words; without `VAR=value`, sudo and redirections before and behind them."""
    found = []
    for part in BETWEEN.split(re.sub(r"(?<![^\s])#.*", "", code.text)):
        try:
            words = shlex.split(re.sub(r"\$\([^)]*\)", "…", part).replace("[--", "--").replace("]", "") if "[--" in part else part)
        except ValueError:
            continue
        while words and (re.match(r"\w+=|\(", words[0]) or words[0] in ("sudo", "exec", "export", "nohup")):
            words = words[1:]
        if words:
            found.append((code, [word for word in words if not re.match(r"\d?[<>]", word)]))
    return found


def commands(page: str, text: str) -> list[tuple[Code, list[str]]]:
    found = []
    for block in blocks(page, text):
        lines = block.text.split("\n")
        while lines:
            at = block.line + block.text.count("\n") - len(lines) + 1
            line = lines.pop(0)
            while line.endswith("\\") and lines:
                line = line[:-1] + " " + lines.pop(0).strip()
            found += split(Code(page, at, line.strip()))
    for span in spans(page, text):
        found += split(span)
    return found


def arguments() -> argparse.Namespace:
    """Of a check of the pages against the program and its build."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--self-test", action="store_true")
    return parser.parse_args()
