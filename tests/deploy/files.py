"""packaging/docker and packaging/kubernetes, as far as they can be checked without Docker and without a cluster: they parse, are
consistent, and the real binary starts by their command lines with the ConfigMap's wattle.toml and answers their probes. Exit 77
(skipped) without PyYAML."""
import argparse
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request

from processes import a_node, eventually, post

try:
    import yaml
except ImportError:
    print("skipped: there is no PyYAML (python3-yaml)")
    sys.exit(77)

KINDS = {"ConfigMap": "v1", "Service": "v1", "Deployment": "apps/v1", "DaemonSet": "apps/v1", "NetworkPolicy": "networking.k8s.io/v1"}


def pods_of(manifests: list[dict]) -> dict[str, dict]:
    """Pod templates by the name of what makes them."""
    return {m["metadata"]["name"]: m["spec"]["template"] for m in manifests if m["kind"] in ("Deployment", "DaemonSet")}


def ports_of(template: dict) -> dict[str, int]:
    return {p["name"]: p["containerPort"] for c in template["spec"]["containers"] for p in c["ports"]}


def selects(selector: dict, template: dict) -> bool:
    return selector.items() <= template["metadata"]["labels"].items()


def check_manifests(manifests: list[dict]) -> None:
    pods = pods_of(manifests)
    maps = {m["metadata"]["name"] for m in manifests if m["kind"] == "ConfigMap"}
    names = [(m["kind"], m["metadata"]["name"]) for m in manifests]
    assert len(names) == len(set(names)), names
    for m in manifests:
        assert KINDS[m["kind"]] == m["apiVersion"] and m["metadata"]["namespace"] == "wattle", m["metadata"]
        if m["kind"] in ("Deployment", "DaemonSet"):
            template = m["spec"]["template"]
            assert selects(m["spec"]["selector"]["matchLabels"], template), m["metadata"]
            volumes = {v["name"]: v for v in template["spec"].get("volumes", [])}
            for volume in volumes.values():
                assert "configMap" not in volume or volume["configMap"]["name"] in maps, volume
            for container in template["spec"]["containers"]:
                mounted = [v["name"] for v in container.get("volumeMounts", [])]
                assert set(mounted) <= volumes.keys() and len(mounted) == len(set(mounted)), mounted
                for probe in (key for key in container if key.endswith("Probe")):
                    way = next(container[probe][w] for w in ("httpGet", "tcpSocket") if w in container[probe])
                    assert way["port"] in ports_of(template), (probe, way)
        if m["kind"] == "Service":
            behind = [t for t in pods.values() if selects(m["spec"]["selector"], t)]
            assert len(behind) == 1, m["metadata"]
            assert all(p["targetPort"] in ports_of(behind[0]) for p in m["spec"]["ports"]), m["spec"]
        if m["kind"] == "NetworkPolicy":
            behind = [t for t in pods.values() if selects(m["spec"]["podSelector"]["matchLabels"], t)]
            assert behind and m["spec"]["policyTypes"] == ["Ingress"], m["metadata"]
            assert all(p["port"] in ports_of(behind[0]) for rule in m["spec"]["ingress"] for p in rule["ports"]), m["spec"]
    # Every pod has a policy; admin planes and engines are not open in general, and no Service leads to an admin plane.
    policies = [m["spec"] for m in manifests if m["kind"] == "NetworkPolicy"]
    for name, template in pods.items():
        mine = [p for p in policies if selects(p["podSelector"]["matchLabels"], template)]
        assert mine, f"{name} is open to all"
        for rule in (rule for policy in mine for rule in policy["ingress"]):
            for port in (p["port"] for p in rule["ports"]):
                assert "from" in rule or (name, port) == ("wattle-gateway", "api"), (name, port)
    assert not any(p["targetPort"] == "admin" for m in manifests if m["kind"] == "Service" for p in m["spec"]["ports"])
    gateway, agent = (pods[name]["spec"]["containers"][0]["securityContext"] for name in ("wattle-gateway", "wattle-agent"))
    assert gateway["capabilities"] == {"drop": ["ALL"]} and agent["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN", "SYS_NICE"]}
    for context in (gateway, agent):
        assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] and "privileged" not in context


def check_dockerfile(root: pathlib.Path) -> None:
    text = (root / "packaging/docker/Dockerfile").read_text().replace("\\\n", "")
    lines = [line.split(None, 1) for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "WORKDIR", "RUN", "COPY", "USER", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in lines} <= known, lines
    assert [rest for word, rest in lines if word == "FROM"] == ["debian:12 AS build", "debian:12-slim"], lines
    for source in (path for word, rest in lines if word == "COPY" and "--from" not in rest for path in rest.split()[:-1]):
        assert (root / source).exists(), source
    listed = {line for line in (root / "tools/packages.txt").read_text().splitlines() if line and not line.startswith("#")}
    for packages in re.findall(r"apt-get install -y --no-install-recommends ([^&\n]*)", text):
        for package in packages.split():
            assert package.startswith("/tmp/") or package in listed, f"{package} is not in tools/packages.txt"
    makefile = (root / "Makefile").read_text()
    assert re.search(r"^deb:", makefile, re.M) and (root / "tools/install.sh").exists()
    assert json.loads(dict(lines)["ENTRYPOINT"]) == ["/usr/bin/wattle"] and json.loads(dict(lines)["CMD"])[0] == "gateway"


def status_of(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def start(node, words: list[str], config: str, *more: str) -> dict:
    """A container's command, with this test's file and folders."""
    words = [config if word == "/etc/wattle/wattle.toml" else word for word in words]
    return node.start(*words, *more)[1]


def check_commands(flags: argparse.Namespace, manifests: list[dict], compose: dict) -> None:
    config = next(m for m in manifests if m["kind"] == "ConfigMap")["data"]["wattle.toml"]
    said = tomllib.loads(config)
    pods = pods_of(manifests)
    gateway, agent = (pods[name]["spec"]["containers"][0] for name in ("wattle-gateway", "wattle-agent"))
    # The page agrees with the manifests.
    ports = ports_of(pods["wattle-gateway"])
    assert said["gateway"]["listen"].endswith(f":{ports['api']}") and said["gateway"]["admin"][0].endswith(f":{ports['admin']}")
    host_ports = {p["hostPort"] for p in agent["ports"]}
    assert all(int(n["agent"].rsplit(":", 1)[1]) in host_ports for n in said["node"]), said["node"]
    engines = {m["metadata"]["name"]: {p["port"] for p in m["spec"]["ports"]} for m in manifests if m["kind"] == "Service"}
    for worker in said["worker"]:
        for url in (worker["url"], worker["step_reports"]):
            name, port = re.fullmatch(r"\w+://([\w-]+):(\d+)", url).groups()
            assert int(port) in engines[name], url
    assert {n["name"] for n in said["node"]} == {p["spec"]["nodeName"] for p in pods.values() if "nodeName" in p["spec"]}
    with a_node(flags.wattle, 1) as (node, folder):
        engine = node.engine("colocated", 0)
        key = subprocess.run([flags.wattle, "key", "shop"], check=True, capture_output=True, text=True).stdout.splitlines()
        pathlib.Path(folder, "keys.json").write_text(f'{{"keys": [{key[3].strip()}]}}')
        pathlib.Path(folder, "admin-token").write_text("a token of some length\n")
        for old, new in (("http://vllm-0:8000", engine["url"]), ("tcp://vllm-0:5557", engine["fpm"]),
                         ("/etc/wattle-secret", folder), ("/run/wattle", folder), ("0.0.0.0:8000", "127.0.0.1:0"),
                         ("0.0.0.0:8001", "127.0.0.1:0"), ('["10.0.0.0/8"]', '["127.0.0.0/8"]')):
            assert old in config, old
            config = config.replace(old, new)
        for way, (gateway_words, agent_words) in {
                "kubernetes": (gateway["args"], [w.replace("$(NODE_NAME)", said["node"][0]["name"]).replace("0.0.0.0:9100", "127.0.0.1:0")
                                                 for w in agent["args"]]),
                "compose": (compose["services"]["gateway"]["command"], compose["services"]["agent"]["command"])}.items():
            file = os.path.join(folder, f"{way}.toml")
            pathlib.Path(file).write_text(config.replace("10.0.0.11:9100", "127.0.0.1:0"))
            at_agent = start(node, agent_words, file, "--nvml", flags.nvml, "--state", f"{folder}/locks")
            pathlib.Path(file).write_text(config.replace("10.0.0.11:9100", at_agent["admin"].removeprefix("http://")))
            at = start(node, gateway_words, file)
            # Its probes.
            for container, where in ((gateway, at["url"]), (agent, at_agent["admin"])):
                eventually(f"{container['name']} is ready ({way})", lambda: status_of(
                    where + container["readinessProbe"]["httpGet"]["path"]) == 200)
            assert status_of(at["admin"] + "/usage") == 401, "the admin plane wants its token"
            status, answer = post(at["url"] + "/v1/completions", {"model": said["fleet"]["models"][0], "prompt": "a", "max_tokens": 3},
                                  {"Authorization": f"Bearer {key[1].strip()}"})
            assert status == 200, answer
            with socket.socket(socket.AF_UNIX) as admin:
                admin.connect(at["admin_socket"].removeprefix("unix:"))
                admin.sendall(b"GET /workers HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                assert admin.recv(65536).startswith(b"HTTP/1.1 200")
            for process in node.running[1:][::-1]:
                node.stop(process)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--wattle", "--nvml", "--root"):
        parser.add_argument(name, required=True)
    flags = parser.parse_args()
    root = pathlib.Path(flags.root)
    manifests = [one for file in sorted((root / "packaging/kubernetes").glob("*.yaml")) for one in yaml.safe_load_all(file.read_text())]
    compose = yaml.safe_load((root / "packaging/docker/compose.yaml").read_text())
    check_dockerfile(root)
    check_manifests(manifests)
    check_commands(flags, manifests, compose)
    print(f"{len(manifests)} manifests")


if __name__ == "__main__":
    main()
