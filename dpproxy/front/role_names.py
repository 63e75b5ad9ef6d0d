"""Role names that an analyst sees in the front: their own, and those of roles without login; no other.

PostgreSQL turns the number of any role into its name, and reveals for any name whether the role exists. Each function
that does so is renamed and closed, and keeps its number. A new function of the old name, which checks `is_shown` first,
takes its place for clients. Views that call the old function are made again over the new one.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpproxy.pgwire.identifiers import literal

SHOWN = "pg_catalog.is_shown"
"""The function that decides whether a session may see the name of a role, by its OID."""
_OLD = "_of_any"
_SUPERUSER = "dpproxy"
"""What the owner of the system catalogs is called."""
_IS_SHOWN = f"""
CREATE OR REPLACE FUNCTION {SHOWN}(role oid) RETURNS boolean LANGUAGE sql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog AS $$
  SELECT EXISTS (SELECT FROM pg_authid WHERE rolname = session_user AND rolsuper) OR EXISTS (
    SELECT FROM pg_authid AS r WHERE r.oid = $1 AND (NOT r.rolcanlogin OR pg_has_role((
      SELECT me.oid FROM pg_authid AS me
      WHERE me.rolname = CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role') END
    ), r.oid, 'MEMBER')))
$$"""
_NAMED = """
CREATE OR REPLACE FUNCTION pg_catalog.named(role name) RETURNS name LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog AS $$
BEGIN
  IF role <> 'public' AND NOT EXISTS (SELECT FROM pg_authid WHERE rolname = role AND is_shown(oid)) THEN
    RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" does not exist', role);
  END IF;
  RETURN role;
END $$"""
_OF_NUMBERS = f"""
CREATE OR REPLACE FUNCTION pg_catalog.pg_get_userbyid(role oid) RETURNS name
LANGUAGE sql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog AS $$
  SELECT CASE WHEN is_shown($1) THEN pg_get_userbyid{_OLD}($1)
    WHEN EXISTS (SELECT FROM pg_authid WHERE oid = $1 AND rolsuper) THEN {literal(_SUPERUSER)}
    ELSE format('unknown (OID=%s)', $1)::name END
$$;
CREATE OR REPLACE FUNCTION pg_catalog.acldefault(kind "char", owner oid) RETURNS aclitem[]
LANGUAGE sql STABLE STRICT SECURITY DEFINER SET search_path = pg_catalog AS $$
  SELECT acldefault{_OLD}($1, $2)
  WHERE is_shown($2) OR EXISTS (SELECT FROM pg_authid WHERE oid = $2 AND rolsuper)
$$"""
_PRIVILEGES = f"""
DO $$ DECLARE f record; BEGIN
  FOR f IN
    SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS kinds, string_agg(
      CASE WHEN a.kind = 'name'::regtype THEN format('pg_catalog.named($%s)', a.n) ELSE format('$%s', a.n) END,
      ', ' ORDER BY a.n) AS passed
    FROM pg_proc AS p, unnest(p.proargtypes) WITH ORDINALITY AS a(kind, n)
    WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname ~ '^(has_.*_privilege|pg_has_role){_OLD}$'
    GROUP BY p.oid
  LOOP
    EXECUTE format('CREATE OR REPLACE FUNCTION pg_catalog.%I(%s) RETURNS boolean LANGUAGE sql STABLE STRICT '
      'SECURITY DEFINER AS %L', left(f.proname, -{len(_OLD)}), f.kinds,
      format('SELECT pg_catalog.%I(%s)', f.proname, f.passed));
  END LOOP;
END $$"""
_RENAMED = f"""
DO $$ DECLARE old regprocedure; name text; BEGIN
  FOR old, name IN SELECT oid, proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace AND oid < 16384
      AND (proname IN ('pg_get_userbyid', 'acldefault')
        OR proname ~ '^(has_.*_privilege|pg_has_role)$' AND 'name'::regtype = ANY (proargtypes)) LOOP
    EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', old);
    EXECUTE format('ALTER FUNCTION %s RENAME TO %I', old, name || '{_OLD}');
  END LOOP;
END $$"""
_VIEWS = f"""
DO $$ DECLARE view regclass; BEGIN
  FOR view IN SELECT oid FROM pg_class WHERE relkind = 'v' AND oid < 16384
      AND pg_get_viewdef(oid) ~ '(pg_get_userbyid|acldefault){_OLD}\\(' LOOP
    EXECUTE format('CREATE OR REPLACE VIEW %s AS %s', view,
      regexp_replace(pg_get_viewdef(view), '(pg_get_userbyid|acldefault){_OLD}\\(', '\\1(', 'g'));
  END LOOP;
END $$"""
_CLOSED = (
    "^(makeaclitem|aclitemin|regrolein|regroleout|to_regrole|pg_describe_object|pg_identify_object|"
    "pg_identify_object_as_address|pg_get_object_address)$"
)
_TYPES = """
UPDATE pg_catalog.pg_type SET typinput = 'pg_catalog.oidin'::regproc, typoutput = 'pg_catalog.oidout'::regproc
WHERE oid = 'pg_catalog.regrole'::regtype;
UPDATE pg_catalog.pg_type SET typinput = 'pg_catalog.pg_node_tree_in'::regproc
WHERE oid = 'pg_catalog.aclitem'::regtype"""
"""A role's number is shown as it is, and no privilege is read from a text, which PostgreSQL itself never does."""


def names_hidden() -> Iterator[str]:
    """The statements that keep the names of analysts from each other; idempotent, run as `hidden` is."""
    yield _IS_SHOWN
    yield _NAMED
    yield _RENAMED
    yield _OF_NUMBERS
    yield _PRIVILEGES
    yield _VIEWS
    yield _TYPES
    yield closed(_CLOSED)


def closed(names: str) -> str:
    """The statement that takes the system's functions of these names, a pattern, from everybody."""
    return f"""
DO $$ DECLARE telling regprocedure; BEGIN
  FOR telling IN SELECT oid FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
      AND proname ~ {literal(names)} AND has_function_privilege('public', oid, 'EXECUTE') LOOP
    EXECUTE format('REVOKE EXECUTE ON ROUTINE %s FROM PUBLIC', telling);
  END LOOP;
END $$"""
