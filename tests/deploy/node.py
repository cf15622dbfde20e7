"""One node of a cluster that really runs pods: containerd, kubelet and kube-proxy, in namespaces of their own."""
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import threading

from image import ask, docker, nvidia_runtime
from processes import eventually
from sandbox import need

NAME, ADDRESS = "gpu-node-1", "10.0.0.11"  # as in the ConfigMap
DNS = "10.96.0.10"
# Settings that the kubelet would change for the whole machine; the test shows that they are as it wants them.
SYSCTLS = {"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
           "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000"}
# Takes vLLM's place by its command line.
VLLM = r"""#!/bin/sh
set -e
while [ $# -gt 0 ]; do
  case "$1" in
    --model) ;;
    --served-model-name) name=$2 ;;
    --port) port=$2 ;;
    --scheduler-cls) [ "$2" = wattle_vllm.scheduler.StepReports ] ;;
    --additional-config) reports=$(printf %s "$2" | sed -n 's/^{"wattle": {"step_reports": "\(.*\)"}}$/\1/p'); [ -n "$reports" ] ;;
    *) echo "vllm has no $1" >&2; exit 2 ;;
  esac
  shift 2
done
exec wattle mock-engine --dialect vllm --listen "0.0.0.0:$port" --model "$name" --gpus 0 --fpm "$reports" --step-reports start
"""
CONTAINERD = """version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:latest"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]
  runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
    BinaryName = "{nvidia}"
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{home}/usr/lib/cni"
  conf_dir = "{folder}/cni"
"""
NETWORK = {"cniVersion": "0.4.0", "name": "pods", "plugins": [
    {"type": "ptp", "ipMasq": True, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]],
                                             "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": True}}]}
KUBELET = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "cgroupfs", "failCgroupV1": False,
           "failSwapOn": False, "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
           "authorization": {"mode": "AlwaysAllow"}, "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
           "clusterDNS": [DNS], "clusterDomain": "cluster.local", "imageGCHighThresholdPercent": 100,
           "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%"}}
PROXY = {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables", "hostnameOverride": NAME,
         "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}}


def images(home: pathlib.Path) -> None:
    """As one archive: the image, and with it one that takes vLLM's place, and one that does nothing, for pods to begin with."""
    with docker(home), tempfile.TemporaryDirectory() as context:
        pathlib.Path(context, "vllm").write_text(VLLM)
        for name, entrypoint in (("vllm-wattle", '"sh", "/vllm"'), ("pause", '"sleep", "infinity"')):
            pathlib.Path(context, "Dockerfile").write_text(f"FROM wattle\nUSER 0\nCOPY vllm /\nENTRYPOINT [{entrypoint}]\nCMD []\n")
            ask("build", "--tag", name, context)
        ask("save", "--output", str(home / "images.tar"), "wattle", "vllm-wattle", "pause")


class Names(threading.Thread):
    """A cluster's DNS for the services of one namespace."""

    def __init__(self, addresses):
        super().__init__(daemon=True)
        self.addresses = addresses  # of a service by its name; empty: there is none
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((DNS, 53))

    def run(self) -> None:
        while True:
            question, who = self.socket.recvfrom(512)
            end = question.index(b"\0", 12)
            kind = struct.unpack("!H", question[end + 1:end + 3])[0]
            name = re.fullmatch(rb"(.)([^\0]*)\x06wattle\x03svc\x07cluster\x05local", question[12:end], re.S)
            address = self.addresses(name[2].decode()) if name else ""
            answer = b""
            if address and kind == 1:
                answer = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 5, 4) + socket.inet_aton(address)
            header = question[:2] + struct.pack("!HHHHH", 0x8580 if address else 0x8583, 1, 1 if answer else 0, 0, 0)
            self.socket.sendto(header + question[12:end + 5] + answer, who)


def prepare() -> None:
    """In namespaces of mounts, network and processes."""
    for address in (ADDRESS, DNS):
        need("ip", "address", "add", f"{address}/32", "dev", "lo")
    need("ip", "route", "add", "10.96.0.0/16", "dev", "lo", "src", ADDRESS)  # until kube-proxy sends them elsewhere
    os.mkdir("/run/sysctls")
    for name, value in SYSCTLS.items():
        file = pathlib.Path("/run/sysctls", name.replace("/", "."))
        file.write_text(value + "\n")
        need("mount", "--bind", str(file), f"/proc/sys/{name}")
    need("mount", "--make-rshared", "/")


def start(cluster, home: pathlib.Path) -> None:
    """`cluster` has an API server."""
    folder = home / "node"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "cni").mkdir(parents=True)
    (folder / "containerd.toml").write_text(CONTAINERD.format(folder=folder, home=home, nvidia=nvidia_runtime(home)))
    (folder / "cni/pods.conflist").write_text(json.dumps(NETWORK))
    (folder / "kubelet.json").write_text(json.dumps(KUBELET | {"podLogsDir": f"{folder}/pods"}))
    (folder / "proxy.json").write_text(json.dumps(PROXY | {"clientConnection": {"kubeconfig": str(cluster.kubeconfig)}}))
    cluster.start("containerd", "containerd", "--config", str(folder / "containerd.toml"))
    eventually("containerd answers", lambda: subprocess.run(["ctr", "version"], capture_output=True).returncode == 0)
    subprocess.run(["ctr", "--namespace", "k8s.io", "images", "import", home / "images.tar"], check=True, stdout=subprocess.DEVNULL)
    cluster.start("kubelet", cluster.program, "kubelet", f"--config={folder}/kubelet.json", f"--kubeconfig={cluster.kubeconfig}",
                  f"--hostname-override={NAME}", f"--node-ip={ADDRESS}", "--node-labels=nvidia.com/gpu.present=true",
                  f"--root-dir={folder}/kubelet", f"--cert-dir={folder}/kubelet-certificates")
    cluster.start("proxy", cluster.program, "kube-proxy", f"--config={folder}/proxy.json")
