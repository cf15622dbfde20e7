"""Two processes, mock engine and agent, over the fake NVML: a lower lock slows the engine's tokens and lowers its power;
after kill -9 of the agent no lock remains; an agent that is terminated releases its locks; an engine killed with -9 leaves
an idle GPU."""
import json
import os
import signal
import time
import urllib.request

from processes import PATIENCE_S, Processes, arguments, eventually, get, metric, scratch


class Node(Processes):
    def __init__(self, wattle: str, nvml: str, folder: str):
        super().__init__(wattle, folder)
        self.nvml, self.folder = nvml, folder

    def engine(self):
        return self.start("mock-engine", "--gpus", "1", "--die-with-parent")

    def agent(self, fpm: str, mhz: int):
        return self.start("agent", "--engine", f"{fpm}=1", "--recipe", "static-max", "--set", f"frequency.clock_mhz={mhz}",
                          "--nvml", self.nvml, "--state", os.path.join(self.folder, "state"))


def stream(url: str, tokens: int) -> tuple[float, float]:
    """Streams one completion; returns its mean token gap in s and the engine's watts halfway."""
    body = {"prompt": "x" * 400, "max_tokens": tokens, "ignore_eos": True, "stream": True,
            "stream_options": {"include_usage": True}}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    times, watts, usage, done = [], 0.0, None, False
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        for line in answer:
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                done = True
                continue
            event = json.loads(line[6:])
            usage = event.get("usage", usage)
            if event["choices"] and event["choices"][0].get("text"):
                times.append(time.monotonic())
                if len(times) == tokens // 2:
                    watts = metric(url, "wattle_mock_engine_power_watts")
    assert done and len(times) == tokens and usage["completion_tokens"] == tokens, (done, len(times), usage)
    return (times[-1] - times[0]) / (tokens - 1), watts


def main() -> None:
    flags = arguments()
    with scratch() as folder:
        node = Node(flags.wattle, flags.nvml, folder)
        try:
            engine, at = node.engine()
            url = at["url"]
            clock = lambda: metric(url, "wattle_mock_engine_clock_mhz")
            assert clock() == 1410
            fast_gap, fast_watts = stream(url, 200)

            agent, admin = node.agent(at["fpm"], 600)
            eventually("the engine runs at the agent's clock", lambda: clock() == 600)
            slow_gap, slow_watts = stream(url, 200)
            print(f"1410 MHz: {fast_gap * 1e3:.2f} ms a token, {fast_watts:.1f} W; "
                  f"600 MHz: {slow_gap * 1e3:.2f} ms, {slow_watts:.1f} W")
            assert slow_gap > 1.2 * fast_gap, "a lower lock slows the tokens"
            assert slow_watts < 0.8 * fast_watts, "and lowers the watts"
            eventually("it has heard of each step", lambda: metric(admin["admin"], "wattle_agent_reports_total") >= 200)
            assert get(admin["admin"] + "/health") == "ready\n"
            joules = metric(admin["admin"], "wattle_agent_gpu_energy_joules_total")
            assert joules > 0, joules

            # Killed with -9: the guardian releases the lock and exits.
            agent.kill()
            agent.wait()
            eventually("the lock is off after kill -9", lambda: clock() == 1410)
            eventually("the guardian has gone", lambda: not os.path.exists(f"/proc/{admin['guardian_pid']}"))

            # Terminated: the agent releases the lock itself.
            agent, admin = node.agent(at["fpm"], 600)
            eventually("locked again", lambda: clock() == 600)
            agent.send_signal(signal.SIGTERM)
            assert agent.wait(PATIENCE_S) == 0
            eventually("the lock is off after SIGTERM", lambda: clock() == 1410)

            # Killed engine: its power draw ends with it.
            agent, admin = node.agent(at["fpm"], 600)
            power = lambda: metric(admin["admin"], "wattle_agent_gpu_power_watts")
            eventually("the meter has read", lambda: "\nwattle_agent_gpu_power_watts" in get(admin["admin"] + "/metrics"))
            eventually("the meter sees the engine's idle draw", lambda: power() > 52)
            engine.kill()
            engine.wait()
            eventually("a killed engine draws nothing", lambda: power() == 52)
        finally:
            node.end()


if __name__ == "__main__":
    main()
