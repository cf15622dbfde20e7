"""An agent with an engine whose clock the gateway decides: it holds a leased clock as long as the lease is renewed, and no longer;
it refuses what it cannot do, and then changes nothing; it obeys one gateway."""
import json
import os
import time
from collections.abc import Callable

from processes import NESTED, a_node, arguments, eventually, get, metric, post


def two_gateways(admin: str, engine: str, clock: Callable[[], float]) -> None:
    """While two command an engine neither is obeyed, and its clock is the highest: they do not take turns."""
    says = lambda gateway, mhz, **more: post(
        admin + "/clocks", {"gateway": gateway, "lease_ms": 300, "clocks": [{"engine": engine, "clock_mhz": mhz}], **more})
    eventually("the first is obeyed", lambda: says("a", 900)[0] == 200 and clock() == 900)
    for _ in range(10):
        for gateway, mhz, other in (("b", 600, "a"), ("a", 900, "b")):
            status, refusal = says(gateway, mhz)
            assert status == 409 and f"({other})" in refusal["error"]["message"], refusal
        assert json.loads(get(admin + "/engines"))["engines"][0]["commanded_mhz"] == 1410
        time.sleep(0.02)
    eventually("the one that is left is obeyed", lambda: says("b", 600)[0] == 200)
    eventually("its clock is there", lambda: clock() == 600)
    assert says("x" * 129, 900)[0] == says(7, 900)[0] == 400
    eventually("its lease is over", lambda: clock() == 1410)


def main() -> None:
    flags = arguments()
    with a_node(flags.wattle) as (node, folder):
        _, engine = node.start("mock-engine", "--gpus", "0", "--die-with-parent")
        clock = lambda: metric(engine["url"], "wattle_mock_engine_clock_mhz")

        def agent(recipe: str, name: str):
            process, at = node.start("agent", "--engine", f"{engine['fpm']}=0", "--recipe", recipe, "--nvml", flags.nvml,
                                     "--state", os.path.join(folder, name))
            return process, at["admin"]

        first, admin = agent("throttllem", "leased")
        lease = lambda mhz, ms, name=engine["fpm"]: post(
            admin + "/clocks", {"lease_ms": ms, "clocks": [{"engine": name, "clock_mhz": mhz}]})
        assert clock() == 1410
        assert lease(900, 60000) == (200, {})
        eventually("the leased clock is there", lambda: clock() == 900)
        assert lease(600, 300) == (200, {})
        eventually("a newer one wins", lambda: clock() == 600)
        eventually("unrenewed it falls back to the maximum", lambda: clock() == 1410)
        assert metric(admin, "wattle_agent_clock_leases_expired_total") == 1

        for status, body in ((404, {"lease_ms": 100, "clocks": [{"engine": "tcp://nobody:1", "clock_mhz": 900}]}),
                             (400, {"lease_ms": 0, "clocks": []}), (400, {"clocks": []}), (400, b"["),
                             (400, b'{"lease_ms": 100, "clocks": [], "work": ' + NESTED + b"}"),
                             (400, {"lease_ms": 100, "clocks": [{"engine": engine["fpm"], "clock_mhz": "900"}]}),
                             (400, {"lease_ms": 10**9, "clocks": []}),
                             (400, {"lease_ms": 100, "clocks": [], "handed_over": [{"engine": "x", "age_us": 1, "wait_us": -1}]}),
                             (400, {"lease_ms": 100, "clocks": [], "finished": [{"engine": "x", "class": 0, "requests": 1, "late": 2}]}),
                             (404, {"lease_ms": 100, "clocks": [{"engine": engine["fpm"], "clock_mhz": 700},
                                                                {"engine": "x", "clock_mhz": 700}]})):
            answered, answer = post(admin + "/clocks", body)
            assert answered == status and answer["error"]["message"], (body[:99] if isinstance(body, bytes) else body, answered, answer)
        assert clock() == 1410, "a refused message changes nothing"
        two_gateways(admin, engine["fpm"], clock)
        waits = [{"engine": name, "age_us": 5000, "wait_us": 7000} for name in (engine["fpm"], "another node's")]
        assert post(admin + "/clocks", {"lease_ms": 100, "clocks": [], "handed_over": waits}) == (200, {})
        status = json.loads(get(admin + "/engines"))["engines"][0]
        assert status["leased"] and status["commanded_mhz"] == 1410 and status["energy_uj"] > 0, status
        first.terminate()
        first.wait()

        _, admin = agent("static-max", "own")
        eventually("it decides", lambda: json.loads(get(admin + "/engines"))["decisions"] != [])
        said = json.loads(get(admin + "/engines"))
        assert said["decisions"][0]["clock_mhz"] == 1410 and said["decisions"][0]["engine"] == engine["fpm"], said
        asked = lambda query: json.loads(get(f"{admin}/engines?{query}"))["decisions"]
        assert asked(f"after={said['next']}") == asked(f"after={said['next']}&of={said['started_unix_us']}") == []
        assert asked(f"after={said['next']}&of=1") == said["decisions"], "all of it, for one that has asked another agent before"
        assert lease(900, 1000)[0] == 409, "its own recipe decides"
        time.sleep(0.1)
        assert clock() == 1410
        bound = lambda gateway, most: post(admin + "/plan", {"gateway": gateway, "lease_ms": 60000, "engines": [
            {"engine": engine["fpm"], "pool": 0, "least_mhz": 210, "most_mhz": most}]})[0]
        assert bound("a", 900) == 200
        eventually("its bounds hold", lambda: clock() == 900)
        assert bound("b", 600) == 409
        eventually("neither's do", lambda: clock() == 1410)


if __name__ == "__main__":
    main()
