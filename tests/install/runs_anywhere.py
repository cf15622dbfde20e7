"""An installed binary finds its recipes, specs and libraries relative to itself; its manual pages and completion agree with
--help."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cmake", required=True)
    parser.add_argument("--build", required=True)
    flags = parser.parse_args()
    env = {key: value for key, value in os.environ.items() if not key.startswith("WATTLE_")}
    with tempfile.TemporaryDirectory() as folder:
        first = pathlib.Path(folder) / "first"
        subprocess.run([flags.cmake, "--install", flags.build, "--prefix", first], check=True, stdout=subprocess.DEVNULL)
        prefix = pathlib.Path(folder) / "elsewhere"
        first.rename(prefix)  # nothing depends on where it was put
        wattle = prefix / "bin" / "wattle"

        def run(*words: str, code: int = 0) -> str:
            done = subprocess.run([wattle, *words], env=env, capture_output=True, text=True, cwd=folder, timeout=120)
            assert done.returncode == code, (words, done)
            return done.stdout

        # Its own recipes, not those of the tree that it was built from.
        (prefix / "share/wattle/recipes/mine.toml").write_text('extends = "static-max"\ndescription = "mine"\n')
        (prefix / "share/wattle/recipes/ecofreq-only.toml").unlink()
        names = run("recipes")
        assert re.search(r"^mine\b", names, re.M) and not re.search(r"^ecofreq-only\b", names, re.M), names
        out = run("sim", "synthetic-poisson", "--recipe", "mine", "--set", "workload.requests=50", "--json", "--only")
        assert json.loads(out)["runs"][0]["requests"]["finished"] == 50, out

        # The fake NVML and the processes that `up` starts.
        up = json.loads(run("up", "--for", "3s", "--json").splitlines()[-1])
        assert up["requests"]["finished"] > 0 and up["energy_j"] > 0 and up["meters"] == "emulated", up

        # Every flag of --help is in the manual page, and bash completes it.
        pages = sorted(page.name for page in (prefix / "share/man/man1").iterdir())
        commands = re.findall(r"^  ([a-z-]+) ", run("--help").split("ubcommands:")[1], re.M)
        assert pages == sorted(["wattle.1"] + [f"wattle-{one}.1" for one in commands]), pages
        for command in commands:
            shown = set(re.findall(r"--[a-z0-9-]+", run(command, "--help")))
            page = (prefix / f"share/man/man1/wattle-{command}.1").read_text().replace("\\-", "-")
            missing = {flag for flag in shown if flag not in page} - {"--help-all"}
            assert not missing, (command, missing)
        script = prefix / "share/bash-completion/completions/wattle"

        def completed(*words: str) -> list[str]:
            ask = f'source {script}; COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _wattle; echo "${{COMPREPLY[@]}}"'
            return subprocess.run(["bash", "-c", ask], check=True, capture_output=True, text=True, cwd="/").stdout.split()

        assert "gateway" in completed("wattle", "gat"), completed("wattle", "gat")
        assert "--listen" in completed("wattle", "gateway", "--li"), completed("wattle", "gateway", "--li")
        assert "--listen" not in completed("wattle", "sim", "--li")
        for shell in ("zsh/vendor-completions/_wattle", "fish/vendor_completions.d/wattle.fish"):
            assert "listen" in (prefix / "share" / shell).read_text(), shell
        for unit in ("wattle-gateway", "wattle-agent"):
            text = (prefix / f"lib/systemd/system/{unit}.service").read_text()
            assert f"ExecStart={first}/bin/wattle" in text and "@BINARY@" not in text, text


if __name__ == "__main__":
    main()
