"""packaging/kubernetes on a control plane of Kubernetes without kubelets: API server, controllers, scheduler and kubectl, built from its Go
modules, and Debian's etcd, with nothing but a network of their own. The page's commands are run: the API server admits all, its controllers
make the pods, its scheduler gives them to nodes that exist on paper. No container is started. Takes some ten minutes and 2 GB of Go's
caches, once. Exit 77 (skipped) without Go 1.26."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from processes import eventually, scratch
from sandbox import again_in_namespaces, need, need_tools, skip

VERSION = "37.2"  # of Kubernetes 1
GO = "1.26"
MODULES = """api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap component-base
component-helpers controller-manager cri-api cri-client csi-translation-lib dynamic-resource-allocation endpointslice externaljwt kms
kube-aggregator kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics mount-utils pod-security-admission"""
PROGRAM = """package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubectl":                 cmd.NewDefaultKubectlCommand,
	}
	os.Args = os.Args[1:]
	os.Exit(cli.Run(commands[os.Args[0]]()))
}
"""
# What a cluster has before the page begins. Nobody stands behind the nodes; they are not tainted as not ready for that.
CLUSTER = [
    {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"},
    *({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
       "spec": {"taints": taints}}
      for name, labels, taints in (
          ("gpu-node-1", {"nvidia.com/gpu.present": "true"}, [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]),
          ("node-2", {}, [])))]
CONTROLLERS = "deployment-controller,replicaset-controller,daemonset-controller,serviceaccount-controller,namespace-controller"


def build(home: pathlib.Path) -> pathlib.Path:
    """One program that is each of Kubernetes', by its first word."""
    program = home / f"kubernetes-1.{VERSION}"
    if program.exists():
        return program
    said = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True).stdout if shutil.which("go") else ""
    found = re.match(r"go(\d+)\.(\d+)", said)
    if not found or tuple(map(int, found.groups())) < tuple(map(int, GO.split("."))):
        skip(f"there is no Go {GO}")
    shutil.rmtree(home / "go", ignore_errors=True)
    (home / "go").mkdir(parents=True)
    (home / "go/main.go").write_text(PROGRAM)
    replaced = "".join(f"\tk8s.io/{name} => k8s.io/{name} v0.{VERSION}\n" for name in MODULES.split())
    (home / "go/go.mod").write_text(f"module wattle/cluster\ngo {GO}.0\nrequire k8s.io/kubernetes v1.{VERSION}\nreplace (\n{replaced})\n")
    env = dict(os.environ, GOTOOLCHAIN="local")
    for words in (["go", "mod", "tidy"],
                  ["go", "build", "-ldflags", f"-s -w -X k8s.io/component-base/version.gitVersion=v1.{VERSION}", "-o", program]):
        subprocess.run(words, cwd=home / "go", env=env, check=True)
    return program


def etcd(home: pathlib.Path) -> str:
    """Debian's, unpacked beside the build: installing it would start a service."""
    if not (home / "usr/bin/etcd").exists():
        need("sh", "-c", f"cd {home} && apt-get download etcd-server && dpkg -x etcd-server_*.deb .")
    return str(home / "usr/bin/etcd")


class Cluster:
    def __init__(self, program: pathlib.Path, folder: pathlib.Path):
        self.program = program
        self.folder = folder
        self.running: list[subprocess.Popen] = []
        (folder / "tokens.csv").write_text("of-this-test,admin,admin,system:masters\n")
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "it", "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": "https://127.0.0.1:6443", "insecure-skip-tls-verify": True}}],
            "users": [{"name": "it", "user": {"token": "of-this-test"}}]}))
        kubectl = folder / "bin/kubectl"
        kubectl.parent.mkdir()
        kubectl.write_text(f'#!/bin/sh\nexec {program} kubectl "$@"\n')
        kubectl.chmod(0o755)
        self.env = dict(os.environ, KUBECONFIG=str(self.kubeconfig), PATH=f"{folder}/bin:{os.environ['PATH']}", HOME=str(folder))

    def start(self, name: str, *words: str) -> None:
        with open(self.folder / f"{name}.log", "w") as log:
            self.running.append(subprocess.Popen(words, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT))

    def kubectl(self, *words: str, given: str = "", fails: bool = False) -> str:
        done = subprocess.run(["kubectl", *words], env=self.env, input=given, capture_output=True, text=True)
        assert (done.returncode != 0) == fails, (words, done)
        return done.stderr if fails or "--dry-run=server" in words else done.stdout

    def ready(self) -> bool:
        return subprocess.run(["kubectl", "get", "--raw", "/readyz"], env=self.env, capture_output=True).returncode == 0

    def pods(self) -> dict[str, str]:
        """The node of each pod, by what its app is; empty: none yet."""
        pods = json.loads(self.kubectl("-n", "wattle", "get", "pods", "-o", "json"))["items"]
        assert len({p["metadata"]["labels"]["app"] for p in pods}) == len(pods), pods
        return {p["metadata"]["labels"]["app"]: p["spec"].get("nodeName", "") for p in pods}


@contextlib.contextmanager
def a_cluster(program: pathlib.Path, etcd_program: str, folder: pathlib.Path):
    cluster = Cluster(program, folder)
    subprocess.run(["openssl", "genrsa", "-out", folder / "key", "2048"], check=True, capture_output=True)
    keys = ("--service-account-key-file=key", "--service-account-signing-key-file=key", "--service-account-issuer=https://here")
    try:
        cluster.start("etcd", etcd_program, "--data-dir=etcd", "--listen-peer-urls=http://127.0.0.1:2380")
        cluster.start("kube-apiserver", program, "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--cert-dir=certificates",
                      "--token-auth-file=tokens.csv", "--authorization-mode=RBAC", *keys, "--bind-address=127.0.0.1",
                      "--advertise-address=192.0.2.1",  # loopback is refused; nobody asks there
                      "--service-cluster-ip-range=10.96.0.0/16")
        eventually("the API server is ready", cluster.ready)
        cluster.start("controllers", program, "kube-controller-manager", f"--kubeconfig={cluster.kubeconfig}", f"--controllers={CONTROLLERS}",
                      "--leader-elect=false", "--service-account-private-key-file=key")
        cluster.start("scheduler", program, "kube-scheduler", f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false")
        yield cluster
    finally:
        for process in cluster.running[::-1]:
            process.kill()
            process.wait()


def by_the_page(root: pathlib.Path, cluster: Cluster) -> None:
    page = (root / "docs/deploy-containers.md").read_text()
    block = re.search(r"^## Kubernetes\n.*?^```sh\n(.*?)^```$", page, re.M | re.S)[1]
    commands = [line for line in block.splitlines() if " exec " not in line]  # there is no container
    assert [line.split()[0] for line in commands].count("kubectl") >= 4, commands
    wattle = cluster.folder / "bin/wattle"
    wattle.write_text("#!/bin/sh\n")  # its key goes into a file by hand
    wattle.chmod(0o755)
    (cluster.folder / "keys.json").write_text('{"keys": []}\n')
    (cluster.folder / "packaging").symlink_to(root / "packaging")
    subprocess.run(["bash", "-euo", "pipefail", "-c", "\n".join(commands)], cwd=cluster.folder, env=cluster.env, check=True)


def check(root: pathlib.Path, cluster: Cluster) -> None:
    for one in CLUSTER:
        cluster.kubectl("apply", "-f", "-", given=json.dumps(one))
    for node in (one for one in CLUSTER if one["kind"] == "Node"):
        cluster.kubectl("patch", "node", node["metadata"]["name"], "-p", json.dumps({"spec": {"taints": node["spec"]["taints"] or None}}))
        cluster.kubectl("patch", "node", node["metadata"]["name"], "--subresource=status", "-p", json.dumps({"status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "20"}, "capacity": {"cpu": "8", "memory": "32Gi", "pods": "20"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "Said", "message": "by this test"}]}}))
    by_the_page(root, cluster)
    expected = {"wattle-gateway": "node-2", "wattle-agent": "gpu-node-1", "vllm-0": "gpu-node-1"}
    eventually("every pod has its node", lambda: cluster.pods() == expected)
    files = [str(root / "packaging/kubernetes" / name) for name in ("vllm.yaml", "wattle.yaml")]
    for level, apps in (("baseline", {"wattle-agent"}), ("restricted", {"wattle-agent", "vllm-0"}), ("privileged", set())):
        warned = cluster.kubectl("label", "--overwrite", "--dry-run=server", "namespace", "wattle", f"pod-security.kubernetes.io/enforce={level}")
        assert {app for app in expected if app in warned} == apps, (level, warned)
    again = cluster.kubectl("apply", "-f", files[0], "-f", files[1])
    assert all(line.endswith(" unchanged") for line in again.splitlines() if "networkpolicy" not in line), again
    wrong = pathlib.Path(files[1]).read_text().replace("readinessProbe", "readinesProbe")
    assert "unknown field" in cluster.kubectl("apply", "-f", "-", given=wrong, fails=True)


def run(root: pathlib.Path, home: pathlib.Path) -> None:
    """In a network namespace."""
    need("ip", "link", "set", "lo", "up")
    with scratch() as folder, a_cluster(build(home), etcd(home), pathlib.Path(folder)) as cluster:
        try:
            check(root, cluster)
        except BaseException:
            print(subprocess.run("kubectl -n wattle get all,events -o wide; tail -n 5 *.log", shell=True, cwd=folder, env=cluster.env,
                                 capture_output=True, text=True).stdout)
            raise
    print(f"Kubernetes 1.{VERSION} takes the page's commands, makes the pods and gives them nodes")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--inside", action="store_true")
    flags = parser.parse_args()
    root = flags.root.resolve()
    home = root / "build/cluster"
    if flags.inside:
        return run(root, home)
    need_tools("ip", "openssl")
    home.mkdir(parents=True, exist_ok=True)
    build(home)
    etcd(home)
    sys.exit(again_in_namespaces(__file__, "--inside", more=("--net",)))


if __name__ == "__main__":
    main()
