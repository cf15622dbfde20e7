"""`wattle reproduce voltanallm` on made-up points: its JSON form, and refusals."""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

from processes import check

HEADER = "model,dataset,rps,system,energy_j,ttft_attainment_pct,itl_attainment_pct\n"
ROWS = """Llama-3.1-8B,ShareGPT,5,sglang_1410,100000,99.0,
Llama-3.1-8B,ShareGPT,5,voltana,60000,,99.8
Ministral-3B,LMSYS,4,sglang_1005,,90.5,
"""

parser = argparse.ArgumentParser()
parser.add_argument("--wattle", required=True)
parser.add_argument("--root", required=True)
arguments = parser.parse_args()


def reproduce(text, *flags, section="main"):
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, WATTLE_HOME=arguments.root)
        environment.pop("WATTLE_DATA", None)
        if text is not None:
            points = pathlib.Path(folder, "VoltanaLLM", "paper_main_result_digitised.csv")
            points.parent.mkdir()
            points.write_text(text)
            environment["WATTLE_DATA"] = folder
        return subprocess.run([arguments.wattle, "reproduce", *flags, "--section", section], env=environment, capture_output=True, text=True)


done = reproduce(HEADER + ROWS, "voltanallm", "--json")
check(done.returncode == 0, done.stderr)
result = json.loads(done.stdout)
rows = {row["id"]: row for row in result["rows"]}
base = "fig13/llama-3.1-8b/sharegpt/rps5/"
check(result["system"] == "voltanallm", result)
check(set(rows) == {base + "sglang_1410/energy", base + "sglang_1410/ttft_attainment", base + "voltana/energy",
                    base + "voltana/itl_attainment", base + "saving",
                    "fig13/ministral-3b/lmsys/rps4/sglang_1005/ttft_attainment"}, sorted(rows))
high, low = rows[base + "sglang_1410/energy"], rows[base + "voltana/energy"]
check(high["published"] == 100000 and low["published"] == 60000, (high, low))
check(0 < low["ours"] < high["ours"], "a controlled run draws less")
saving = rows[base + "saving"]
check(abs(saving["published"] - 40) < 1e-9 and abs(saving["ours"] - 100 * (1 - low["ours"] / high["ours"])) < 1e-9, saving)
for row in result["rows"]:
    check(abs(row["difference"] - (row["ours"] - row["published"])) < 1e-9, row)
    check(row["relative"] is None or abs(row["relative"] * row["published"] - row["difference"]) < 1e-6, row)
targets = {target["name"]: target for target in result["marks"]}
check(set(targets) == {"energy_median_error", "saving_worst_difference", "attainment_worst_difference",
                     "attainment_worst_beyond_reading", "best_saving", "other_models_attainment_mean_difference"}, targets)
# Models other than the fitted one have targets of their own, those for which something was published.
other = rows["fig13/ministral-3b/lmsys/rps4/sglang_1005/ttft_attainment"]
check(targets["other_models_attainment_mean_difference"]["value"] == abs(other["difference"]), (other, targets))
above = [row["difference"] for identity, row in rows.items()
         if "attainment" in identity and "llama-3.1-8b" in identity and row["published"] > 90]
check(len(above) == 2 and targets["attainment_worst_difference"]["value"] == max(map(abs, above)), (above, targets))
check(targets["attainment_worst_beyond_reading"]["value"] == max(0, *(d - 2 if d > 0 else -d for d in above)), (above, targets))
check(targets["best_saving"]["value"] == saving["ours"], targets)
check(reproduce(HEADER + ROWS, "voltanallm", "--json").stdout == done.stdout, "twice the same")

# Left out: constants chosen for a model depend only on the other model's points.
PAIR = """Llama-3.1-8B,ShareGPT,20,sglang_1410,{},99.0,99.0
Ministral-3B,LMSYS,20,sglang_1410,{},99.0,99.0
"""


def left_out(of_8b, of_3b):
    done = reproduce(HEADER + PAIR.format(of_8b, of_3b), "voltanallm", "--json", "--seconds", "3", section="left-out")
    check(done.returncode == 0, done.stderr)
    rows = {row["id"]: row["ours"] for row in json.loads(done.stdout)["rows"]}
    return rows, {model: [rows[f"left_out/{model}/cpu_per_{what}"] for what in ("step", "prompt", "decoding_request")]
                  for model in ("llama-3.1-8b", "ministral-3b")}


(few, chosen), (many, others) = left_out(8000, 4000), left_out(8000, 40000)
check(chosen["ministral-3b"] == others["ministral-3b"], (chosen, others))
check(few["left_out/ministral-3b/energy_mean_error"] != many["left_out/ministral-3b/energy_mean_error"], (few, many))
check(few["left_out/llama-3.1-8b/cpu_per_step"] in (0, 4, 8, 12, 16), few)

for text, system, says in ((None, "voltanallm", "WATTLE_DATA"), (HEADER + ROWS, "voltana", "known: "),
                           (HEADER + ROWS.replace("ShareGPT,5,v", "ShareGPT,x,v"), "voltanallm", ".csv:3"),
                           (HEADER + ROWS.replace("99.8", "998"), "voltanallm", ".csv:3"),
                           ("model,rps\n", "voltanallm", ".csv")):
    refused = reproduce(text, system)
    check(refused.returncode == 2 and says in refused.stderr, (says, refused.returncode, refused.stderr))
unknown = json.loads(reproduce(HEADER + ROWS.replace("voltana,", "volta,"), "voltanallm", "--json").stdout)
check(unknown["left_out"] == [{"reason": "unknown system volta", "lines": 1}], unknown)
check(base + "sglang_1410/energy" in {row["id"] for row in unknown["rows"]}, unknown)
refused = reproduce(HEADER + ROWS, "voltanallm", section="mian")
check(refused.returncode == 2 and "known: main" in refused.stderr, refused.stderr)
print("reproduce: ok")
