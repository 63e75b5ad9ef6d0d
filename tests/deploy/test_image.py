"""The image, built and run as docs/operating.md says: `make image`."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
import yaml

from dpproxy import __version__
from tests.deploy.containers import PROJECT, Containers, containers
from tests.dpproxy.certificates import Authority
from tests.dpproxy.serving import POLICY, ROOT, make

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "operating.md").read_text()
SECTION = PAGE.partition("## In a container")[2]
BUILD, UP, USER, ASK, RELOAD, STOP = (
    line.removeprefix("$ ") for line in SECTION.partition("```console\n")[2].partition("```")[0].splitlines()
)
"""The commands of the page."""
IMAGE = "localhost/dpproxy"
PLACES = {"config": "/etc/dpproxy", "data": "/data", "tls": "/run/secrets"}
"""Where the folders beside the compose file are mounted."""
LONG = "SELECT COUNT(*) FROM generate_series(1, 10000000)"
OTHER = "SELECT COUNT(DISTINCT person_id) FROM people"


@dataclass(frozen=True)
class Deployment:
    """A container; the page's commands are sent in the folder that has `deploy` in it."""

    containers: Containers
    folder: Path
    container: str = f"{PROJECT}_dpproxy_1"

    def send(self, line: str) -> str:
        """Sends a command of the page, with podman in place of docker; gives what it prints."""
        echoed, piped, behind = line.partition(" | ")
        words = shlex.split(behind if piped else line)
        if words[:2] == ["docker", "compose"]:
            words[:2] = ["podman-compose", "-p", PROJECT]
        return self.containers.run(
            *words, entry=shlex.split(echoed)[1] if piped else "", folder=self.folder
        ).stdout

    def ask(self, query: str) -> list[psycopg.rows.TupleRow]:
        """Rows of an answer, for the page's analyst."""
        conninfo = shlex.split(ASK)[1]
        with psycopg.connect(conninfo, autocommit=True) as connection:
            return connection.execute(query.encode()).fetchall()

    def spent(self) -> str:
        """What is left to the page's analyst, and what was used."""
        return str(self.ask("SELECT * FROM dpproxy.budget"))

    def podman(self, *arguments: str, fails: bool = False) -> str:
        """What podman prints of the container, which is named last."""
        said = self.containers.run("podman", *arguments, self.container, fails=fails)
        return said.stdout + said.stderr

    def inside(self, *command: str, fails: bool = False) -> str:
        """What a command prints within the container."""
        said = self.containers.run("podman", "exec", self.container, *command, fails=fails)
        return said.stdout + said.stderr

    def status(self) -> str:
        """Whether it runs, or with which status it has ended."""
        return self.podman("inspect", "--format", "{{.State.Status}} {{.State.ExitCode}}").strip()

    def start(self) -> None:
        """Starts it again, until it is healthy."""
        self.podman("start")
        self.until_healthy()

    def until_healthy(self) -> None:
        """Until the image's own check is passed."""
        for _ in range(120):
            assert self.status().startswith("running"), self.podman("logs")
            if self.containers.good("podman", "healthcheck", "run", self.container):
                return
            time.sleep(0.5)
        raise AssertionError(self.podman("logs"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    """With the image."""
    with containers(tmp_path_factory.mktemp("containers")) as made:
        words = shlex.split(BUILD)
        assert words[:4] == ["docker", "build", "-f", "deploy/Dockerfile"]
        assert f"localhost/{words[5]}" == IMAGE
        made.build(IMAGE)
        yield made


@pytest.fixture(scope="module")
def deployment(engine: Containers, tmp_path_factory: pytest.TempPathFactory) -> Deployment:
    """Started as the page says, with the page's analyst."""
    folder = tmp_path_factory.mktemp("project")
    config, data, tls = (folder / "deploy" / name for name in PLACES)
    for place in (config, data, tls):
        place.mkdir(parents=True)
    shutil.copy(ROOT / "deploy" / "compose.yaml", folder / "deploy")
    policy = make(data)
    (data / "people.duckdb").rename(data / "database.duckdb")
    policy.unlink()
    tables = POLICY[POLICY.index("[tables.people]") :]
    (config / "dpproxy.toml").write_text((ROOT / "deploy" / "dpproxy.toml").read_text() + tables)
    pem = Authority.make(folder / "authority").sign("localhost")
    shutil.copyfile(pem.certificate, tls / "tls.crt")
    shutil.copyfile(pem.key, tls / "tls.key")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    deployment = Deployment(engine, folder)
    deployment.send(UP)
    deployment.until_healthy()
    deployment.send(USER)
    return deployment


def test_the_image_says_how_it_runs(engine: Containers) -> None:
    (image,) = json.loads(engine.run("podman", "image", "inspect", IMAGE).stdout)
    config = image["Config"]
    assert config["User"] == "10001:10001"
    assert config["StopSignal"] == "SIGTERM"
    assert set(config["Volumes"]) == {"/var/lib/dpproxy", "/var/lib/dpproxy-key"}


def test_psql_is_answered(deployment: Deployment) -> None:
    said = deployment.send(ASK)
    assert [line.split("|")[0].strip() for line in said.splitlines()[2:5]] == ["Bonn", "Jena", "Ulm"]
    assert deployment.inside("dpproxy", "--version") == f"dpproxy {__version__}\n"


def test_it_has_no_rights_but_to_its_volumes(deployment: Deployment) -> None:
    assert deployment.inside("id", "--user") == "10001\n"
    status = deployment.inside("grep", "-E", "^(CapBnd|CapEff|NoNewPrivs):", "/proc/1/status").split()
    assert status == ["CapEff:", "0" * 16, "CapBnd:", "0" * 16, "NoNewPrivs:", "1"]
    for place in ("/", "/etc/dpproxy", "/opt/dpproxy", "/data", "/run/secrets"):
        deployment.inside("touch", f"{place}/file", fails=True)
    for place in ("/var/lib/dpproxy", "/var/lib/dpproxy-key"):
        assert deployment.inside("stat", "--format=%a %U", place) == "700 dpproxy\n"
    assert deployment.inside("stat", "--format=%a %U", "/var/lib/dpproxy-key/key") == "600 dpproxy\n"


def test_a_reload_reads_the_mounted_file(deployment: Deployment) -> None:
    file = deployment.folder / "deploy" / "config" / "dpproxy.toml"
    before = file.read_text()
    file.write_text(f"{before}\n[budget]\ninformation = 200\n")
    deployment.send(RELOAD)
    assert "200" in deployment.spent()
    file.write_text(f"{before}\n[budget]\ninformation = -1\n")
    assert "information" in deployment.inside("dpproxy", "reload", fails=True)
    assert "200" in deployment.spent()
    file.write_text(before)
    deployment.send(RELOAD)


def test_stopping_answers_what_runs_and_what_was_paid_stays(deployment: Deployment) -> None:
    answer, spent = deployment.ask(OTHER), deployment.spent()
    command = [*shlex.split(ASK)[:-1], LONG, "--tuples-only"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        time.sleep(0.5)
        assert running.poll() is None
        begun = time.monotonic()
        deployment.send(STOP)
        assert time.monotonic() - begun < 60
        assert running.communicate()[0].strip() == "10000000"
    assert deployment.status() == "exited 0"
    deployment.start()
    assert (deployment.ask(OTHER), deployment.spent()) == (answer, spent)


def test_a_killed_one_starts_again_with_what_was_paid(deployment: Deployment) -> None:
    answer, spent = deployment.ask(OTHER), deployment.spent()
    deployment.podman("kill", "--signal", "KILL")
    deployment.podman("wait")
    deployment.start()
    assert (deployment.ask(OTHER), deployment.spent()) == (answer, spent)


def test_an_older_ledger_is_refused_by_the_mark_on_the_other_volume(deployment: Deployment) -> None:
    deployment.send(STOP)
    ledger = Path(
        deployment.containers.run(
            "podman", "volume", "inspect", "--format", "{{.Mountpoint}}", f"{PROJECT}_state"
        ).stdout.strip()
    )
    copy = deployment.folder / "backup"
    deployment.containers.run("cp", "--archive", str(ledger), str(copy))
    deployment.start()
    assert deployment.ask("SELECT COUNT(*) FROM visits")
    deployment.send(STOP)
    shutil.rmtree(ledger)
    deployment.containers.run("cp", "--archive", str(copy), str(ledger))
    deployment.podman("start")
    deployment.podman("wait")
    assert deployment.status() != "exited 0"
    assert "dpproxy budget accept" in deployment.podman("logs")


def test_volumes_as_a_kubelet_makes_them_do(deployment: Deployment) -> None:
    """Root's, writable by `fsGroup`; while their own mode stays, `OnRootMismatch` leaves alone what lies in them."""
    engine, places = deployment.containers, ("state", "key", "secret")
    volumes = {name: deployment.folder / "kubelet" / name for name in places}
    for volume in volumes.values():
        volume.mkdir(parents=True)
    (volumes["secret"] / "key").write_bytes(bytes(range(32)))
    mounted = [
        f"--volume={volumes['state']}:/var/lib/dpproxy",
        f"--volume={volumes['key']}:/var/lib/dpproxy-key",
    ]
    folders = " ".join(f"/{name}" for name in places)
    as_root = [f"--volume={volume}:/{name}" for name, volume in volumes.items()]
    own = f"chown -R 0:10001 {folders} && chmod 2770 {folders} && chmod 440 /secret/key"
    engine.run("podman", "run", "--rm", "--user=0", "--entrypoint=sh", *as_root, IMAGE, "-c", own)
    manifest = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "several-proxies.yaml").read_text())
    (pod,) = (each["spec"]["template"]["spec"] for each in manifest if each["kind"] == "StatefulSet")
    entry, *arguments = pod["initContainers"][0]["command"]
    limits = ("--read-only", "--cap-drop=all", f"--volume={volumes['secret']}:/secret:ro", *mounted)
    for _ in range(2):
        engine.run("podman", "run", "--rm", f"--entrypoint={entry}", *limits, IMAGE, *arguments)
    deploy = deployment.folder / "deploy"
    files = [f"--volume={deploy}/{name}:{place}:ro" for name, place in PLACES.items()]
    name = f"{PROJECT}-kubelet"
    engine.run("podman", "run", "--detach", f"--name={name}", "--tmpfs=/tmp", *limits, *files, IMAGE)
    pod_like = Deployment(engine, deployment.folder, name)
    pod_like.until_healthy()
    pod_like.podman("kill", "--signal", "KILL")
    pod_like.podman("wait")
    pod_like.start()
    shown = (
        "stat",
        "--format=%a %u:%g",
        "/var/lib/dpproxy",
        "/var/lib/dpproxy-key",
        "/var/lib/dpproxy-key/key",
    )
    assert pod_like.inside(*shown).splitlines() == ["2770 0:10001", "2770 0:10001", "600 10001:10001"]
    assert (volumes["key"] / "key").read_bytes() == bytes(range(32))
