"""Keys cover what is released: every field of a policy is changed, one at a time, and keys change if and only if the
backend's SQL, the cells, the mechanisms with their parameters or the presentation do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from dpproxy.config.sections import Config
from dpproxy.engine.optimizer import plan_release
from dpproxy.engine.options import ReleaseOptions, terms
from dpproxy.engine.planner import BoundNode, Planner
from dpproxy.engine.release_keys import ReleaseKeys
from dpproxy.front.front import Front
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.policy import Column, Horizon, Policy, Table
from rewriter.refusal import Refusal
from tests.dpproxy import shop
from tests.dpproxy.engine.test_keys import SHOP_POLICY, SHOP_SCHEMA

pytestmark = pytest.mark.service

STATEMENTS = (Path(__file__).parent / "keys" / "shop.sql").read_text().strip().split(";\n")
KEYS = ReleaseKeys(bytes(32), b"nonce", b"streams")
MECHANISMS = ("paper", "clipped")
OUTSIDE = {
    "schema",
    "name",
    "backend_name",
    "columns",
    "type",
    "sized",
    "caseless",
    "virtual",
    "required",
    "view",
}
"""What is not declared but read from the backend's schema. A ledger is of one backend, whose tables have one name each;
the kinds of columns that a node reads are in its key (docs/decisions/keys-are-no-engines.md), and so is the text of a
view (test_views.py)."""
EVERY = 127
"""The short version plans every 127th pair of policy and question: a prime, so that none is left out for its place."""


@dataclass(frozen=True)
class World:
    """The shop behind a front, under a policy that the tests change."""

    config: Config
    policy: Policy
    front: Front


@dataclass(frozen=True)
class Released:
    """The keys of a statement's releases, and what they stand for."""

    keys: tuple[bytes, ...]
    effects: tuple[Any, ...]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("release-keys")
    config, backend, policy = shop.opened(shop.make(folder, SHOP_POLICY, SHOP_SCHEMA))
    with Front.start(folder / "front", sessions=4) as front:
        front.clone(policy, backend.schema())
        for table in policy.tables.values():
            if table.in_front:
                front.load_public(table, backend.read_public(table))
        backend.close()
        yield World(config, policy, front)


def released(world: World, policy: Policy, sql: str, on: ReleaseOptions) -> Released | str:
    """What is released for a statement, or the code of its refusal."""
    # DuckDB joins the units' table where their key is kept, which changes the SQL and not the rows.
    planner = Planner(policy, world.front, POSTGRES)
    keys: list[bytes] = []
    effects: list[Any] = []
    try:
        prepared = planner.prepare(sql, ())
        effects.append((prepared.presentation, prepared.columns))
        for node in planner.plan(sql, (), ()):
            assert isinstance(node, BoundNode)
            plan = plan_release(node, on, KEYS)
            laws = plan.selection and (plan.selection.parameters, [m.parameters(2) for m in plan.meters])
            queries = [(q.sql, q.arrays, q.unique) for q in plan.queries()]
            if not queries:
                continue  # Nothing is read, so nothing is stored.
            keys += [plan.release_key, plan.stream or b""]
            outputs = [(o.function, o.measures, o.factor, o.fraction) for o in node.aggregate.outputs]
            effects.append(
                (plan.name, laws, queries, outputs, list(node.cells or ()), node.times, plan.stream is None)
            )
    except Refusal as refusal:
        return refusal.code
    except RuntimeError:
        return "no policy"  # A table that others lead to is public: `build_policy` refuses that.
    return Released(tuple(keys), tuple(effects)) if keys else Released((), ())


def others(policy: Policy) -> Iterator[tuple[str, Policy]]:
    """Policies that differ from `policy` in one field."""
    yield "unit_clips", replace(policy, unit_clips=not policy.unit_clips)
    yield "search_path", replace(policy, search_path=("app", *policy.search_path))
    for name, table in policy.tables.items():
        for what, changed in _tables(table):
            yield f"{name}.{what}", replace(policy, tables={**policy.tables, name: changed})


def _tables(table: Table) -> Iterator[tuple[str, Table]]:
    for one in fields(Table):
        for value in _values(one.name, getattr(table, one.name), table):
            yield one.name, replace(table, **{one.name: value})
    for place, column in enumerate(table.columns):
        for one in fields(Column):
            for value in _values(one.name, getattr(column, one.name), table):
                changed = replace(column, **{one.name: value})
                columns = (*table.columns[:place], changed, *table.columns[place + 1 :])
                yield f"{column.name}.{one.name}", replace(table, columns=columns)


def _values(name: str, held: Any, table: Table) -> list[Any]:
    """Other values of a field; a field that is not named here fails the test."""
    if name in OUTSIDE:
        return []
    if isinstance(held, bool):
        return [not held]
    columns = [c.name for c in table.columns]
    sets = [frozenset({c}) for c in columns]
    ends = [(Fraction(0), Fraction(3)), None]
    horizon = Horizon("placed", "2024-01-01", "2024-06-30", 3)
    values: dict[str, list[Any]] = {
        "privacy_unit": [c for c in columns if held not in (None, c)],
        "path": [()],
        "kind": ["other"],
        "unit_parts": [],
        "keys": [(), *((key,) for key in sets)],
        "declared_keys": [(), *((key,) for key in sets)],
        "max_rows_per_unit": [3, 4, None],
        "max_rows_per_unit_per_group": [2, 3, None],
        "max_groups_per_unit": [{}, *({key: 2} for key in sets)],
        "horizon": [horizon, replace(horizon, events_per_unit=9), replace(horizon, last="2024-07-31"), None],
        "where": ["1 = 1"],
        "expression": ["1"],
        "comment": ["said"],
        "domain": [("DE", "XX"), ("DE", "FR", "US", "XX"), None],
        "domain_from": [(("public", "products"), "color"), None],
        "range": [("2024-01-01", "2024-02-01"), ("1900", "1950"), None],
        "bounds": ends,
        "unit_bounds": ends,
        "ends": [(Fraction(0), Fraction(3))],
        "scale": [1, 3, None],
        "magnitude": [Fraction(7), None],
    }
    return [v for v in values[name] if v != held]


def compared(world: World, every: int) -> Iterator[str]:
    """Where keys and what they stand for do not change together; each `every`-th pair of policy and question."""
    for mechanisms in MECHANISMS:
        privacy = world.config.privacy.model_copy(update={"mechanisms": mechanisms, "scans": "charge"})
        on = replace(terms(privacy, {}), length="day", epoch="2026-11-23")
        policy = replace(world.policy, unit_clips=mechanisms == "clipped")
        usual = {sql: released(world, policy, sql, on) for sql in STATEMENTS}
        pairs = product(others(policy), STATEMENTS)
        for number, ((what, changed), sql) in enumerate(pairs):
            if number % every:
                continue
            before, after = usual[sql], released(world, changed, sql, on)
            if isinstance(before, str) or isinstance(after, str):
                continue
            other_keys, other = before.keys != after.keys, before.effects != after.effects
            if other_keys != other:
                yield f"{mechanisms}, {what}, {sql}: {'keys' if other_keys else 'effects'} alone"


def test_keys_change_with_what_is_released(world: World) -> None:
    assert list(compared(world, EVERY)) == []


@pytest.mark.slow
def test_keys_change_with_what_is_released_by_any_policy(world: World) -> None:
    assert list(compared(world, 1)) == []
