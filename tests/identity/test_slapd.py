"""Analysts log in by psql with the passwords of a real OpenLDAP server, whose groups decide which team pays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.dpproxy.directory import slapd
from tests.dpproxy.serving import POLICY, make, serving, within
from tests.identity.asking import asked_by_psql

pytestmark = pytest.mark.slow

RESEARCH = "cn=research,ou=groups,dc=example,dc=org"
SECTION = """
[budget.dataset]
information = 3000
calls = 300
[budget.teams.research]
groups = ["{group}"]
[identity.ldap]
analysts = ["*"]
url = "ldap://localhost:{port}"
start_tls = true
ca_file = "{ca}"
base = "ou=people,dc=example,dc=org"
bind_dn = "cn=reader,dc=example,dc=org"
bind_password_file = "secret"
groups = "memberOf"
"""


def test_groups_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("reading\n")
    with slapd(tmp_path, {"ann": [RESEARCH], "bob": []}) as directory:
        section = SECTION.format(port=directory.plain, ca=directory.authority, group=RESEARCH)
        file = str(make(tmp_path, POLICY + section))
        with serving(["serve", "-c", file, "--port", "0"], folder=tmp_path) as served:
            assert len(asked_by_psql(served.port, "ann", "pw-ann").stdout.splitlines()) == 3
            for user, password in (("ann", "wrong"), ("bob", "pw-bob"), ("eve", "pw-ann"), ("ANN", "pw-ann")):
                said = asked_by_psql(served.port, user, password).stderr
                assert f'password authentication failed for user "{user}"' in said
            status, said, _ = within("budget", "show", "-c", file, "--json")
    assert status == 0
    spent = {row["account"]: row["information"]["spent_so_far"] for row in json.loads(said)["accounts"]}
    assert spent["team:research"] == spent["analyst:ann"] != "0"
    assert not {"analyst:bob", "analyst:ANN"} & {*spent}
