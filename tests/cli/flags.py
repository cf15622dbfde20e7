"""The command line itself: exit codes, what errors name, one word for outputs."""
import http.server
import pathlib
import re
import subprocess
import sys
import tempfile
import threading

WATTLE = sys.argv[1]


def run(*arguments: str, **more) -> subprocess.CompletedProcess:
    more.setdefault("stdout", subprocess.PIPE)
    return subprocess.run([WATTLE, *arguments], stderr=subprocess.PIPE, text=True, timeout=60, **more)


def check(holds: bool, what: object) -> None:
    if not holds:
        raise SystemExit(f"failed: {what}")


def version() -> None:
    done = run("--version")
    check(done.returncode == 0 and re.fullmatch(r"wattle \d+\.\d+\.\d+\n", done.stdout), done)


def unknown_flag() -> None:
    for arguments in (("sim", "--bogus"), ("replay", "--bogus", "trace.csv"), ("--bogus",), ("sim", "--bogus", "azure-conv-2p2d")):
        done = run(*arguments)
        check(done.returncode == 2 and "--bogus" in done.stderr, (arguments, done))
    done = run("sim")
    check(done.returncode == 2 and "scenario" in done.stderr, done)


def full_disk() -> None:
    for arguments in (("recipes",), ("sim", "synthetic-poisson", "--set", "workload.requests=20", "--json"), ("--version",)):
        with open("/dev/full", "w") as full:
            done = run(*arguments, stdout=full)
        check(done.returncode == 3 and "standard output" in done.stderr, (arguments, done))


def faults_of_what_is_not_there() -> None:
    """A script of faults that could never happen is refused by its line, not run without them."""
    text = (pathlib.Path(__file__).parents[2] / "scenarios" / "synthetic-poisson.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "s.toml"
        for fault, words in (("instance = 99", "there is no instance 99; the fleet has 2"), ("node = 0", "no [[node]] is stated"),
                             ("instance = 0\nnode = 0", "state one of the two"), ("instance = 0\nhang_s = 3", "unknown key fault.hang_s"),
                             ("instance = 0\ndown_s = -1", "fault.down_s is -1"), ("instance = 0.5", "fault.instance")):
            file.write_text(f"{text}\n[[fault]]\nat_s = 1\n{fault}\n", encoding="utf-8")
            done = run("sim", str(file), "--only", "--set", "workload.requests=20")
            check(done.returncode == 2 and words in done.stderr and "s.toml:" in done.stderr, (fault, done))


def outputs() -> None:
    """-o, --out: the one word for where a result goes."""
    commands = re.findall(r"^  ([a-z-]+) ", run("--help").stdout.split("ubcommands:")[1], re.M)
    check("sim" in commands and len(commands) > 12, commands)
    for command in commands:
        text = run(command, "--help").stdout
        check(not re.search(r"--(output|write|html)\b(?!-)", text), (command, text))
    done = run("validate", "--out", "page.pdf")
    check(done.returncode == 2 and "page.pdf" in done.stderr, done)


class NotFound(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


def replay_without_answers() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), NotFound)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as scratch:
        trace = pathlib.Path(scratch) / "trace.csv"
        trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" +
                         "".join(f"2023-11-16 18:15:46.{i}000000,10,5\n" for i in range(5)))
        url = f"http://127.0.0.1:{server.server_address[1]}"
        done = run("replay", str(trace), "--url", url)
        check(done.returncode == 3 and "5 x http 404" in done.stderr, done)
        check("100.0%" not in done.stdout and re.search(r"^ITL +-", done.stdout, re.M), done)
        done = run("replay", str(trace), "--url", url, "--json")
        check(done.returncode == 3 and '"itl_attainment":null' in done.stdout, done)
    server.shutdown()


for test in (version, unknown_flag, full_disk, faults_of_what_is_not_there, outputs, replay_without_answers):
    test()
print("flags: ok")
