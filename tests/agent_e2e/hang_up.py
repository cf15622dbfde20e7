"""SIGHUP (a closed terminal) ends every serving process like SIGTERM; a process started with nohup continues. A failed write,
beyond a limit of file sizes, is reported instead of ending the process by a signal."""
import os
import resource
import signal
import subprocess
import tempfile

from processes import PATIENCE_S, a_node, arguments, eventually, get

MODEL = "llama-3.1-8b"


def main() -> None:
    flags = arguments()
    with a_node(flags.wattle) as (node, folder):
        engine, at = node.start("mock-engine", "--gpus", "0")
        agent, _ = node.start("agent", "--nvml", flags.nvml, "--state", f"{folder}/locks", "--engine", f"{at['fpm']}=0")
        words = ("gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--model", MODEL, "--worker", at["url"])
        gateway, _ = node.start(*words)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited
        stays, said = node.start(*words)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        stays.send_signal(signal.SIGHUP)
        for process in (gateway, agent, engine):
            node.stop(process, signal.SIGHUP)
            assert process.returncode == 0, (process.args, process.returncode)
        get(said["admin"] + "/metrics")
        node.stop(stays)
        assert stays.returncode == 0, stays.returncode

        # The state file cannot be written.
        limited = subprocess.run([flags.wattle, "agent", "--nvml", flags.nvml, "--state", f"{folder}/other", "--engine", "tcp://127.0.0.1:1=0"],
                                 env=node.env, capture_output=True, text=True, timeout=PATIENCE_S,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
        assert limited.returncode == 3 and f"{folder}/other" in limited.stderr, limited

    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "TMPDIR": folder}
        env.pop("WATTLE_FAKE_NVML", None)
        up = subprocess.Popen([flags.wattle, "up", "--config", "azure-conv-2p2d", "--recipe", "eco-freq", "--for", "60s"], env=env,
                              stdout=subprocess.PIPE, text=True)
        assert up.stdout.readline().startswith("gateway http://"), "wattle up runs"
        eventually("it has its folder", lambda: os.listdir(folder))
        up.send_signal(signal.SIGHUP)
        up.communicate(timeout=2 * PATIENCE_S)
        assert up.returncode in (0, 1) and not os.listdir(folder), (up.returncode, os.listdir(folder))

        # Its terminal is gone: it ends, and leaves nothing behind.
        up = subprocess.Popen([flags.wattle, "up", "--config", "azure-conv-2p2d", "--recipe", "eco-freq", "--for", "60s"], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert up.stdout.readline().startswith("gateway http://"), "wattle up runs"
        up.stdout.close()
        said = up.stderr.read()
        assert up.wait(2 * PATIENCE_S) == 3 and "standard output" in said and not os.listdir(folder), (up.returncode, said)
    print("SIGHUP ends what serves as SIGTERM does, nohup's does not; wattle up leaves no folder")


if __name__ == "__main__":
    main()
