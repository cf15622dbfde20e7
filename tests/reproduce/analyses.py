"""`wattle reproduce voltanallm`'s analyses on shortened runs: every section's rows, identities and targets."""
import functools
import pathlib
import subprocess
import tempfile

from sections import arguments, check, ours, saved
import sections

SECONDS = 8
reproduce = functools.partial(sections.reproduce, "voltanallm", seconds=SECONDS)

rows, targets = reproduce("ablation")
for rate in (50, 75, 100):
    base = f"fig14/rps{rate}/"
    highest, ecofreq, full = (ours(rows, f"{base}{name}/decode_energy") for name in ("1410", "ecofreq", "full"))
    check(ecofreq < highest, "EcoFreq saves in decode")
    check(abs(ours(rows, base + "ecofreq_saving_decode") - saved(ecofreq, highest)) < 1e-6, base)
    check(abs(ours(rows, base + "ecoroute_adds_decode") - saved(full, ecofreq)) < 1e-6, base)
added = [ours(rows, f"fig14/rps{rate}/ecoroute_adds_decode") for rate in range(50, 101, 5)]
check(abs(targets["ecoroute_adds_in_decode"]["value"] - sum(added) / len(added)) < 1e-6, targets)
check("published" not in next(iter(rows.values())), "the figure prints no numbers")
longer, _ = reproduce("ablation", seconds=2 * SECONDS)
check(ours(longer, "fig14/rps75/1410/decode_energy") > 1.2 * ours(rows, "fig14/rps75/1410/decode_energy"), "--seconds lengthens the run")

rows, targets = reproduce("border")
check(ours(rows, "fig9/batch257/1005mhz/step") > ours(rows, "fig9/batch256/1005mhz/step"), "a border costs time")
check(ours(rows, "fig9/batch256/1410mhz/step") < ours(rows, "fig9/batch256/1005mhz/step"), "and a higher clock saves some")
own = ours(rows, "fig9/own_border")
for batch in (240, 256, 257, 260, 280):
    check((ours(rows, f"fig9/batch{batch}/clock") == 1005) == (batch <= own), "low as far as the own border")
for routing in ("round-robin", "ecoroute"):
    for instance in (1, 2):
        base = f"fig16/rps75/{routing}/instance{instance}/"
        check(1005 <= ours(rows, base + "clock") <= 1410 and 0 <= ours(rows, base + "at_1005mhz") <= 100, base)
    check(ours(rows, f"fig16/rps75/{routing}/instance1/batch") <= ours(rows, f"fig16/rps75/{routing}/instance2/batch"), routing)
check(any(name.startswith("ecoroute_keeps_one_low_at_") for name in targets), targets)

rows, targets = reproduce("slo")
for rate in (50, 75, 100):
    for profile in ("low", "medium", "high"):
        base = f"fig17/{profile}/rps{rate}/"
        controlled, highest = ours(rows, base + "voltanallm/energy"), ours(rows, base + "1410/energy")
        check(abs(ours(rows, base + "voltanallm/saving") - saved(controlled, highest)) < 1e-6, base)
    for name in ("1410", "1005"):
        same = {ours(rows, f"fig17/{profile}/rps{rate}/{name}/energy") for profile in ("low", "medium", "high")}
        check(len(same) == 1, "a static clock knows no objective")
check(set(targets) == {"attainment_below_1410", "looser_objectives_cost_more"}, targets)

rows, targets = reproduce("levels")
for rate in (50, 75, 100):
    base = f"fig18/rps{rate}/"
    check(abs(ours(rows, base + "five_save_in_decode")
              - saved(ours(rows, base + "5l/decode_energy"), ours(rows, base + "2l/decode_energy"))) < 1e-6, base)
check(any(ours(rows, f"fig18/rps{rate}/five_save_in_prefill") != 0 for rate in range(50, 101, 5)), "five levels are used")

rows, targets = reproduce("window")
windows = (500, 1000, 2000, 5000)
rates = [rate // 2 for rate in range(50, 101, 5)]
for window in windows:
    lost = [ours(rows, f"fig19/rps{rate}/iteration/ttft_attainment") - ours(rows, f"fig19/rps{rate}/{window}ms/ttft_attainment")
            for rate in rates]
    check(abs(ours(rows, f"fig19/mean/{window}ms/ttft_lost") - sum(lost) / len(lost)) < 1e-6, window)
check(targets["windows_cost_ttft_attainment"]["value"] == min(ours(rows, f"fig19/mean/{w}ms/ttft_lost") for w in windows), targets)

with tempfile.TemporaryDirectory() as folder:
    page = pathlib.Path(folder, "page.html")
    rows, targets = reproduce("swing", "-o", str(page))
    text = page.read_text()
check(text.count("<svg") == 2 and text.count("<tr>") == len(rows) + 1, "two plots and all rows on the page")
check(rows["table1/controlled/energy"]["published"] == 289409 and rows["table1/1005/itl_attainment"]["published"] == 36.78, rows)
low, controlled, highest = (ours(rows, f"table1/{name}/energy") for name in ("1005", "controlled", "1410"))
check(controlled < highest and low < highest, (low, controlled, highest))
check(abs(ours(rows, "table1/controlled/saving") - saved(controlled, highest)) < 1e-6, rows)
# By the paper to the letter each phase runs higher where its own demand is high. Not with our watchdog: many short prompts, 5 ms of CPU
# each, overrun their step's prediction, which knows tokens.
for when in ("prefill-heavy", "decode-heavy"):
    check(1005 <= ours(rows, f"fig21/{when}/prefill_clock") <= 1410, when)
    check(1005 <= ours(rows, f"fig21/published/{when}/prefill_clock") <= 1410, when)
check(ours(rows, "fig21/published/prefill-heavy/prefill_clock") > ours(rows, "fig21/published/decode-heavy/prefill_clock"), rows)
check(targets["saving_under_swing"]["met"] == (abs(ours(rows, "table1/controlled/saving") - 28.6) <= 5), targets)

rows, targets = reproduce("gh200")
for rate in (10, 30, 60):
    base = f"gh200/rps{rate}/"
    total = {name: sum(ours(rows, f"{base}{name}/{part}_energy") for part in ("prefill", "decode", "idle")) for name in ("max", "full")}
    check(abs(ours(rows, base + "full/saving") - saved(total["full"], total["max"])) < 1e-3, base)
check(ours(rows, "gh200/rps10/full/saving") > 0, "a calm GH200 needs no highest clock")

rows, targets = reproduce("routing", seconds=4)
for lengths in ("sharegpt", "lmsys"):
    for levels in ("2l", "5l"):
        for rate in (75, 100):
            base = f"routing/{lengths}/{levels}/rps{rate}/"
            for name in ("tile-aware", "eco-route/tiles", "eco-route/as-published"):
                check(abs(ours(rows, f"{base}{name}/saving")
                          - saved(ours(rows, f"{base}{name}/decode_energy"), ours(rows, base + "round-robin/decode_energy"))) < 1e-6, base)
check(ours(rows, "routing/2l/readings_differ") == 0, "two levels lie within the allowed spread: case 2(b) never comes up")
check(len(targets) == 10 and all(name.startswith("eco_route_") for name in targets), targets)

rows, targets = reproduce("watchdog", seconds=2 * SECONDS)  # in shorter ones the time until the last answer decides
for rate in (75, 90):
    for predictor in ("true", "optimistic"):
        check(ours(rows, f"watchdog/rps{rate}/{predictor}/off/overruns") == 0, "switched off, it counts nothing")
    check(ours(rows, f"watchdog/rps{rate}/optimistic/on/overruns") > 0, "steps a quarter longer than predicted overrun")
    check(ours(rows, f"watchdog/rps{rate}/optimistic/on/ttft_attainment") > ours(rows, f"watchdog/rps{rate}/optimistic/off/ttft_attainment"),
          "raising keeps objectives")
check(ours(rows, "watchdog/rps75/optimistic/on/energy") > ours(rows, "watchdog/rps75/optimistic/off/energy"), "raising costs, short of overload")
check(set(targets) == {"watchdog_changes_energy", "watchdog_costs_itl_attainment"}, targets)

refused = subprocess.run([arguments.wattle, "reproduce", "voltanallm", "--seconds", "0", "--section", "swing"], capture_output=True, text=True)
check(refused.returncode != 0 and "seconds" in refused.stderr, refused.stderr)
print("reproduce analyses: ok")
