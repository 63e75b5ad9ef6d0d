"""Analysts log in by psql and psycopg with the tokens of a real OpenID provider, which changes its key meanwhile."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import psycopg
import pytest

from dpproxy.server.issuer import BRAKE_SECONDS
from tests.dpproxy.serving import COUNT, POLICY, make, serving, within
from tests.identity.asking import asked_by_psql
from tests.identity.oidc import NODE, id_token, provider

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (NODE / "node_modules").exists(), reason="make identity installs oidc-provider"),
]
SECTION = """
[budget.dataset]
information = 3000
calls = 300
[budget.teams.research]
groups = ["research"]
[budget.teams.everybody]
groups = ["everybody"]
[identity.tokens]
groups = "groups"
analysts = ["*@example.com"]
issuer = "http://127.0.0.1:{port}"
audience = "dpproxy"
claim = "email"
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_an_analyst_logs_in(tmp_path: Path) -> None:
    port = free_port()
    make(tmp_path, POLICY + SECTION.format(port=port))
    serve = ["serve", "-c", str(tmp_path / "dpproxy.toml"), "--port", "0"]
    with serving(serve, folder=tmp_path) as served:
        with provider(port, "first") as issuer:
            token = id_token(issuer, "ann")
            with served.connect("ann@example.com", token) as connection:
                assert len(connection.execute(COUNT.encode()).fetchall()) == 3
            assert len(asked_by_psql(served.port, "ann@example.com", token).stdout.splitlines()) == 3
            refused = asked_by_psql(served.port, "bob@example.com", token)
            assert 'token authentication failed for user "bob@example.com"' in refused.stderr
        time.sleep(BRAKE_SECONDS)
        with provider(port, "second") as issuer:
            served.connect("bob@example.com", id_token(issuer, "bob")).close()
            with pytest.raises(psycopg.OperationalError, match="token authentication failed"):
                served.connect("ann@example.com", token)
        status, said, _ = within("budget", "show", "-c", str(tmp_path / "dpproxy.toml"), "--json")
    assert status == 0
    spent = {row["account"]: row["information"]["spent_so_far"] for row in json.loads(said)["accounts"]}
    assert spent["team:research"] == spent["team:everybody"] == spent["analyst:ann@example.com"] != "0"
