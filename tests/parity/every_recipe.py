"""INV-6 with every recipe: `wattle sim` skips steps, `wattle sim --step` runs each, and both write the same journal, to the
nanosecond and the picojoule. Answers of three tokens leave engines idle between requests, when the last report that a policy
got is the oldest."""
import json
import os
import subprocess
import sys
import tempfile

AZURE = ("workload.trace=", "workload.synthetic=azure-conv")
SHORT = ("workload.output_mean=3", "workload.output_std=1")
SITES = ("workload.lengths=", "workload.prompt_mean=100", "workload.prompt_std=200", "site.intensity_file=",
         "site.electricity_file=", "site.zone=")
# The first whose names fit a recipe is used; a new recipe may need a new line.
GROUPS = (
    (("freesh-pairs",), "two-kinds", ("site.intensity_file=", "workload.requests=1500")),
    (("freesh", "min-energy"), "freesh-3sites", (*SITES, "workload.requests=600")),
    (("freesh", "min-energy"), "freesh-3sites", (*SITES, "workload.output_mean=40", "workload.output_std=300", "workload.requests=1500")),
    (("dynamollm", "multi-pool", "single-pool", "scale-"), "azure-conv-8-pools", (*AZURE, "workload.duration_s=30")),
    (("throttllem", "retail", "triton"), "throttllem-llama2-13b-autoscale",
     (*AZURE, "workload.peak_load=0", "workload.trough_load=0", "workload.duration_s=60")),
    (("static-sweet-autoscale",), "synthetic-poisson", (*SHORT, "workload.requests=300")),
    (("",), "synthetic-poisson", (*SHORT, "workload.requests=300")),
    (("",), "azure-conv-2p2d", (*AZURE, "workload.duration_s=60")),
)


def main() -> None:
    wattle = sys.argv[1]
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"WATTLE_CACHE": cache, "WATTLE_DATA": ""}

        def run(*arguments: str) -> dict:
            done = subprocess.run((wattle, *arguments, "--json"), stdout=subprocess.PIPE, env=environment, check=True)
            return json.loads(done.stdout)

        differ = []
        left = [recipe["name"] for recipe in run("recipes")["recipes"]]
        while left:
            names = next(names for names, _, _ in GROUPS if left[0].startswith(names))
            recipes = [name for name in left if next(n for n, _, _ in GROUPS if name.startswith(n)) == names]
            left = [name for name in left if name not in recipes]
            for scenario, settings in ((s, to) for n, s, to in GROUPS if n == names):
                command = ["sim", scenario, "--only"]
                for recipe in recipes:
                    command += ["--recipe", recipe]
                for setting in settings:
                    command += ["--set", setting]
                skipping, stepping = (run(*command, *more)["runs"] for more in ((), ("--step",)))
                assert len(skipping) == len(recipes)
                for one, other in zip(skipping, stepping):
                    what = f"{one['recipe']} on {scenario}"
                    assert one["requests"]["finished"] > 20, f"{what}: too few requests to show anything"
                    differ += [f"{what}: {key} is {one[key]}, step by step {other[key]}"
                               for key in ("journal_digest", "energy_j", "requests", "slo", "itl_ms")
                               if one[key] != other[key]]
        assert not differ, "\n".join(differ)


main()
