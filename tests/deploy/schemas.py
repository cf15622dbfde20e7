"""The manifests against the schemas of Kubernetes' API (kubernetes-validate, from PyPI, in a virtual environment that is kept), oldest
version and newest, no unknown field allowed; compose.yaml against docker-compose's own. Both are shown to catch a misspelt key. Exit 77
(skipped) where either cannot be had."""
import argparse
import pathlib
import shutil
import subprocess
import tempfile

from real_engines import Missing, environment, run
from sandbox import skip

KUBERNETES_VALIDATE = "kubernetes-validate==1.37.0"
VERSIONS = ("1.25", "1.37")


def passes(*words) -> bool:
    return subprocess.run(words, capture_output=True).returncode == 0


def check(file: pathlib.Path, key: str, validate) -> None:
    """`key` is in the file; misspelt, it is refused."""
    assert validate(file), f"{file.name}: {validate.__name__} refuses it"
    with tempfile.TemporaryDirectory() as folder:
        wrong = pathlib.Path(folder, file.name)
        text = file.read_text()
        assert f"{key}:" in text
        wrong.write_text(text.replace(f"{key}:", f"{key}x:"))
        assert not validate(wrong), f"{file.name}: {validate.__name__} takes {key}x"


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--root", "--home"):
        parser.add_argument(name, type=pathlib.Path, required=True)
    flags = parser.parse_args()
    if shutil.which("docker-compose") is None:
        skip("there is no docker-compose")
    try:
        python = environment(flags.home, KUBERNETES_VALIDATE, lambda python: run(
            str(python), "-m", "pip", "install", "--quiet", KUBERNETES_VALIDATE, why="no kubernetes-validate"))
    except Missing as why:
        skip(str(why))

    def docker_compose(file: pathlib.Path) -> bool:
        return passes("docker-compose", "--file", file, "config", "--quiet")

    check(flags.root / "packaging/docker/compose.yaml", "stop_grace_period", docker_compose)
    manifests = sorted((flags.root / "packaging/kubernetes").glob("*.yaml"))
    for version in VERSIONS:
        def kubernetes(file: pathlib.Path) -> bool:
            return passes(python.parent / "kubernetes-validate", "--quiet", "--strict", "--kubernetes-version", version, file)

        for file in manifests:
            check(file, "readinessProbe", kubernetes)
    print(f"compose.yaml, {len(manifests)} files of manifests for Kubernetes {' and '.join(VERSIONS)}")


if __name__ == "__main__":
    main()
