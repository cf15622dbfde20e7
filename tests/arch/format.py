"""The tree is as clang-format-14 leaves it (`make format` puts it right)."""
import argparse
import pathlib
import shutil
import subprocess

import lint


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    root = parser.parse_args().root
    formatter = shutil.which("clang-format-14")
    if formatter is None:
        raise SystemExit("clang-format-14 is missing: run tools/install.sh")
    files = [p for p in lint.tree(root) if p.suffix in lint.CODE]
    if not files:
        raise SystemExit("format: no files found")
    bad = []
    for start in range(0, len(files), 40):
        run = subprocess.run([formatter, "--dry-run", "--Werror", *map(str, files[start:start + 40])],
                             capture_output=True, text=True, cwd=root)
        if run.returncode != 0:
            bad += sorted({line.split(":", 1)[0] for line in run.stderr.splitlines() if "error:" in line})
    for path in bad:
        print(f"{pathlib.Path(path).relative_to(root) if path.startswith('/') else path}: not as clang-format-14 leaves it; run `make format`")
    if not bad:
        print(f"format: ok ({len(files)} files)")
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
