"""`wattle reproduce greenserve`'s analyses on shortened runs: what must hold whatever the figures are. Section ecopred trains
for minutes and has no runs to shorten; reproduce.py has VoltanaLLM's part of it."""
import functools

from sections import check, ours, saved
import sections

SECONDS = 4
RATES = (75, 90)
reproduce = functools.partial(sections.reproduce, "greenserve", seconds=SECONDS)


def close(value, expected, what):
    check(abs(value - expected) < 1e-6, f"{what}: {value}, not {expected}")


rows, targets = reproduce("ablation")
for rate in RATES:
    base = f"fig14/rps{rate}/"
    for phase in ("prefill", "decode"):
        highest, ecofreq, full = (ours(rows, f"{base}{name}/{phase}_energy") for name in ("1410", "ecofreq", "full"))
        check(ecofreq < highest and full < highest, base + phase + ": the predictor lets EcoFreq lower clocks")
        close(ours(rows, f"{base}ecofreq_saving_{phase}"), saved(ecofreq, highest), base + phase)
        close(ours(rows, f"{base}ecoroute_adds_{phase}"), saved(full, ecofreq), base + phase)
close(targets["ecoroute_adds_in_decode"]["value"], sum(ours(rows, f"fig14/rps{r}/ecoroute_adds_decode") for r in RATES) / len(RATES), "mean")

rows, targets = reproduce("slo")
gap = -100.0
for rate in RATES:
    for profile in ("low", "medium", "high"):
        base = f"fig17/{profile}/rps{rate}/"
        close(ours(rows, base + "greenserve/saving"), saved(ours(rows, base + "greenserve/energy"), ours(rows, base + "1410/energy")), base)
        for what in ("ttft", "itl"):
            at = {name: ours(rows, f"{base}{name}/{what}_attainment") for name in ("1410", "1005", "greenserve")}
            check(at["1410"] >= at["1005"], f"{base}: {at}")
            gap = max(gap, at["1410"] - at["greenserve"])
    for name in ("1410", "1005"):
        check(len({ours(rows, f"fig17/{p}/rps{rate}/{name}/energy") for p in ("low", "medium", "high")}) == 1, "a static clock knows no objective")
close(targets["attainment_below_1410"]["value"], gap, "the target is the worst of the rows")

rows, targets = reproduce("levels")
for rate in RATES:
    base = f"fig18/rps{rate}/"
    for phase in ("prefill", "decode"):
        close(ours(rows, f"{base}five_save_in_{phase}"), saved(ours(rows, f"{base}5l/{phase}_energy"), ours(rows, f"{base}2l/{phase}_energy")), base)

rows, targets = reproduce("window")
halved = [rate // 2 for rate in RATES]
for window in (500, 1000, 2000, 5000):
    for what in ("ttft", "itl"):
        lost = [ours(rows, f"fig19/rps{rate}/iteration/{what}_attainment") - ours(rows, f"fig19/rps{rate}/{window}ms/{what}_attainment") for rate in halved]
        close(ours(rows, f"fig19/mean/{window}ms/{what}_lost"), sum(lost) / len(lost), window)

rows, targets = reproduce("swing")
low, controlled, highest = (ours(rows, f"table1/{name}/energy") for name in ("1005", "controlled", "1410"))
check(low < highest and controlled < highest, (low, controlled, highest))
close(ours(rows, "table1/controlled/saving"), saved(controlled, highest), "swing")
check(rows["table1/controlled/ttft_attainment"]["published"] == 96.05, "the published row")
for half in ("prefill-heavy", "decode-heavy"):
    for phase in ("prefill", "decode"):
        check(1005 <= ours(rows, f"fig21/{half}/{phase}_clock") <= 1410, half)

rows, targets = reproduce("watchdog")
for rate in RATES:
    for predictor in ("true", "optimistic"):
        check(ours(rows, f"watchdog/rps{rate}/{predictor}/off/overruns") == 0, "switched off, it counts nothing")
        close(ours(rows, f"watchdog/rps{rate}/{predictor}/energy_more"),
              -saved(ours(rows, f"watchdog/rps{rate}/{predictor}/on/energy"), ours(rows, f"watchdog/rps{rate}/{predictor}/off/energy")), rate)
print("reproduce greenserve: ok")
