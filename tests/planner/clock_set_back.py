"""A gateway that queries carbon sources every half a second starts with the time of day a day late: requests are of unknown
carbon. After the clock is corrected, the ledger uses the source within a second or two. Then the clock is set back by a day:
queries continue."""
import argparse
import http.server
import json
import os
import threading

from processes import Processes, eventually, get, metric, scratch
from sources import Provider, scenario_text


class Counting(Provider):
    asked = 0

    def do_GET(self) -> None:
        Counting.asked += 1
        super().do_GET()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--nvml", required=True)
    parser.add_argument("--clock", required=True, help="the library that sets it")
    flags = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with scratch() as folder:
        clock, key, scenario = (os.path.join(folder, name) for name in ("clock", "key", "sources.toml"))
        node = Processes(flags.wattle, folder)
        node.env = {name: value for name, value in node.env.items() if not name.lower().endswith("_proxy")}
        for path, text in ((key, "right-key\n"), (scenario, scenario_text(f"http://127.0.0.1:{server.server_port}", key))):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

        def set_clock(seconds: int) -> None:
            with open(clock + ".new", "w", encoding="utf-8") as file:
                file.write(str(seconds))
            os.rename(clock + ".new", clock)

        try:
            engine = node.engine("colocated", 0)
            _, agent = node.start("agent", "--engine", f"{engine['fpm']}=0", "--recipe", "static-max", "--nvml", flags.nvml,
                                  "--state", os.path.join(folder, "locks"))
            node.env |= {"LD_PRELOAD": flags.clock, "SET_CLOCK": clock}
            set_clock(-86400)
            _, gateway = node.gateway("--model", "m", "--sites", scenario, "--agent", agent["admin"], "--recipe", "static-max",
                                      "--worker", f"{engine['url']},fpm={engine['fpm']},site=north")
            unknown = lambda: metric(gateway["admin"], "wattle_gateway_energy_of_unknown_carbon_joules_total")
            north = lambda: json.loads(get(gateway["admin"] + "/usage"))["sites"]["north"]
            eventually("it asks", lambda: Counting.asked >= 4)
            before = unknown()
            eventually("what sources say is of tomorrow", lambda: unknown() > before)
            set_clock(0)

            def is_known() -> bool:
                so_far = unknown(), north()["energy_j"]
                eventually("energy is drawn", lambda: north()["energy_j"] > so_far[1])
                return unknown() == so_far[0]

            eventually("its books are of the present", is_known)
            set_clock(-86400)
            before = Counting.asked
            eventually("it goes on to ask", lambda: Counting.asked >= before + 6)
        finally:
            node.end()


if __name__ == "__main__":
    main()
