"""What is wrong with a deployment, in one line that names it; and an end without a word."""

from __future__ import annotations

import os
import random
from pathlib import Path

import duckdb
import pytest

from dpproxy.deployment.service import Service, configured
from tests.dpproxy.on_both import service_on
from tests.dpproxy.serving import POLICY, command, make, serving, within

pytestmark = pytest.mark.service


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ('tls_cert = "no.pem"\ntls_key = "no.key"', "tls_cert {0}/no.pem cannot be read"),
        ('tls_cert = "dpproxy.toml"\ntls_key = "dpproxy.toml"', "tls_cert {0}/dpproxy.toml and tls_key"),
        ('port = 6480\nhttp = "127.0.0.1:6480"', "port 6480 is analysts', and http 127.0.0.1:6480"),
    ],
)
def test_check_names_what_serve_could_not_use(server: str, said: str, tmp_path: Path) -> None:
    make(tmp_path, f"[server]\n{server}\n{POLICY}")
    status, _, errors = within("check", "-c", str(tmp_path / "dpproxy.toml"))
    assert status == 1
    assert said.format(tmp_path) in errors
    assert len(errors.strip().splitlines()) == 1


def test_a_damaged_ledger_is_told_in_a_line(tmp_path: Path) -> None:
    """And nothing is lost that was there before: a backup is put back by the command that the line names."""
    file = make(tmp_path, POLICY)
    with Service.start(configured(file), alone=True):
        pass
    chosen = random.Random(3)
    for path in (tmp_path / ".dpproxy/ledger/cluster/base").glob("*/*"):
        if path.name.isdigit() and int(path.name) >= 16384 and path.stat().st_size >= 8192:
            with path.open("r+b") as table:
                table.seek(chosen.randrange(path.stat().st_size // 8192) * 8192 + 100)
                table.write(os.urandom(4000))
    done = command("serve", "-c", str(file), "--port", "0")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1:] == [
        "dpproxy: the ledger is damaged: put a backup back by dpproxy restore"
    ]
    assert "Traceback" not in done.stderr


def test_the_end_of_a_server_is_silent(tmp_path: Path) -> None:
    make(tmp_path, f'[server]\nauth = "trust"\n{POLICY}')
    program = ["-c", "from dpproxy.cli.app import app; app()"]
    with (
        (tmp_path / "errors").open("w") as errors,
        serving(["serve", "--port", "0"], folder=tmp_path, program=program, errors=errors) as running,
    ):
        with running.connect("ann") as ann:
            ann.execute("SELECT count(*) FROM people")
        assert running.stop() == 0
    assert "leaked" not in (tmp_path / "errors").read_text()


@pytest.mark.parametrize("engine", ["duckdb", "postgres"])
def test_the_rows_of_a_public_table_without_a_column_are_counted(engine: str, tmp_path: Path) -> None:
    odd = "inet" if engine == "postgres" else "STRUCT(a INTEGER)"
    value = "'10.0.0.1'" if engine == "postgres" else "{'a': 1}"
    schema = [
        "CREATE TABLE people (id BIGINT PRIMARY KEY)",
        f"CREATE TABLE odd (a {odd})",
        f"INSERT INTO odd VALUES ({value}), ({value})",
    ]
    policy = '[backend]\nurl = "{}"\n[tables.people]\nprivacy_unit = "id"\n[tables.odd]\npublic = true\n'
    with service_on(engine, tmp_path, schema, policy) as service:
        assert service.front.rows("SELECT count(*) FROM odd", most=1) == (("2",),)


def test_another_file_in_the_place_of_the_data_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, POLICY)
    with Service.start(configured(tmp_path / "dpproxy.toml"), alone=True) as service:
        service.checked.backend.schema()
        assert "another DuckDB file" not in caplog.text
        database = tmp_path / "people.duckdb"
        with duckdb.connect(tmp_path / "copy.duckdb") as copy:
            copy.execute(f"ATTACH '{database}' AS one (READ_ONLY)")
            copy.execute("COPY FROM DATABASE one TO copy")
        (tmp_path / "copy.duckdb").replace(database)
        service.checked.backend.schema()
        assert "another DuckDB file is in the place of" in caplog.text
