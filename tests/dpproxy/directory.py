"""An OpenLDAP server (slapd) of the tests' own, with a few people in it."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.dpproxy.certificates import Authority

SLAPD, SLAPADD = "/usr/sbin/slapd", "/usr/sbin/slapadd"
_CONFIG = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
moduleload memberof
TLSCertificateFile {folder}/localhost.pem
TLSCertificateKeyFile {folder}/localhost.key
database mdb
suffix "dc=example,dc=org"
directory {folder}/data
rootdn "cn=reader,dc=example,dc=org"
rootpw reading
access to attrs=userPassword by anonymous auth
access to * by users read
"""
_TOP = """dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
o: example
dc: example

dn: ou=people,dc=example,dc=org
objectClass: organizationalUnit
ou: people
"""
_PERSON = """
dn: uid={dn},ou=people,dc=example,dc=org
objectClass: inetOrgPerson
sn: x
cn: x
userPassword: {password}
"""


@dataclass(frozen=True)
class Slapd:
    """A running server: its two ports, and the authority that signed its certificate for localhost."""

    plain: int
    tls: int
    authority: Path


@contextmanager
def slapd(folder: Path, people: Mapping[str, Sequence[str]]) -> Iterator[Slapd]:
    """Serves people by their names, "ann|annie" where one has two; values: the groups that they are in.

    The password of each is "pw-NAME", with the first of their names.
    """
    if not Path(SLAPD).exists():
        if os.environ.get("DPPROXY_REQUIRE_CLIENTS"):
            pytest.fail("slapd is not installed")
        pytest.skip("slapd is not installed")
    authority = Authority.make(folder / "ours")
    authority.sign("localhost")
    (authority.folder / "data").mkdir()
    config = authority.folder / "slapd.conf"
    config.write_text(_CONFIG.format(folder=authority.folder))
    ldif = _TOP
    for name, groups in people.items():
        names = name.split("|")
        ldif += _PERSON.format(dn=names[0].replace(",", "\\,"), password=f"pw-{names[0]}")
        ldif += "".join(f"uid: {one}\n" for one in names)
        ldif += "".join(f"memberOf: {group}\n" for group in groups)
    subprocess.run([SLAPADD, "-f", config], input=ldif, text=True, check=True, capture_output=True)
    ports = []
    for _ in range(2):
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            ports.append(one.getsockname()[1])
    where = f"ldap://127.0.0.1:{ports[0]} ldaps://127.0.0.1:{ports[1]}"
    process = subprocess.Popen([SLAPD, "-f", config, "-h", where, "-d", "0"], stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", ports[1]), 1).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.02)
        yield Slapd(ports[0], ports[1], authority.certificate)
    finally:
        process.kill()
        process.wait()
