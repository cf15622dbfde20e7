"""Energy of live requests: the energy of the agent's meters is booked completely to requests and their tenants; the run directory
holds decisions of gateway and agent, and requests with their energy."""
import json
import os
import signal
import subprocess
import urllib.request

from processes import PATIENCE_S, Processes, arguments, decisions_of, eventually, get, requests_of, scratch
from streams import Requests


def raw_post(url: str, body: dict, headers: dict[str, str]) -> tuple[int, str]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return answer.status, answer.read().decode()


def main() -> None:
    flags = arguments()
    with scratch() as folder:
        node = Processes(flags.wattle, folder)
        try:
            prefill = node.engine("prefill", 0)
            decode = node.engine("decode", 1)
            recipe = ("--recipe", "voltanallm")
            _, agent = node.start("agent", "--engine", f"{prefill['fpm']}=0@prefill", "--engine", f"{decode['fpm']}=1@decode",
                                  *recipe, "--ttft-ms", "600", "--itl-ms", "60", "--nvml", flags.nvml,
                                  "--state", os.path.join(folder, "state"))
            run = os.path.join(folder, "run")
            gateway, at = node.gateway("--model", "llama-3.1-8b", "--worker", f"{prefill['url']}=prefill,fpm={prefill['fpm']}",
                                       "--worker", f"{decode['url']}=decode,fpm={decode['fpm']}",
                                       *recipe, "--ttft-slo-ms", "600", "--itl-slo-ms", "60", "--agent", agent["admin"],
                                       "--carbon-g-per-kwh", "360", "--journal", run, "--drain-s", "0.5")
            # What two engines draw together is neither's, unless only one of them runs at a time.
            shares = ("agent", "--engine", "tcp://127.0.0.1:1=0", "--engine", "tcp://127.0.0.1:2=1,0", "--nvml", flags.nvml,
                      "--state", os.path.join(folder, "other"), "--gpu-locks", os.path.join(folder, "locks"))
            done = subprocess.run([flags.wattle, *shares], env=node.env, capture_output=True, text=True, timeout=PATIENCE_S)
            assert done.returncode == 2 and "has GPU 0 of tcp://127.0.0.1:1" in done.stderr and "--slots" in done.stderr, done
            _, places = node.start(*shares, "--slots")
            energy = lambda: [e["energy_uj"] for e in json.loads(get(places["admin"] + "/engines"))["engines"]]
            eventually("its meters count", lambda: (energy()[0] or 0) > 0)
            assert get(places["admin"] + "/health") == "ready\n"

            eventually("the gateway finds its engines", lambda: all(
                worker["is_healthy"] for worker in json.loads(get(at["admin"] + "/workers"))["workers"]))
            eventually("meters are read", lambda: json.loads(get(at["admin"] + "/usage"))["energy_j"]["metered"] > 0)
            usage = lambda: json.loads(get(at["admin"] + "/usage"))
            ask = {"model": "llama-3.1-8b", "prompt": "x" * 8000, "max_tokens": 120, "ignore_eos": True}
            answers = {}
            for tenant, times, stream in (("ada", 2, True), ("bob", 1, True), ("whole", 1, False)):
                for n in range(times):
                    body = dict(ask, stream=stream)
                    name = f"{tenant}-{n}"
                    status, events = raw_post(at["url"] + "/v1/completions", body, {
                        "X-Wattle-Tenant": tenant, "X-Wattle-Usage": "energy", "X-Request-Id": name})
                    assert status == 200 and (not stream or "[DONE]" in events), (status, events)
                    answers[name] = json.loads(events.split("data: ")[-2] if stream else events)["usage"]
            eventually("all is paid for", lambda: usage()["requests"]["requests"] == 4)

            # The response has the booked energy, under the client's name for the request.
            for name, answer in answers.items():
                row = json.loads(get(f"{at['admin']}/usage/requests/{name}"))["requests"][0]
                assert answer["energy_meters"] == "emulated" and answer["completion_tokens"] == 120, answer
                assert abs(answer["energy_j"] / row["energy_j"] - 1) < 1e-5 and row["prompt_counted"], (answer, row)
                assert abs(answer["carbon_g"] - answer["energy_j"] / 3.6e6 * 360) < 1e-5 * answer["carbon_g"], answer
                assert row["prompt_tokens"] == answer["prompt_tokens"], (answer, row)

            said = usage()
            energy, tenants = said["energy_j"], said["tenants"]
            print(json.dumps({"energy_j": energy, "tenants": tenants}, indent=1))
            parts = energy["prefill"] + energy["decode"] + energy["idle"] + energy["residue"]
            assert abs(parts - energy["total"]) < 1e-6, "the parts are the whole"
            assert 0 <= energy["metered"] - energy["total"] < 0.001 * energy["metered"], "and the whole is what was metered"
            requests = sum(t["energy_j"] for t in tenants.values())
            assert abs(requests - energy["prefill"] - energy["decode"]) < 1e-6
            assert set(tenants) == {"ada", "bob", "whole"}
            # Alone on a decode GPU at 80 to 400 W for about a second each.
            for name, count in (("ada", 2), ("bob", 1), ("whole", 1)):
                assert 50 * count < tenants[name]["energy_j"] < 500 * count, (name, tenants[name])
                assert abs(tenants[name]["carbon_g"] - tenants[name]["energy_j"] / 3.6e6 * 360) < 1e-9
                assert tenants[name]["output_tokens"] == 120 * count
            assert len(said["recent"]) == 4
            assert said["meters"] == "emulated" and said["cost_usd"] is None, "no price was stated: unknown, not 0"
            assert abs(sum(i["energy_j"] for i in said["instances"].values()) - energy["total"]) < 1e-6
            assert all("requests" not in i and "carbon_g" in i for i in said["instances"].values()), said["instances"]
            assert list(said["sites"].values())[0]["energy_j"] == energy["total"]

            # Prometheus gets the same figures.
            metrics = get(at["admin"] + "/metrics")
            for name in tenants:
                for family, key in (("energy_joules_total", "energy_j"), ("carbon_grams", "carbon_g")):
                    line = f'wattle_gateway_tenant_{family}{{model="llama-3.1-8b",tenant="{name}"}} '
                    assert abs(float(metrics.split(line)[1].split("\n")[0]) - tenants[name][key]) < 1e-9 * tenants[name][key]
            assert "\nwattle_gateway_tenant_cost_usd{" not in metrics, "no price was stated: no sample"

            clients = Requests(at["url"], "llama-3.1-8b")
            clients.send(5000, 200)
            eventually("a stream has begun", lambda: clients.begun == 1)
            gateway.send_signal(signal.SIGTERM)
            clients.settle()
            assert gateway.wait(PATIENCE_S) == 0
            decisions = decisions_of(run)
            kinds = {decision["kind"] for decision in decisions}
            assert {"admission", "route-prefill", "route-decode", "clock"} <= kinds, kinds
            times = [decision["at_ns"] for decision in decisions]
            assert times == sorted(times), "in order of time"
            rows = requests_of(run)
            assert float(rows[-1]["energy_j"]) > 5, "what was cut off at the end has used energy, too"
            assert abs(sum(float(row["energy_j"]) for row in rows[:-1]) - requests) < 1e-6 and len(rows) == 5
            assert {row["cost_usd"] for row in rows} == {""}, "no price was stated: unknown, not 0"
            page = os.path.join(folder, "page.html")
            subprocess.run([flags.wattle, "report", run, "-o", page], check=True, timeout=PATIENCE_S, capture_output=True)
            text = open(page).read()
            assert len(text) > 10_000
            assert "emulated" in text and "measured" not in text, "the GPUs are virtual"
            assert json.load(open(os.path.join(run, "run.json")))["summary"]["meters"] == "emulated"
        finally:
            node.end()


if __name__ == "__main__":
    main()
