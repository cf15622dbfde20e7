"""A watt budget for a node, set at the agent's start and at run time: under load the GPUs' clocks get ceilings and their metered
sum stays within it; when load falls the ceilings go. A budget that cannot be kept is refused or reported."""
import json
import os
import subprocess
import threading
import urllib.request

from processes import PATIENCE_S, a_node, answer, arguments, eventually, get, metric, post


class Load:
    """Streams long answers from an engine, one after the other, until it is stopped."""

    def __init__(self, url: str, streams: int = 8):
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(url,), daemon=True) for _ in range(streams)]
        for thread in self.threads:
            thread.start()

    def run(self, url: str) -> None:
        body = {"prompt": "x" * 4000, "max_tokens": 400, "ignore_eos": True, "stream": True}
        while not self.stopped.is_set():
            request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                for _ in answer:
                    if self.stopped.is_set():
                        break

    def stop(self) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join(PATIENCE_S)


def not_allowed(url: str) -> str:
    """The methods that a 405 allows."""
    status, fields, _ = answer(url, "DELETE")
    assert status == 405, status
    return fields["Allow"]


def main() -> None:
    flags = arguments()
    with a_node(flags.wattle, gpus=3) as (node, folder):
        engines = [node.engine("colocated", gpu) for gpu in range(2)]
        words = ["agent", *(word for gpu, at in enumerate(engines) for word in ("--engine", f"{at['fpm']}={gpu}")),
                 "--recipe", "static-max", "--nvml", flags.nvml, "--state", os.path.join(folder, "state")]

        refused = subprocess.run([node.wattle, *words[:1], "--engine", "tcp://127.0.0.1:1=2", *words[5:], "--watt-budget-w", "40"],
                                 env=node.env, capture_output=True, text=True, timeout=60)
        assert refused.returncode == 2 and "40 W is less than the 1 GPUs draw idle, which is 52 W" in refused.stderr, refused

        _, at = node.start(*words, "--watt-budget-w", "2000")
        admin = at["admin"]
        too_little = lambda: post(admin + "/budget", {"watts": 10})
        eventually("engines have said that they do nothing, and less than they draw then is refused",
                   lambda: "10 W is less than the 2 GPUs draw idle" in str(too_little()))
        assert too_little()[0] == 400, too_little()
        assert post(admin + "/budget", {"watts": 2000})[0] == 200
        budget = lambda: json.loads(get(admin + "/budget"))
        clocks = lambda: [metric(engine["url"], "wattle_mock_engine_clock_mhz") for engine in engines]
        loads = [Load(engine["url"]) for engine in engines]
        eventually("both engines work at their highest clock", lambda: clocks() == [1410, 1410] and budget()["drawn_w"] > 300)
        now = budget()
        assert now["state"] == "kept" and now["level"] == 2 and list(now["ceilings_mhz"].values()) == [None, None], now
        full_w = now["drawn_w"]

        limit_w = round(0.8 * full_w)
        status, now = post(admin + "/budget", {"watts": limit_w})
        assert status == 200 and now["watts"] == limit_w, now
        eventually("it is kept", lambda: budget()["level"] < 1 and budget()["drawn_w"] <= limit_w)
        eventually("the engines run slower", lambda: max(clocks()) < 1410)
        assert metric(admin, "wattle_agent_watt_budget_watts") == limit_w
        assert metric(admin, "wattle_agent_watt_budget_drawn_watts") <= 1.02 * limit_w
        assert all(210 <= ceiling < 1410 for ceiling in budget()["ceilings_mhz"].values()), budget()
        status = json.loads(get(admin + "/engines"))
        assert any(d["reason"] == "the node's watt budget" for d in status["decisions"]), status["decisions"]
        lines = get(admin + "/metrics").splitlines()
        bare = [line for before, line in zip([""] + lines, lines)
                if line.startswith("# TYPE ") and not before.startswith(f"# HELP {line.split()[2]} ")]
        assert not bare and any("belief_extrapolations_total" in line for line in lines), bare
        for path, methods in (("/budget", "GET, HEAD, POST"), ("/engines", "GET, HEAD"), ("/clocks", "POST")):
            assert not_allowed(admin + path) == methods, path
        assert all(e["commanded_mhz"] <= e["ceiling_mhz"] for e in status["engines"]), status["engines"]
        slow = budget()
        print(f"{full_w:.0f} W at 1410 MHz; under {limit_w} W: {slow['drawn_w']:.0f} W, ceilings {slow['ceilings_mhz']}")

        status, _ = post(admin + "/budget", {"watts": 60})  # below what two engines draw that do nothing
        assert status == 200
        eventually("it says that this cannot be kept", lambda: budget()["state"] == "unreachable")
        assert metric(admin, "wattle_agent_watt_budget_unreachable") == 1 and clocks() == [210, 210], clocks()
        assert post(admin + "/budget", {"watts": limit_w})[0] == 200

        for load in loads:
            load.stop()
        eventually("load has fallen, and so have the ceilings", lambda: budget()["level"] == 2)
        loads = [Load(engine["url"]) for engine in engines]
        eventually("load is back, and so are the ceilings", lambda: budget()["level"] < 2)
        assert post(admin + "/budget", {"watts": None})[0] == 200
        assert budget()["state"] == "unbounded", budget()
        eventually("without a budget the clocks are the recipe's", lambda: clocks() == [1410, 1410])
        for load in loads:
            load.stop()

        for body in ({}, {"watts": 0}, {"watts": "500"}, {"watts": 1e9}, [], b"{"):
            status, answer = post(admin + "/budget", body)
            assert status == 400 and "watts" in answer["error"]["message"], (body, status, answer)
    print("kept under load, gone without; what cannot be kept is refused or reported")


if __name__ == "__main__":
    main()
