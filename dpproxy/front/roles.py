"""Roles of the front, and what its analysts must not be able to do, as statements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass

import psycopg

from dpproxy.front.statement import run
from dpproxy.pgwire.identifiers import identifier, literal
from mechanisms.randomness import random_bytes

_MARK = "dpproxy: {}"
_HARMFUL = (
    "^(lo_.*|loread|lowrite|pg_sleep.*|pg_(try_)?advisory_(xact_)?lock.*|pg_notify|pg_logical_emit_message|"
    "pg_export_snapshot|.*_to_xml(schema)?|.*_to_xml_and_xmlschema)$"
)
"""Large objects, waiting, locks and messages between sessions, and reading a table by its name in a text."""


ROLES_QUERY = (
    "SELECT shobj_description(oid, 'pg_authid'), rolname FROM pg_roles "
    "WHERE shobj_description(oid, 'pg_authid') LIKE 'dpproxy: %'"
)
"""The mark and the name of each of our roles."""


@dataclass(frozen=True)
class Roles:
    """Our roles, by names that nobody can guess: the tables' `owner`, the `group` that analysts are in,
    and the `checker` that reads statements for us."""

    owner: str
    group: str
    checker: str

    @classmethod
    def named_at_random(cls) -> Roles:
        """New names."""
        return cls(*(f"dpproxy_{random_bytes(8).hex()}" for _ in range(3)))

    @classmethod
    def found(cls, marks: dict[str, str]) -> Roles | None:
        """The roles whose marks were read by ROLES_QUERY, or None."""
        names = [marks.get(_MARK.format(kind)) for kind in ("owner", "group", "checker")]
        return None if None in names else cls(*map(str, names))

    def statements(self) -> Iterator[str]:
        """The statements that make the roles: none is a superuser, only the checker logs in."""
        for kind, name in zip(("owner", "group", "checker"), astuple(self), strict=True):
            login = "LOGIN" if kind == "checker" else "NOLOGIN"
            yield f"CREATE ROLE {identifier(name)} {login} INHERIT"
            yield f"COMMENT ON ROLE {identifier(name)} IS {literal(_MARK.format(kind))}"
        yield f"GRANT {identifier(self.group)} TO {identifier(self.checker)}"


TAKEN = """
SELECT taken.rolname FROM pg_auth_members AS m
JOIN pg_authid AS login ON login.oid = m.member JOIN pg_authid AS taken ON taken.oid = m.roleid
WHERE login.rolname = %s
"""
"""The roles that a login's role is a member of: the group of all analysts, and those that it can take."""


def take(login: str, analyst: str, version: int) -> str:
    """The statement that lets a login set an analyst's role without inheriting it; `version`: the server's."""
    options = " WITH INHERIT FALSE, SET TRUE" if version >= 160000 else ""
    return f"GRANT {identifier(analyst)} TO {identifier(login)}{options}"


def grants(roles: Roles, database: str) -> Iterator[str]:
    """The rights of our roles in the database, which nobody else has: idempotent, also after DROP OWNED."""
    owner, group, checker = map(identifier, astuple(roles))
    here = identifier(database)
    yield f"REVOKE ALL ON DATABASE {here} FROM PUBLIC"
    yield f"GRANT CONNECT ON DATABASE {here} TO {group}"
    yield f"GRANT TEMPORARY ON DATABASE {here} TO {checker}"
    yield f"GRANT CREATE ON DATABASE {here} TO {owner}"
    yield "REVOKE ALL ON SCHEMA public FROM PUBLIC"
    yield f"GRANT CREATE, USAGE ON SCHEMA public TO {owner}"
    yield f"GRANT USAGE ON SCHEMA public TO {group}"
    yield f"GRANT USAGE ON LANGUAGE sql, plpgsql TO {owner}"
    yield f"GRANT USAGE ON LANGUAGE sql TO {checker}"


def lock_down() -> Iterator[str]:
    """Revokes from everybody the rights that an analyst could do harm with; idempotent."""
    yield "REVOKE USAGE ON LANGUAGE sql, plpgsql FROM PUBLIC"
    yield f"""
DO $$ DECLARE harmful regprocedure; BEGIN
  FOR harmful IN SELECT oid FROM pg_proc
    WHERE pronamespace = 'pg_catalog'::regnamespace AND proname ~ {literal(_HARMFUL)}
      AND has_function_privilege('public', oid, 'EXECUTE') LOOP
    EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', harmful);
  END LOOP;
END $$"""


def make_database(admin: psycopg.Connection, database: str) -> None:
    """Makes the clone's database where it is missing; nobody but its owner may use the others."""
    known = admin.execute("SELECT FROM pg_database WHERE datname = %s", (database,)).fetchone()
    if known is None:
        run(admin, f"CREATE DATABASE {identifier(database)} TEMPLATE template0 ENCODING 'UTF8'")
    run(admin, "REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC")


def make_roles(admin: psycopg.Connection) -> Roles:
    """The front's own roles, made at the first time."""
    with admin.transaction():
        roles = Roles.found(dict(admin.execute(ROLES_QUERY).fetchall()))
        if roles is None:
            roles = Roles.named_at_random()
            for statement in roles.statements():
                run(admin, statement)
        return roles
