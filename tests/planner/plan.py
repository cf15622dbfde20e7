"""The whole plan contract over real processes: a class's requests go to its pool by weight; a pool's clock range is obeyed by
the GPUs; an instance moves to another node; a planner that is killed leaves pools and weights as they are, its clock
ranges end with their lease, and the next one takes all of it up. Every request is answered; bad messages get a clear 4xx
and change nothing."""
import json
import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

from planner import Clients, free_endpoint
from processes import NESTED, PATIENCE_S, Processes, arguments, eventually, get, metric, post, scratch

MODEL = "llama-3.1-8b"
SHORT, LONG = 20, 500  # prompt tokens on both sides of the border
SCENARIO = f"""
name = "two-classes"
llm = "{MODEL}"
[workload]
synthetic = "azure-conv"
[classes]
prompt_below = [100]
[spawn]
load_s = 0.3
warm_s = 0.1
[[fleet]]
role = "colocated"
count = 1
gpu = "a100-80g"
tensor_parallel = 1
max_load_per_s = 5
"""


def put(url: str, body: dict | bytes) -> tuple[int, dict]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def check_bad_messages(gateway: str, agent: str, planner: str, engine: str) -> None:
    before = json.loads(get(gateway + "/plan"))
    lease = {"lease_ms": 1000}
    for body, param in ((b"[", ""), ({"weights": []}, "clocks"), ({"clocks": [], **lease}, "weights"),
                        ({"weights": [{"class": 2, "pool": 0, "weight": 1}], "clocks": []}, "weights"),
                        ({"weights": [], "clocks": [{"pool": 0, "least_mhz": 900, "most_mhz": 210}], **lease}, "clocks"),
                        ({"weights": [], "clocks": [{"pool": 0, "least_mhz": 210, "most_mhz": 900}]}, "lease_ms")):
        status, answer = put(gateway + "/plan", body)
        assert status == 400 and answer["error"]["param"] in (param, None), (body, status, answer)
        assert answer["error"]["message"], answer
    after = json.loads(get(gateway + "/plan"))
    assert (before["weights"], before["clocks"]) == (after["weights"], after["clocks"]), "a refused message changes nothing"
    bounded = {"engine": engine, "pool": 0, "least_mhz": 210, "most_mhz": 300}
    nested = b'{"lease_ms": 1000, "engines": [{"engine": "%s", "pool": 0, "objectives": ' + NESTED + b"}]}"
    for status, body in ((400, b"["), (400, nested % engine.encode()), (400, {"engines": []}), (400, {**lease, "engines": [{"engine": engine}]}),
                         (400, {**lease, "engines": [{**bounded, "least_mhz": 400}]}),
                         (400, {**lease, "engines": [{**bounded, "most_mhz": "400"}]}),
                         (400, {"lease_ms": 10**9, "engines": [bounded]}),
                         (400, {**lease, "engines": [{**bounded, "objectives": {"tbt_ms": -1}}]}),
                         (400, {**lease, "engines": [{**bounded, "objectives": {"tbt": 40}}]}),
                         (400, {**lease, "engines": [{**bounded, "objectives": 40}]}),
                         (404, {**lease, "engines": [bounded, {**bounded, "engine": "tcp://nobody:1"}]})):
        answered, answer = post(agent + "/plan", body)
        assert answered == status and answer["error"]["message"], (body[:99] if isinstance(body, bytes) else body, answered, answer)
    assert post(planner + "/plan", b'{"instances": ' + NESTED + b"}")[0] == 400


def main() -> None:
    flags = arguments()
    with scratch() as folder:
        node = Processes(flags.wattle, folder, gpus=4)
        state = os.path.join(folder, "state")
        os.mkdir(state)
        scenario = os.path.join(folder, "two-classes.toml")
        with open(scenario, "w", encoding="utf-8") as file:
            file.write(SCENARIO)
        pids: set[int] = set()
        try:
            fpm = [free_endpoint(folder) for _ in range(4)]
            _, agent = node.start("agent", *[word for g in range(4) for word in ("--engine", f"{fpm[g]}={g}")], "--recipe",
                                  "static-max", "--gpu", "a100-80g", "--llm", MODEL, "--nvml", flags.nvml, "--state",
                                  os.path.join(folder, "locks"))
            _, gateway = node.gateway("--model", MODEL, "--scenario", scenario, "--agent", agent["admin"])
            url, admin = gateway["url"], gateway["admin"]
            slots = [word for g in range(4) for word in ("--slot", f"0={g}@{fpm[g]},node={g // 2}")]

            def planner(lease_s: float) -> tuple[subprocess.Popen, str]:
                process, at = node.start("planner", scenario, "--recipe", "static-max", "--gateway", admin, *slots, "--set",
                                         "scaling.period_s=0.3", "--logs", folder, "--state", state, "--clock-lease-s",
                                         str(lease_s))
                return process, at["admin"]

            process, at = planner(3600)

            def fleet() -> list:
                """(node, pool, phase), with what runs."""
                engines = json.loads(get(at + "/fleet"))["engines"]
                pids.update(e["pid"] for e in engines if e["pid"] > 0)
                return sorted((e["node"], e["pool"], e["phase"]) for e in engines)

            def engine_in(pool: int) -> dict:
                return next(e for e in json.loads(get(at + "/fleet"))["engines"] if e["pool"] == pool)

            def give(plan: dict) -> None:
                status, answer = post(at + "/plan", plan)
                assert status == 202, answer

            def of(gpu: int) -> dict:
                return json.loads(get(agent["admin"] + "/engines"))["engines"][gpu]

            clients = Clients(url, MODEL)
            over = threading.Event()

            def load() -> None:
                while not over.is_set():
                    clients.send(10, SHORT)
                    clients.send(10, LONG)
                    time.sleep(0.15)

            sender = threading.Thread(target=load)
            sender.start()
            try:
                assert fleet() == [(0, 0, "serving")], fleet()
                two = {"instances": [{"shape": 0, "count": 1, "pool": 0, "node": 0},
                                     {"shape": 0, "count": 1, "pool": 1, "node": 1}],
                       "weights": [{"class": 0, "pool": 0, "weight": 1}, {"class": 1, "pool": 1, "weight": 1}],
                       "clocks": [{"pool": 1, "least_mhz": 210, "most_mhz": 900}]}
                give(two)
                eventually("each class has its pool", lambda: fleet() == [(0, 0, "serving"), (1, 1, "serving")])
                eventually("the gateway has the weights", lambda: len(json.loads(get(admin + "/plan"))["weights"]) == 2)
                seen = {(w["pool"], w["node"]) for w in json.loads(get(admin + "/workers"))["workers"]}
                assert seen == {(0, 0), (1, 1)}, seen
                # Those of pool 1 have had no short prompt, nor will those of pool 0 have a long one from now on.
                def tokens(pool: int) -> list[float]:
                    """Work of one request: of its prompt, and the number of prompts; of one answer, as more may arrive at any time."""
                    text = get(engine_in(pool)["url"] + "/metrics")
                    return [next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                                 if line.startswith(f"vllm:request_prompt_tokens_{what}")) for what in ("sum", "count")]

                for thread in list(clients.threads):
                    thread.join()  # earlier requests have been counted
                small = tokens(0)
                eventually("both are at work", lambda: tokens(0)[1] > small[1] + 5 and tokens(1)[1] > 5)
                now = tokens(0)
                assert (now[0] - small[0]) / (now[1] - small[1]) == SHORT, (small, now)
                large = tokens(1)
                assert large[0] / large[1] == LONG, large

                eventually("the range is obeyed", lambda: of(2)["clock_mhz"] == 900)
                assert of(2)["pool"] == 1 and of(2)["most_mhz"] == 900 and of(0)["clock_mhz"] == 1410, (of(0), of(2))
                assert metric(engine_in(1)["url"], "wattle_mock_engine_clock_mhz") == 900, "so the virtual GPU says"
                check_bad_messages(admin, agent["admin"], at, fpm[0])

                moved = engine_in(1)
                give({**two, "instances": [{"shape": 0, "count": 1, "pool": 0, "node": 0},
                                           {"shape": 0, "count": 1, "pool": 1, "node": 0}],
                      "steps": [{"kind": "move", "from": [moved["engine"]], "node": 0}]})
                eventually("it has moved to the other node", lambda: fleet() == [(0, 0, "serving"), (0, 1, "serving")])
                assert engine_in(1)["pid"] != moved["pid"] and engine_in(1)["gpus"] == ["1"], engine_in(1)
                eventually("its clock range is with it", lambda: of(1)["clock_mhz"] == 900 and "most_mhz" not in of(2))

                # The lease is an hour: nothing changes.
                serving = {e["pid"] for e in json.loads(get(at + "/fleet"))["engines"]}
                node.stop(process, signal.SIGKILL)
                answered = len(clients.answers)
                eventually("requests are answered while no planner lives", lambda: len(clients.answers) > answered + 10)
                assert of(1)["clock_mhz"] == 900 and len(json.loads(get(admin + "/plan"))["weights"]) == 2
                process, at = planner(1)
                assert fleet() == [(0, 0, "serving"), (0, 1, "serving")], fleet()
                assert {e["pid"] for e in json.loads(get(at + "/fleet"))["engines"]} == serving, "pools intact"
                # Its lease is a second, and renewed as long as it runs.
                eventually("it says so itself", lambda: json.loads(get(admin + "/plan"))["lease_left_ms"] <= 1000)
                time.sleep(1.5)
                assert of(1)["clock_mhz"] == 900, "renewed"
                node.stop(process, signal.SIGKILL)
                eventually("the range has ended", lambda: of(1)["clock_mhz"] == 1410)
                said = json.loads(get(admin + "/plan"))
                assert said["clocks"] == [] and len(said["weights"]) == 2, "weights have no end"
                process, at = planner(60)
                eventually("the next planner sets it again", lambda: of(1)["clock_mhz"] == 900)
                assert fleet() == [(0, 0, "serving"), (0, 1, "serving")], fleet()
            finally:
                over.set()
                sender.join()
            assert clients.count(200) == clients.sent, clients.answers
            # Requests that turn out to be of another class are reported to the planner: here the class follows from prompts alone.
            turned_out = json.loads(get(admin + "/plan"))["turned_out"]
            assert [sum(row) for row in turned_out] == [row[i] for i, row in enumerate(turned_out)], turned_out
            assert sum(map(sum, turned_out)) == clients.sent, (turned_out, clients.sent)
            node.stop(process)
        finally:
            node.end(pids)


if __name__ == "__main__":
    main()
