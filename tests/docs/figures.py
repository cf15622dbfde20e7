"""Figures in the documents that a simulation of a moment gives: the command stands on the page as it is run here, and the numbers that
the sentence or table has are those that it prints. With WATTLE_DATA also those of the recorded trace."""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Callable

import markdown

Run = dict  # one recipe's part of `wattle sim --json`


@dataclasses.dataclass(frozen=True)
class Claim:
    page: str
    command: str  # as the page prints it
    more: tuple[str, ...]  # for each run, what the sentence adds to it
    sentence: str  # with a group for each figure
    figures: Callable[[list[list[Run]]], list[str]]
    recorded: bool = False


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def kilojoules(run: Run, part: str = "total") -> str:
    return f"{run['energy_j'][part] / 1e3:.0f}"


def cached(run: Run) -> str:
    return percent(run["tokens"]["cached_prompt"] / run["tokens"]["prompt"])


def of_readme(runs: list[list[Run]]) -> list[str]:
    maximum, eco, wattle, sweet = runs[0]
    kept = [f"{percent(run['slo']['ttft_attainment'])}, {percent(run['slo']['itl_attainment'])}" for run in (maximum, sweet, eco, wattle)]
    saved = [percent(run["saved"]) for run in (sweet, eco, wattle)]
    return [kept[0], saved[0], kept[1], saved[1], kept[2], saved[2], kept[3]]


def by_source(runs: list[list[Run]]) -> list[str]:
    starts, ends, streams, gauges = runs[0][:4]
    return [f"{percent(starts['saved'])} / {percent(ends['saved'])}", percent(ends["slo"]["ttft_attainment"]),
            percent(ends["slo"]["itl_attainment"]), percent(ends["slo"]["attainment"]), percent(streams["saved"]), percent(gauges["saved"]),
            percent(gauges["slo"]["ttft_attainment"]), percent(gauges["slo"]["itl_attainment"]), percent(gauges["slo"]["attainment"])]


CLAIMS = [
    Claim("docs/configuration.md", "wattle sim synthetic-poisson --recipe static-max --set workload.session_share=0.7",
          ("", "--set engine.prefix_caching=false"),
          r"first run, (\S+) % of the prompt tokens are cached: prompts take (\d+) kJ instead of (\d+), and the mean TTFT is (\d+) ms instead of (\d+)",
          lambda runs: [cached(runs[0][0]), kilojoules(runs[0][0], "prefill"), kilojoules(runs[1][0], "prefill"),
                        f"{runs[0][0]['ttft_ms']['mean']:.0f}", f"{runs[1][0]['ttft_ms']['mean']:.0f}"]),
    Claim("docs/configuration.md", "wattle sim synthetic-poisson --recipe static-max --set workload.session_share=0.7",
          tuple(f"--set fleet.0.count=4 --set workload.rate_per_s=16 --set routing.policy={policy}"
                for policy in ("prefix-affinity", "round-robin", "least-loaded")),
          r"\(`--set fleet.0.count=4 --set workload.rate_per_s=16`\) (\S+) % are cached, with `round-robin` (\S+) and with `least-loaded` (\S+)\.",
          lambda runs: [cached(run[0]) for run in runs]),
    Claim("docs/configuration.md",
          "wattle sim synthetic-poisson --recipe static-max --set engine.speculative_tokens=3 --set engine.acceptance_rate=0.7",
          ("", "--set engine.speculative_tokens=0 --set engine.acceptance_rate=0"),
          r"mean gap falls from (\S+) to (\S+) ms here, but energy hardly falls \((\d+) kJ instead of (\d+)\)",
          lambda runs: [f"{runs[1][0]['tbt_ms']['mean']:.1f}", f"{runs[0][0]['tbt_ms']['mean']:.1f}", kilojoules(runs[0][0]),
                        kilojoules(runs[1][0])]),
    Claim("docs/live.md", "wattle sim synthetic-poisson --recipe static-max --recipe eco-freq --by-source", ("",),
          r"eco-freq on synthetic-poisson \| reports of starts / of ends \| (.*?) % \| (\S+) % \| (\S+) % \| (\S+) % \| "
          r"\| \| streams alone \| (\S+) % .*?50 ms \| (\S+) % \| (\S+) % \| (\S+) % \| (\S+) % \|", by_source),
    Claim("README.md", "build/release/wattle sim azure-conv-2p2d --recipe static-max --recipe eco-freq --recipe wattle", ("",),
          r"maximum clock \| \| (.*?) % \|.*?optimal clock \| (\S+) % \| (.*?) \|.*?as published \| (\S+) \| (.*?) \|"
          r".*?recipe `wattle` \| (\S+) \| (.*?) \|", of_readme, recorded=True),
    Claim("docs/planning.md", "wattle sim voltanallm-2p2d --recipe miad --only", ("",), r"voltanallm-2p2d --recipe miad --only` \| (\S+) %",
          lambda runs: [percent(runs[0][0]["slo"]["attainment"])], recorded=True),
]


def simulate(wattle: str, command: str, more: str) -> list[Run]:
    """Options that are said again replace those of the command."""
    words = command.split()[1:]
    for key in re.findall(r"--set (\S+)=", more):
        words = re.sub(rf"--set {re.escape(key)}=\S+", "", " ".join(words)).split()
    done = subprocess.run([wattle, *words, *more.split(), "--json"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, (command, more, done.stderr)
    return json.loads(done.stdout)["runs"]


def problems(wattle: str, root: pathlib.Path, claims: list[Claim]) -> list[str]:
    found = []
    for claim in claims:
        page = root / claim.page
        text = page.read_text(encoding="utf-8")
        printed = [" ".join(words) for _, words in markdown.commands(claim.page, text)]
        if not any(command.startswith(claim.command) for command in printed):
            found.append(f"{claim.page}: does not print `{claim.command}`")
            continue
        sentence = re.search(claim.sentence, " ".join(text.split()))
        if not sentence:
            found.append(f"{claim.page}: has nothing like {claim.sentence}")
            continue
        measured = claim.figures([simulate(wattle, claim.command, more) for more in claim.more])
        if list(sentence.groups()) != measured:
            found.append(f"{claim.page}: `{claim.command}`: says {list(sentence.groups())}, and it is {measured}")
    return found


def self_test(wattle: str, claims: list[Claim]) -> list[str]:
    """A figure that is off in its last digit is found."""
    claim = claims[0]
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "planted.md"
        page.write_text(f"    {claim.command}\n\nIn the first run, 25.4 % of the prompt tokens are cached: prompts take 106 kJ instead of 138, "
                        "and the mean TTFT is 73 ms instead of 91.\n", encoding="utf-8")
        page.write_text("#\n\n" + page.read_text(encoding="utf-8"), encoding="utf-8")
        found = problems(wattle, pathlib.Path(folder), [dataclasses.replace(claim, page="planted.md")])
    return [] if len(found) == 1 and "'25.4'" in found[0] else [f"expected a complaint about 25.4: {found}"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    flags = parser.parse_args()
    claims = [claim for claim in CLAIMS if not claim.recorded or os.environ.get("WATTLE_DATA")]
    found = self_test(flags.wattle, claims) + problems(flags.wattle, flags.root, claims)
    print("\n".join(found) if found else f"figures: ok, {len(claims)} of {len(CLAIMS)} claims")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
