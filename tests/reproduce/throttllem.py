"""`wattle reproduce throttllem` without the data set (the scenarios' synthetic stand-in): JSON form, identities, targets."""
import pathlib
import tempfile

from sections import check, run


def reproduce(section, *flags):
    rows, targets = run("throttllem", section, *flags)
    return {identity: row["ours"] for identity, row in rows.items()}, targets


rows, targets = reproduce("retail")
saved = 100 * (1 - rows["fig14/throttllem-published/energy"] / rows["fig14/retail/energy"])
check(abs(saved - rows["fig14/saving"]) < 1e-9, (saved, rows["fig14/saving"]))
target = targets["saving_against_retail"]
check(target["value"] == rows["fig14/saving"] and target["met"] == (abs(saved - 11.9) <= 5), target)
check(0.2 < rows["fig14/retail/r2"] < 0.95, "one line explains some of E2E latency, and not all")

rows, targets = reproduce("projection")
check(rows["fig7/error0/batch"] < 1 and rows["fig7/error0/kv"] < 3, "known lengths are projected well")
check(rows["fig7/error0/batch"] < rows["fig7/error15/batch"] < rows["fig7/error30/batch"], "worse with the error")
check(rows["fig7/error0/kv"] < rows["fig7/error15/kv"] < rows["fig7/error30/kv"], "worse with the error")

rows, targets = reproduce("mixtral")
check(rows["fig15/throttllem/power"] < rows["fig15/triton/power"], "throttled, it draws less")

with tempfile.TemporaryDirectory() as folder:
    page = pathlib.Path(folder, "page.html")
    rows, targets = reproduce("sweet-spot", "-o", str(page))
    text = page.read_text()
check(text.count("<svg") == 1 and text.count("<tr>") == len(rows) + 1, "one plot and all rows on the page")
check("src=" not in text and "href=" not in text, "the page asks for nothing")
check(rows["fig2/210mhz/throughput_change"] < rows["fig2/1050mhz/throughput_change"] < 0, "lower is slower")
check(210 < rows["fig2/best_clock"] < 1410, "neither end is best")
