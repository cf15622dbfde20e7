"""Symbol ban: pure libraries reach no clock, thread, socket, environment, file or unseeded random number (law 1)."""
import argparse
import re
import subprocess

BANNED = [
    ("a clock", r"(clock_gettime|clock_nanosleep|gettimeofday|time|times|clock|ftime|nanosleep|usleep|sleep|localtime(_r)?|"
                r"timespec_get)|std::chrono::(_V2::)?(system|steady)_clock::now.*"),
    ("a thread", r"pthread_(create|join|detach|mutex_\w+|cond_\w+)|thrd_create|std::thread::.*|std::condition_variable.*|"
                 r"std::(this_thread|__atomic_futex).*|std::jthread.*|std::__future_base.*|fork|vfork|clone"),
    ("a socket", r"socket|socketpair|connect|bind|listen|accept4?|sendto|recvfrom|getaddrinfo|epoll_\w+|poll|select"),
    ("the environment", r"(secure_)?getenv|setenv|putenv|environ"),
    ("an unseeded random number", r"std::random_device::.*|s?rand(_r|om|om_r)?|[delmn]rand48|arc4random\w*|getrandom|"
                                  r"getentropy"),
    ("a file", r"fopen(64)?|fdopen|freopen(64)?|open(64)?|openat(64)?|creat|std::basic_(i|o)?fstream<.*|"
               r"std::basic_filebuf<.*|std::filesystem::.*"),
]
BANNED = [(what, re.compile(rf"^({pattern})$")) for what, pattern in BANNED]


def wants(nm: str, archive: str) -> list[tuple[str, str]]:
    """(object, demangled symbol) for every symbol an object of the archive needs, or holds as an inline copy."""
    out = subprocess.run([nm, "-C", archive], check=True, capture_output=True, text=True).stdout
    member, found = "?", []
    for line in out.splitlines():
        if line.endswith(":"):
            member = line[:-1]
            continue
        match = re.match(r"^[0-9a-f]*\s+([A-Za-z])\s(.+)$", line)
        if match and match.group(1) in "UwWvV":
            found.append((member, match.group(2).split("@")[0]))
    return found


def ban(symbol: str) -> str | None:
    for what, pattern in BANNED:
        if pattern.match(symbol) or pattern.match(re.sub(r"\(.*$", "", symbol)):
            return what
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nm", required=True)
    parser.add_argument("--expect-each", type=int, help="self-test: this many objects, each of them caught")
    parser.add_argument("archives", nargs="*")
    arguments = parser.parse_args()
    if not arguments.archives:
        raise SystemExit("symbol ban: no archive to look at")
    symbols = [(archive, member, symbol) for archive in arguments.archives for member, symbol in wants(arguments.nm, archive)]
    hits = [(archive, member, symbol, what) for archive, member, symbol in symbols if (what := ban(symbol))]

    if arguments.expect_each is not None:
        caught = {member for _, member, _, _ in hits}
        clean = sorted({member for _, member, _ in symbols} - caught)
        print(f"symbol ban self-test: caught {len(caught)} of {arguments.expect_each} planted objects")
        if clean:
            print("not caught: " + ", ".join(clean))
        raise SystemExit(0 if len(caught) == arguments.expect_each and not clean else 1)

    for archive, member, symbol, what in hits:
        print(f"{archive.rsplit('/', 1)[-1]}({member}): needs {symbol}: {what}. Take it as an argument instead (law 1).")
    if not hits:
        print(f"symbol ban: ok ({len(symbols)} symbols in {len(arguments.archives)} archives)")
    raise SystemExit(1 if hits else 0)


if __name__ == "__main__":
    main()
