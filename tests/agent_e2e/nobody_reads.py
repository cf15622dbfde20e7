"""stderr is not read: its reader has gone, or a pipe is full. Agent and gateway drop and count lines, continue with clocks and
requests, and end by SIGTERM. Or all three streams are closed: output goes into no file or socket."""
import contextlib
import fcntl
import os
import signal
import subprocess

from processes import PATIENCE_S, Processes, a_node, answer, arguments, eventually, metric, post

MODEL = "llama-3.1-8b"


@contextlib.contextmanager
def gone():
    """A pipe whose reader is closed by the caller."""
    reader, writer = os.pipe()
    yield writer, lambda: os.close(reader)
    os.close(writer)


@contextlib.contextmanager
def full():
    """A pipe into which nothing more fits."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * size)
    fcntl.fcntl(writer, fcntl.F_SETFL, 0)
    yield writer, lambda: None
    os.close(reader)
    os.close(writer)


def agent_goes_on(node: Processes, folder: str, nvml: str, pipe, loses: bool) -> None:
    engine = node.engine("colocated", 0)
    clock = lambda: metric(engine["url"], "wattle_mock_engine_clock_mhz")
    words = ("agent", "--nvml", nvml, "--state", f"{folder}/locks", "--recipe", "static-max", "--set", "frequency.clock_mhz=1005",
             "--engine", f"{engine['fpm']}=0")
    for how in (signal.SIGTERM, signal.SIGKILL):
        with pipe() as (stderr, leave):
            agent, said = node.start(*words, log=stderr)
            eventually("its clock is locked", lambda: clock() == 1005)
            leave()
            os.kill(said["guardian_pid"], signal.SIGKILL)
            eventually("the guardian is replaced", lambda: metric(said["admin"], "wattle_agent_guardian_restarts_total") == 1)
            if loses:
                eventually("a line is lost", lambda: metric(said["admin"], "wattle_agent_log_dropped_total") >= 1)
            assert agent.poll() is None and clock() == 1005
            node.stop(agent, how)
            assert agent.returncode == (0 if how == signal.SIGTERM else -signal.SIGKILL), agent.returncode
            eventually(f"the clock is free after {how.name}", lambda: clock() == 1410)


def gateway_goes_on(node: Processes, pipe, loses: bool) -> None:
    engine = node.engine("colocated", 1)
    with pipe() as (stderr, leave):
        gateway, said = node.gateway("--model", MODEL, "--log-requests", "--worker", engine["url"], log=stderr)
        eventually("the gateway is ready", lambda: answer(said["url"] + "/health")[0] == 200)
        leave()
        for _ in range(3):
            status, _ = post(said["url"] + "/v1/completions", {"model": MODEL, "prompt": "hello", "max_tokens": 2})
            assert status == 200, status
        if loses:
            eventually("lines are lost", lambda: metric(said["admin"], "wattle_gateway_log_dropped_total") >= 3)
        node.stop(gateway)
        assert gateway.returncode == 0, gateway.returncode


def none_is_open(node: Processes, folder: str) -> None:
    socket, run = os.path.join(folder, "admin.sock"), os.path.join(folder, "run")
    gateway = subprocess.Popen(["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", node.wattle, "gateway", "--listen", "127.0.0.1:0", "--admin",
                                f"unix:{socket}", "--model", MODEL, "--journal", run], env=node.env)
    node.running.append(gateway)
    eventually("it listens", lambda: os.path.exists(socket))
    assert [os.readlink(f"/proc/{gateway.pid}/fd/{stream}") for stream in range(3)] == ["/dev/null"] * 3
    node.stop(gateway)
    assert gateway.returncode == 0, gateway.returncode


def main() -> None:
    flags = arguments()
    for pipe, loses in ((gone, True), (full, False)):  # the few lines of this test fit into memory
        with a_node(flags.wattle) as (node, folder):
            agent_goes_on(node, folder, flags.nvml, pipe, loses)
            gateway_goes_on(node, pipe, loses)
    with a_node(flags.wattle) as (node, folder):
        none_is_open(node, folder)
    print(f"agent and gateway go on, and end within {PATIENCE_S} s, whether the reader of stderr has gone or stands still")


if __name__ == "__main__":
    main()
