#!/usr/bin/env python3
"""The admin plane on a Unix socket: users by the kernel's credentials are served, others refused; next to TCP with its token or
instead of it; a socket left by a killed gateway is taken over, one in use is not; the planner uses it."""
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile

from processes import check, eventually

wattle = sys.argv[1]
children = []
NOBODY = 65534
SCENARIO = """
name = "one"
llm = "llama-3.1-8b"
[workload]
synthetic = "azure-conv"
[spawn]
load_s = 0.1
warm_s = 0.1
[[fleet]]
role = "colocated"
count = 1
gpu = "a100-80g"
tensor_parallel = 1
max_load_per_s = 5
"""


def start(*arguments, **more):
    child = subprocess.Popen([wattle, *arguments], stdout=subprocess.PIPE, text=True, **more)
    children.append(child)
    line = child.stdout.readline()
    if not line:
        check(False, f"{arguments[0]} ended at once: {child.wait()}")
    return child, line


def ask(path, target, method="GET", body=None, headers=None):
    connection = http.client.HTTPConnection("localhost", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(30)
    connection.sock.connect(path)
    connection.request(method, target, body, headers or {})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def as_nobody(path, target):
    """What another user gets, or None where this one may not become it."""
    if os.geteuid() != 0:
        return None
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "an exception"
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            said = str(ask(path, target)[0])
        except PermissionError:
            said = "no connection"
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def gateway(*more, **options):
    return start("gateway", "--listen", "127.0.0.1:0", "--model", "llama-3.1-8b", "--json", *more, **options)


def main(folder):
    path = os.path.join(folder, "admin.sock")
    engine = json.loads(start("mock-engine", "--json", "--fpm", "off")[1])["url"]
    token = pathlib.Path(folder) / "token"
    token.write_text("a token of some length\n")

    # Alone: no TCP port is open for it.
    first, said = gateway("--admin", f"unix:{path}", "--worker", engine)
    at = json.loads(said)
    check(at["admin"] == at["admin_socket"] == f"unix:{path}", at)
    check(stat.S_IMODE(os.stat(path).st_mode) == 0o600, "the socket's mode")
    eventually("the engine is ready", lambda: ask(path, "/health")[0] == 200)
    check(ask(path, "/usage")[0] == 200 and "wattle_gateway_worker_up" in ask(path, "/metrics")[1], "its own user is answered")
    check(as_nobody(path, "/usage") in (None, "no connection"), "another user connects to a socket of mode 0600")
    listening = {line.split()[1] for table in ("tcp", "tcp6")
                 for line in pathlib.Path(f"/proc/{first.pid}/net/{table}").read_text().splitlines()[1:]
                 if line.split()[3] == "0A" and line.split()[9] in sockets_of(first.pid)}
    check(len(listening) == 1, f"one TCP port, the data plane's: {listening}")

    # No engine may be a file of this machine.
    status, answer = ask(path, "/workers", "POST", json.dumps({"url": f"unix:{path}"}))
    check(status == 400 and "--allow-worker" in answer, answer)

    # The path is in use, or is no socket.
    done = subprocess.run([wattle, "gateway", "--listen", "127.0.0.1:0", "--model", "m", "--admin", f"unix:{path}"],
                          capture_output=True, text=True, timeout=60)
    check(done.returncode == 3 and "somebody listens there" in done.stderr, done)
    done = subprocess.run([wattle, "gateway", "--listen", "127.0.0.1:0", "--model", "m", "--admin", f"unix:{token}"],
                          capture_output=True, text=True, timeout=60)
    check(done.returncode == 2 and "no socket" in done.stderr and token.exists(), done)
    for wrong in (("--admin", "unix:"), ("--admin", "unix:" + "x" * 200), ("--admin-socket-mode", "rw"),
                  ("--admin-socket-mode", "7777"), ("--admin-user", "no such user"), ("--admin-group", "no such group")):
        done = subprocess.run([wattle, "gateway", "--listen", "127.0.0.1:0", "--model", "m", *wrong], capture_output=True,
                              text=True, timeout=60)
        check(done.returncode == 2, (wrong, done))

    # Killed, it leaves its socket; the next one takes the path over. Stopped, it takes the file along.
    first.send_signal(signal.SIGKILL)
    first.wait()
    check(os.path.exists(path), "a killed gateway's socket")
    second, said = gateway("--admin", f"unix:{path}", "--admin", "127.0.0.1:0", "--admin-token-file", str(token), "--worker",
                           engine, "--admin-socket-mode", "0666")
    at = json.loads(said)
    eventually("the engine is ready", lambda: ask(path, "/health")[0] == 200)
    check(ask(path, "/usage")[0] == 200, "no token is asked for on the socket")
    check(as_nobody(path, "/usage") in (None, "403"), "the kernel says who it is, whatever the mode lets in")
    check(as_nobody(path, "/health") in (None, "200"), "/health is for all")
    tcp = http.client.HTTPConnection(at["admin"].removeprefix("http://"), timeout=30)
    tcp.request("GET", "/usage")
    check(tcp.getresponse().status == 401, "TCP asks for the token all the same")
    second.terminate()
    check(second.wait(30) == 0 and not os.path.exists(path), "a stopped gateway's socket is gone")

    for who in (("--admin-user", str(NOBODY)), ("--admin-group", str(NOBODY))):
        third, _ = gateway("--admin", f"unix:{path}", "--admin-socket-mode", "0666", *who)
        check(as_nobody(path, "/usage") in (None, "200"), who)
        third.terminate()
        third.wait(30)

    # The planner's calls go over it.
    gateway("--admin", f"unix:{path}")
    scenario = pathlib.Path(folder) / "one.toml"
    scenario.write_text(SCENARIO)
    start("planner", str(scenario), "--recipe", "static-max", "--gateway", f"unix:{path}", "--slot",
                       f"0=0@ipc://{folder}/fpm", "--logs", folder, "--json",
                       env=dict(os.environ, WATTLE_FAKE_NVML=os.path.join(folder, "board") + ",count=1"))
    eventually("the planner's engine serves", lambda: any(
        w["status"] == "ready" for w in json.loads(ask(path, "/workers")[1])["workers"]))
    print("admin_socket: ok")


def sockets_of(pid):
    links = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(os.readlink(fd))
        except OSError:
            continue
    return {m.group(1) for link in links if (m := re.fullmatch(r"socket:\[(\d+)\]", link))}


try:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        try:
            main(folder)
        finally:
            for child in reversed(children):
                child.terminate()
                try:
                    child.wait(20)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()
finally:
    for child in children:
        child.kill()
