"""A stand-in for Zeus' daemon: HTTP on a Unix domain socket in the forms, statuses and error texts of zeusd's sources (routes/gpu.rs,
routes/server.rs, error.rs of ml-energy/zeus at 0.2 and 0.5), over an NVML library. It is not zeusd: it shows that the agent speaks
what those sources take.

    python3 zeusd_stand_in.py NVML SOCKET [--form path|query] [--groups gpu-control,gpu-read] [--token T] [--gpus N] [--refuse N=CODE]
"""
import argparse
import ctypes
import http.server
import json
import os
import socketserver
import urllib.parse

# nvml-wrapper's texts for NVML's codes, and zeusd's status for them.
NVML = {2: (400, "a supplied argument was invalid"), 3: (400, "the requested operation is not available on the target device"),
        4: (403, "the current user does not have permission to perform this operation"),
        15: (500, "the target GPU has fallen off the bus or is otherwise inaccessible")}
COMMANDS = {"set_gpu_locked_clocks": ("min_clock_mhz", "max_clock_mhz"), "reset_gpu_locked_clocks": (),
            "set_power_limit": ("power_limit_mw",)}


class Nvml:
    def __init__(self, path: str):
        self.library = ctypes.CDLL(path)
        assert self.library.nvmlInit_v2() == 0
        count = ctypes.c_uint()
        assert self.library.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
        self.count = count.value

    def run(self, command: str, gpu: int, values: list[int]) -> int:
        device = ctypes.c_void_p()
        assert self.library.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(device)) == 0
        call = {"set_gpu_locked_clocks": "nvmlDeviceSetGpuLockedClocks", "reset_gpu_locked_clocks": "nvmlDeviceResetGpuLockedClocks",
                "set_power_limit": "nvmlDeviceSetPowerManagementLimit"}[command]
        return getattr(self.library, call)(device, *values)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_) -> None:
        pass

    def reply(self, status: int, body: bytes = b"", kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if body:
            self.send_header("Content-Type", kind)
        self.end_headers()
        if body:
            self.wfile.write(body)

    def allowed(self) -> bool:
        token = self.server.flags.token
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            self.reply(401, b"Authentication required.")
            return False
        return True

    def do_GET(self) -> None:
        flags = self.server.flags
        if self.path != "/discover" or flags.form == "path":
            return self.reply(404)
        if self.allowed():
            found = {"gpu_ids": list(range(flags.gpus or self.server.nvml.count)), "cpu_ids": [0], "dram_available": [True],
                     "enabled_api_groups": flags.groups.split(",")}
            self.reply(200, json.dumps(found).encode(), "application/json")

    def do_POST(self) -> None:
        flags, nvml = self.server.flags, self.server.nvml
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urllib.parse.urlsplit(self.path)
        parts = url.path.strip("/").split("/")
        if flags.form == "path":
            if len(parts) != 3 or parts[0] != "gpu" or not parts[1].isdigit() or parts[2] not in COMMANDS:
                return self.reply(404)
            gpus, command, given = [int(parts[1])], parts[2], json.loads(body)
        else:
            if len(parts) != 2 or parts[0] != "gpu" or parts[1] not in COMMANDS:
                return self.reply(404)
            command = parts[1]
            query = dict(urllib.parse.parse_qsl(url.query))
            wanted = {"gpu_ids", "block", *COMMANDS[command]}
            if set(query) != wanted:  # serde's deny_unknown_fields
                return self.reply(400, f"Query deserialize error: missing field or unknown field, expected {sorted(wanted)}".encode())
            gpus = [int(gpu) for gpu in query["gpu_ids"].split(",")]
            given = {**{name: int(query[name]) for name in COMMANDS[command]}, "block": {"true": True, "false": False}[query["block"]]}
        if not self.allowed():
            return None
        if "gpu-control" not in flags.groups.split(","):
            return self.reply(404)
        if any(gpu >= nvml.count for gpu in gpus):
            return self.reply(400, f"GPU index {max(gpus)} does not exist.".encode())
        assert isinstance(given["block"], bool)
        errors = {}
        for gpu in gpus:
            code = flags.refuse or nvml.run(command, gpu, [given[name] for name in COMMANDS[command]])
            if code:
                errors[gpu] = NVML.get(code, (500, f"unexpected NVML error {code}"))
        if not errors:
            return self.reply(200)
        status = max(status for status, _ in errors.values())
        if flags.form == "path":
            return self.reply(status, f"NVML error: {errors[gpus[0]][1]}".encode())
        self.reply(status, json.dumps({"errors": {str(gpu): f"NVML error: {text}" for gpu, (_, text) in errors.items()}}).encode(),
                   "application/json")


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("nvml")
    parser.add_argument("socket")
    parser.add_argument("--form", choices=("path", "query"), default="query")
    parser.add_argument("--groups", default="gpu-control,gpu-read,cpu-read")
    parser.add_argument("--token", default="")
    parser.add_argument("--gpus", type=int, default=0, help="say there are so many; 0: as NVML says")
    parser.add_argument("--refuse", type=int, default=0, help="NVML's code that every command fails with")
    flags = parser.parse_args()
    if os.path.exists(flags.socket):
        os.unlink(flags.socket)
    with Server(flags.socket, Handler) as server:
        server.flags, server.nvml = flags, Nvml(flags.nvml)
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
