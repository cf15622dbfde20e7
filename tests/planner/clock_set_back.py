"""The time of day is set back by a day under a gateway that asks carbon sources every half a second: it goes on to ask."""
import argparse
import http.server
import os
import threading

from processes import Processes, eventually, scratch
from sources import Provider, scenario_text


class Counting(Provider):
    asked = 0

    def do_GET(self) -> None:
        Counting.asked += 1
        super().do_GET()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wattle", required=True)
    parser.add_argument("--clock", required=True, help="the library that sets it")
    flags = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counting)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with scratch() as folder:
        clock, key, scenario = (os.path.join(folder, name) for name in ("clock", "key", "sources.toml"))
        node = Processes(flags.wattle, folder)
        node.env = {name: value for name, value in node.env.items() if not name.lower().endswith("_proxy")}
        node.env |= {"LD_PRELOAD": flags.clock, "SET_CLOCK": clock}
        for path, text in ((clock, "0"), (key, "right-key\n"), (scenario, scenario_text(f"http://127.0.0.1:{server.server_port}", key))):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        try:
            node.start("gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--model", "m", "--sites", scenario)
            eventually("it asks", lambda: Counting.asked >= 4)
            with open(clock + ".new", "w", encoding="utf-8") as file:
                file.write("-86400")
            os.rename(clock + ".new", clock)
            before = Counting.asked
            eventually("it goes on to ask", lambda: Counting.asked >= before + 6)
        finally:
            node.end()


if __name__ == "__main__":
    main()
