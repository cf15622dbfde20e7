"""packaging/kubernetes on a cluster of one node: Kubernetes built from its Go modules, Debian's etcd, containerd and runc, the image that
image.py has built, with nothing but a network of their own. The page's commands are run; the pods run, serve and are killed. The engine is
a mock, GPUs are virtual (node.py), and nobody enforces NetworkPolicies. Takes some ten minutes and 3 GB of Go's caches, once. Exit 77
(skipped) without Go 1.26."""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import image
import node
from processes import eventually, metric, post
from sandbox import again_in_namespaces, host_of_its_own, need, need_tools, remove_cgroups, skip, unpack

VERSION = "37.2"  # of Kubernetes 1
GO = "1.26"
MODULES = """api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap component-base
component-helpers controller-manager cri-api cri-client cri-streaming csi-translation-lib dynamic-resource-allocation endpointslice externaljwt kms
kube-aggregator kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics mount-utils pod-security-admission streaming"""
PROGRAM = """package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	commands := map[string]func() *cobra.Command{
		"kube-apiserver":          apiserver.NewAPIServerCommand,
		"kube-controller-manager": controllers.NewControllerManagerCommand,
		"kube-proxy":              func() *cobra.Command { return proxy.NewProxyCommand() },
		"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
		"kubectl":                 cmd.NewDefaultKubectlCommand,
		"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	}
	os.Args = os.Args[1:]
	os.Exit(cli.Run(commands[os.Args[0]]()))
}
"""
PACKAGES = {"etcd-server": "usr/bin/etcd", "containernetworking-plugins": "usr/lib/cni/ptp"}


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

    def pods(self) -> dict[str, dict]:
        """By what their app is."""
        return {p["metadata"]["labels"]["app"]: p for p in json.loads(self.kubectl("-n", "wattle", "get", "pods", "-o", "json"))["items"]}

    def ready_pods(self) -> set[str]:
        return {app for app, pod in self.pods().items() for one in pod["status"].get("conditions", [])
                if (one["type"], one["status"]) == ("Ready", "True")}

    def address(self, service: str) -> str:
        return self.kubectl("-n", "wattle", "get", "services", "-o", f'jsonpath={{.items[?(@.metadata.name=="{service}")].spec.clusterIP}}')


def start(cluster: Cluster) -> None:
    folder, program = cluster.folder, cluster.program
    subprocess.run(["openssl", "genrsa", "-out", folder / "key", "2048"], check=True, capture_output=True)
    keys = ("--service-account-key-file=key", "--service-account-signing-key-file=key", "--service-account-issuer=https://here")
    cluster.start("etcd", "etcd", "--data-dir=etcd", "--listen-peer-urls=http://127.0.0.1:2380")
    cluster.start("kube-apiserver", program, "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--cert-dir=certificates",
                  "--token-auth-file=tokens.csv", "--authorization-mode=RBAC", *keys, "--bind-address=127.0.0.1",
                  f"--advertise-address={node.ADDRESS}", "--service-cluster-ip-range=10.96.0.0/16",
                  "--kubelet-preferred-address-types=InternalIP")
    eventually("the API server is ready", cluster.ready)
    cluster.start("controllers", program, "kube-controller-manager", f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false",
                  "--service-account-private-key-file=key", "--root-ca-file=certificates/apiserver.crt")
    cluster.start("scheduler", program, "kube-scheduler", f"--kubeconfig={cluster.kubeconfig}", "--leader-elect=false")


def by_the_page(root: pathlib.Path, home: pathlib.Path, cluster: Cluster) -> tuple[str, str]:
    """The client's key, and the last of the page's commands, which sends a request to a pod."""
    page = (root / "docs/deploy-containers.md").read_text()
    *commands, last = re.search(r"^## Kubernetes\n.*?^```sh\n(.*?)^```$", page, re.M | re.S)[1].splitlines()
    assert len(commands) >= 5 and " exec " in last, commands
    (cluster.folder / "bin/wattle").symlink_to(home / "wattle")
    (cluster.folder / "packaging").symlink_to(root / "packaging")
    said = subprocess.run(["wattle", "key", "shop"], env=cluster.env, check=True, capture_output=True, text=True).stdout.splitlines()
    (cluster.folder / "keys.json").write_text(f'{{"keys": [{said[3].strip()}]}}')
    subprocess.run(["bash", "-euo", "pipefail", "-c", "\n".join(commands)], cwd=cluster.folder, env=cluster.env, check=True)
    return said[1].strip(), last


def process_of(app: str) -> int:
    """The `wattle agent` or `wattle gateway` that is its container's first process."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if words[:2] == [b"/usr/bin/wattle", app.removeprefix("wattle-").encode()] and (folder / "status").read_text().split(
                    "NSpid:")[1].split("\n")[0].split()[-1] == "1":
                return int(folder.name)
    return 0


def check_manifests(root: pathlib.Path, cluster: Cluster) -> None:
    for level, apps in (("baseline", {"wattle-agent"}), ("restricted", {"wattle-agent", "vllm-0"}), ("privileged", set())):
        warned = cluster.kubectl("label", "--overwrite", "--dry-run=server", "namespace", "wattle", f"pod-security.kubernetes.io/enforce={level}")
        assert {app for app in cluster.pods() if app in warned} == apps, (level, warned)
    files = [str(root / "packaging/kubernetes" / name) for name in ("vllm.yaml", "wattle.yaml")]
    again = cluster.kubectl("apply", "-f", files[0], "-f", files[1])
    assert all(line.endswith(" unchanged") for line in again.splitlines() if "networkpolicy" not in line), again
    wrong = pathlib.Path(files[1]).read_text().replace("readinessProbe", "readinesProbe")
    assert "unknown field" in cluster.kubectl("apply", "-f", "-", given=wrong, fails=True)


def check_pods(root: pathlib.Path, home: pathlib.Path, cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", given=json.dumps(
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "nvidia"}, "handler": "nvidia"}))
    eventually("the node is there", lambda: node.NAME in cluster.kubectl("get", "nodes", "-o", "name"))
    cluster.kubectl("patch", "node", node.NAME, "--subresource=status", "-p", '{"status": {"capacity": {"nvidia.com/gpu": "1"}}}')
    key, last = by_the_page(root, home, cluster)
    eventually("all pods are ready", lambda: cluster.ready_pods() == {"wattle-gateway", "wattle-agent", "vllm-0"})
    workers = subprocess.run(["bash", "-euo", "pipefail", "-c", last], cwd=cluster.folder, env=cluster.env, check=True,
                             capture_output=True, text=True).stdout
    assert [one["status"] for one in json.loads(workers)["workers"]] == ["ready"], workers
    check_manifests(root, cluster)

    # Through the Service; and the kernel's view of the two processes.
    url = f"http://{cluster.address('wattle')}/v1/completions"
    body = {"model": "llama-3.1-8b", "prompt": "a", "max_tokens": 3}
    assert post(url, body)[0] == 401 and post(url, body, {"Authorization": f"Bearer {key}"})[0] == 200
    admin = f"http://{cluster.pods()['wattle-gateway']['status']['podIP']}:8001"
    assert post(f"{admin}/drain", {})[0] == 401, "the admin plane wants its token"
    for app, user, capabilities in (("wattle-gateway", "65534", 0), ("wattle-agent", "0", 1 << 21 | 1 << 23)):  # SYS_ADMIN, SYS_NICE
        status = image.status_of(process_of(app))
        assert status["Uid"].split()[0] == user and int(status["CapBnd"], 16) == capabilities, status
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", status

    agent = f"http://{node.ADDRESS}:9100"  # its host port
    engine = f"http://{cluster.pods()['vllm-0']['status']['podIP']}:8000"
    clock = lambda: metric(engine, "wattle_mock_engine_clock_mhz")
    eventually("the agent has locked a clock", lambda: clock() < 1410)
    killed = process_of("wattle-agent")
    os.kill(killed, signal.SIGKILL)
    eventually("the agent's container is started again", lambda: process_of("wattle-agent") not in (0, killed))
    eventually("it has taken off what its predecessor left locked", lambda: image.answers(f"{agent}/metrics") and metric(
        agent, "wattle_agent_restored_at_start_total") == 1)
    eventually("and locks a clock itself", lambda: metric(agent, "wattle_agent_applied_clock_mhz") == clock() < 1410)
    eventually("all pods are ready", lambda: len(cluster.ready_pods()) == 3)
    cluster.kubectl("-n", "wattle", "delete", "daemonset", "wattle-agent")
    eventually("an agent that is deleted leaves nothing locked", lambda: clock() == 1410)


def run(root: pathlib.Path, home: pathlib.Path) -> None:
    """In namespaces of mounts, network and processes: all of them end with this one."""
    need("ip", "link", "set", "lo", "up")
    node.prepare()
    folder = pathlib.Path("/run/cluster")
    folder.mkdir()
    cluster = Cluster(build(home), folder)
    try:
        start(cluster)
        node.Names(cluster.address).start()
        node.start(cluster, home)
        check_pods(root, home, cluster)
    except BaseException:
        print(subprocess.run("kubectl -n wattle get all,events -o wide; tail -n 5 *.log", shell=True, cwd=folder, env=cluster.env,
                             capture_output=True, text=True).stdout)
        raise
    print(f"Kubernetes 1.{VERSION} ran the pods as the page says; they served and were killed: 0 clocks left locked")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--step", choices=("images", "run"))
    flags = parser.parse_args()
    root = flags.root.resolve()
    home = root / "build/deploy"
    if flags.step:
        host_of_its_own()
        return node.images(home) if flags.step == "images" else run(root, home)
    need_tools("ip", "openssl", "iptables")
    unpack(home, image.PACKAGES | PACKAGES)
    build(home)
    own = ("--pid", "--fork", "--mount-proc", "--kill-child")
    code = again_in_namespaces(__file__, "--step", "images", more=own) or again_in_namespaces(__file__, "--step", "run", more=(*own, "--net"))
    for name in ("docker", "kubepods"):
        remove_cgroups(name)
    sys.exit(code)


if __name__ == "__main__":
    main()
