"""Analysts see only their own roles and sessions, and can set only harmless settings by function calls.

System views are replaced and set_config is renamed in the front's own database, which a superuser may do under
allow_system_table_mods; every client finds them where it looks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from dpproxy.front.role_names import SHOWN, closed, names_hidden
from dpproxy.pgwire.identifiers import literal
from rewriter.statements.set_statement import VALUES

_ACTIVITY = "^(pg_stat_get_backend_.*|pg_stat_get_activity|pg_stat_get_progress_info|pg_lock_status)$"

_OF_SESSIONS = (
    "pg_locks",
    "pg_stat_replication",
    *(
        f"pg_stat_progress_{of}"
        for of in ("analyze", "basebackup", "cluster", "copy", "create_index", "vacuum")
    ),
)
"""What else has a row for a session, and is read by the dashboards of tools."""


def hidden(settings: Collection[str]) -> Iterator[str]:
    """The statements that hide analysts from each other; idempotent, run by a superuser in the front's database.

    `settings`: those that set_config may set.
    """
    yield "SELECT pg_advisory_xact_lock(23)"
    yield "SET LOCAL allow_system_table_mods = on"
    yield from names_hidden()
    yield _rebuilt("pg_roles", f"{SHOWN}(s.oid)")
    yield _rebuilt("pg_user", f"{SHOWN}(s.usesysid)")
    yield _own("pg_stat_activity", _ACTIVE)
    yield _own("pg_stat_gssapi", "pid = pg_backend_pid()")
    for view in _OF_SESSIONS:
        yield _own(view, "pid IN (SELECT a.pid FROM pg_stat_activity_of_mine() AS a)")
    yield closed(_ACTIVITY)
    yield _SET_CONFIG.replace("{names}", _list(sorted(settings))).replace(
        "{otherwise}", " OR ".join(_checked())
    )


def _checked() -> Iterator[str]:
    for name, values in VALUES.items():
        yield (
            f"pg_catalog.lower(setting_name) = {literal(name)} "
            f"AND NOT pg_catalog.lower(new_value) = ANY (ARRAY[{_list(values)}])"
        )


def _list(texts: Iterable[str]) -> str:
    return ", ".join(map(literal, texts))


def _rebuilt(view: str, condition: str) -> str:
    """A system view over its own old definition, which is kept under another name, with a condition more."""
    return f"""
DO $$ BEGIN
  IF to_regclass('pg_catalog.{view}_of_all') IS NULL THEN
    EXECUTE format('CREATE VIEW pg_catalog.{view}_of_all AS %s', pg_get_viewdef('pg_catalog.{view}'::regclass));
  END IF;
END $$;
CREATE OR REPLACE VIEW pg_catalog.{view} AS SELECT * FROM pg_catalog.{view}_of_all AS s WHERE {condition}"""


def _own(view: str, condition: str) -> str:
    """A system view over the rows of its own old definition that a condition leaves, read as a superuser."""
    return f"""
DO $$ BEGIN
  IF to_regclass('pg_catalog.{view}_of_all') IS NULL THEN
    EXECUTE format('CREATE VIEW pg_catalog.{view}_of_all AS %s', pg_get_viewdef('pg_catalog.{view}'::regclass));
  END IF;
END $$;
CREATE OR REPLACE FUNCTION pg_catalog.{view}_of_mine() RETURNS SETOF pg_catalog.{view}_of_all
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
  SELECT * FROM {view}_of_all AS s WHERE {condition}
$$;
CREATE OR REPLACE VIEW pg_catalog.{view} AS SELECT * FROM pg_catalog.{view}_of_mine()"""


_ACTIVE = (
    "usename = session_user AND (current_setting('role') = 'none' OR pid = pg_backend_pid()) "
    "OR (SELECT rolsuper FROM pg_authid WHERE rolname = session_user)"
)
_SET_CONFIG = """
DO $$ BEGIN
  IF to_regprocedure('pg_catalog.set_any_config(text,text,boolean)') IS NULL THEN
    ALTER FUNCTION pg_catalog.set_config(text, text, boolean) RENAME TO set_any_config;
    REVOKE EXECUTE ON FUNCTION pg_catalog.set_any_config(text, text, boolean) FROM PUBLIC;
  END IF;
END $$;
CREATE OR REPLACE FUNCTION pg_catalog.set_allowed_config(setting_name text, new_value text, is_local boolean)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  IF NOT pg_catalog.lower(setting_name) = ANY (ARRAY[{names}]) THEN
    RAISE EXCEPTION USING ERRCODE = '42501',
      MESSAGE = pg_catalog.format('setting "%s" cannot be changed through dpproxy', setting_name);
  ELSIF {otherwise} THEN
    RAISE EXCEPTION USING ERRCODE = '42501',
      MESSAGE = pg_catalog.format('setting "%s" cannot have this value through dpproxy', setting_name);
  END IF;
  RETURN pg_catalog.set_any_config(setting_name, new_value, is_local);
END $$;
CREATE OR REPLACE FUNCTION pg_catalog.set_config(setting_name text, new_value text, is_local boolean) RETURNS text
LANGUAGE plpgsql SECURITY INVOKER AS $$
BEGIN
  IF pg_catalog.lower(setting_name) IS DISTINCT FROM 'role' THEN
    RETURN pg_catalog.set_allowed_config(setting_name, new_value, is_local);
  END IF;
  BEGIN
    EXECUTE pg_catalog.format('SET %s ROLE %L', CASE WHEN is_local THEN 'LOCAL' ELSE 'SESSION' END, new_value);
  EXCEPTION WHEN insufficient_privilege OR invalid_parameter_value OR undefined_object THEN
    RAISE EXCEPTION USING ERRCODE = '42501',
      MESSAGE = pg_catalog.format('permission denied to set role "%s"', new_value),
      HINT = 'SET ROLE can take the roles of analysts that a pattern of [identity] names, too.';
  END;
  RETURN pg_catalog.current_setting('role');
END $$"""
