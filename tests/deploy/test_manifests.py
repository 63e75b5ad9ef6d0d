"""deploy/ without a container: each file against its schema or its linter, and the files against each other."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from dpproxy.config.sections import Config, load
from tests.dpproxy.serving import POLICY, ROOT

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = (DEPLOY / "compose.yaml").read_text()
CONFIG = (DEPLOY / "dpproxy.toml").read_text()
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
KUBERNETES = ("1.29", "1.37")
"""The oldest version that has all that the manifests name, and the latest whose schema is there."""
STATE, KEY = "/var/lib/dpproxy", "/var/lib/dpproxy-key"


def linted(dockerfile: str) -> str:
    """What hadolint says; nothing of a good file."""
    program = Path(sys.executable).with_name("hadolint")
    said = subprocess.run(
        [program, "--no-color", "-"], input=dockerfile, capture_output=True, text=True, check=False
    )
    assert (said.returncode == 0) == (said.stdout == ""), said.stderr
    return said.stdout


@pytest.mark.client
def test_hadolint_finds_nothing() -> None:
    assert linted(DOCKERFILE) == ""


@pytest.mark.client
@pytest.mark.parametrize(
    ("line", "wrong", "rule"),
    [
        ('CMD ["serve"]', "CMD serve", "DL3025"),
        ("ARG BASE=python:3.11-slim", "ARG BASE=python:latest\nFROM python:latest", "DL3007"),
        ("WORKDIR /etc/dpproxy", "WORKDIR etc/dpproxy", "DL3000"),
        ("EXPOSE 6432", "EXPOSE 80000", "DL3011"),
        ("USER 10001:10001", "USER root", "DL3002"),
        ("FROM ${BASE} AS build", "FRON ${BASE} AS build", ""),
    ],
)
def test_hadolint_finds_what_is_wrong(line: str, wrong: str, rule: str) -> None:
    assert line in DOCKERFILE
    said = linted(DOCKERFILE.replace(line, wrong))
    assert said
    assert rule in said


def test_the_image_has_what_it_copies() -> None:
    copied = {
        name
        for line in re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, flags=re.M)
        for name in line.split()[:-1]
    }
    sent = set(re.findall(r"^!(.+)$", (ROOT / ".dockerignore").read_text(), flags=re.M))
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rooms = {name.rstrip("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]}
    needed = {project["project"]["readme"], *project["project"]["license-files"], *rooms}
    assert needed | {"pyproject.toml", "requirements.lock"} == copied


def test_compose_reads_its_file() -> None:
    PyCompose.from_yaml(COMPOSE).validate()


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("read_only: true", "readonly: true"),
        ("read_only: true", "read_only: 7"),
        ("restart: unless-stopped", "restart: sometimes"),
        ("stop_grace_period: 7m", "stop_grace_period: seven"),
        ("      - tls.key", "      - tls.kye"),
    ],
)
def test_compose_refuses_what_is_wrong(line: str, wrong: str) -> None:
    assert line in COMPOSE
    with pytest.raises(ValueError, match=r"\w"):
        PyCompose.from_yaml(COMPOSE.replace(line, wrong)).validate()


def documents(path: Path) -> dict[str, Any]:
    """A manifest's objects by kind."""
    return {each["kind"]: each for each in yaml.safe_load_all(path.read_text())}


@pytest.fixture(scope="module")
def kubernetes() -> ModuleType:
    """The validator, which takes seconds to import: the processes that only collect the tests do without."""
    return importlib.import_module("kubernetes_validate")


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_reads_each_object(path: Path, version: str, kubernetes: ModuleType) -> None:
    found = documents(path)
    assert set(found) == {"Service", "PodDisruptionBudget", "StatefulSet"}
    for each in found.values():
        kubernetes.validate(each, version, strict=True)


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        (("spec", "template", "spec", "containers", 0, "livenesProbe"), {}),
        (("spec", "template", "spec", "securityContext", "runAsUser"), "dpproxy"),
        (("spec", "template", "spec", "containers", 0, "ports", 0, "containerPort"), None),
        (("spec", "volumeClaimTemplates", 0, "spec", "accessModes"), "ReadWriteOnce"),
        (("spec", "selector"), None),
        (("apiVersion",), "apps/v2"),
    ],
)
def test_kubernetes_refuses_what_is_wrong(
    keys: tuple[str | int, ...], wrong: object, kubernetes: ModuleType
) -> None:
    changed = deepcopy(documents(MANIFESTS[0])["StatefulSet"])
    place = changed
    for key in keys[:-1]:
        place = place[key]
    if wrong is None:
        del place[keys[-1]]
    else:
        place[keys[-1]] = wrong
    with pytest.raises((kubernetes.ValidationError, kubernetes.SchemaNotFoundError)):
        kubernetes.validate(changed, KUBERNETES[-1], strict=True)


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """deploy/dpproxy.toml, with tables."""
    file = tmp_path_factory.mktemp("config") / "dpproxy.toml"
    file.write_text(CONFIG + POLICY[POLICY.index("[tables.people]") :])
    return load(file)


def mounts(path: Path) -> Mapping[str, str]:
    """Volumes of a manifest's container, by where they are mounted."""
    (container,) = documents(path)["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    return {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_a_pod_has_no_rights_but_to_its_volumes(path: Path, config: Config) -> None:
    found = documents(path)
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    (user,) = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, flags=re.M)
    assert (str(pod["securityContext"]["runAsUser"]), str(pod["securityContext"]["runAsGroup"])) == user
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not container.get("env"), "secrets come as files"
    (labels,) = {
        tuple(one["spec"]["selector"].get("matchLabels", one["spec"]["selector"]).items())
        for one in found.values()
    }
    assert dict(labels).items() <= found["StatefulSet"]["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_key_and_mark_lie_on_a_volume_of_their_own_that_stays(path: Path) -> None:
    stays = {
        claim["metadata"]["name"] for claim in documents(path)["StatefulSet"]["spec"]["volumeClaimTemplates"]
    }
    assert mounts(path)[KEY] in stays
    assert mounts(path)[STATE] != mounts(path)[KEY]
    assert (mounts(path)[STATE] in stays) == (path.name == "one-proxy.yaml"), "the ledger is there"


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_probes_and_ports_are_the_configurations(path: Path, config: Config) -> None:
    found = documents(path)
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"postgresql": config.server.port, "console": config.server.http_address[1]}
    for name, page in (("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")):
        assert container[f"{name}Probe"]["httpGet"] == {"path": page, "port": "console", "scheme": "HTTPS"}
    assert found["Service"]["spec"]["ports"][0]["targetPort"] in ports
    assert pod["terminationGracePeriodSeconds"] > config.server.statement_timeout.total_seconds() + 30


def test_the_files_of_the_configuration_lie_where_they_are_mounted(config: Config) -> None:
    volumes = dict(re.findall(r"^      - (\S+?):(/\S+?)(?::ro)?$", COMPOSE, flags=re.M))
    assert volumes == {"./config": "/etc/dpproxy", "./data": "/data", "state": STATE, "key": KEY}
    assert set(yaml.safe_load(COMPOSE)["volumes"]) == {"state", "key"}
    assert set(re.findall(r'"(/[^"]+)"', re.findall(r"^VOLUME (.+)$", DOCKERFILE, flags=re.M)[0])) == {
        STATE,
        KEY,
    }
    inside = {
        STATE: (config.front.data_dir, config.ledger.data_dir),
        KEY: (config.privacy.key_file,),
        "/run/secrets": (config.server.tls_cert, config.server.tls_key),
        "/data": (config.backend.url.removeprefix("duckdb:///"),),
    }
    for folder, files in inside.items():
        assert {Path(file).parent for file in files} == {Path(folder)}
        assert all(folder in mounts(path) for path in MANIFESTS if folder != "/data")
    assert set(re.findall(r"^  (tls\.\w+):$", COMPOSE, flags=re.M)) == {"tls.crt", "tls.key"}
    assert re.findall(r'"127.0.0.1:(\d+):\1"', COMPOSE) == [
        str(config.server.port),
        str(config.server.http_address[1]),
    ]
