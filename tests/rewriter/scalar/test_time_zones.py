"""Time zones on private rows: what both engines make of offsets that are written out is PostgreSQL's AT TIME ZONE."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import duckdb
import psycopg
import pytest

from dpproxy.embedded.binaries import share_time_zones
from rewriter.emit.engines.base import Engine
from rewriter.emit.engines.duckdb import DUCKDB
from rewriter.emit.engines.postgres import POSTGRES
from rewriter.refusal import Refusal
from rewriter.scalar import time_zones
from tests.rewriter.scalar.test_functions import based, statement
from tests.rewriter.values import COLUMNS

ZONES = (
    "Europe/Berlin",
    "America/St_Johns",  # set at a minute past midnight
    "America/Sao_Paulo",  # set at midnight
    "Africa/Casablanca",  # set around Ramadan
    "Australia/Lord_Howe",  # by half an hour
    "Pacific/Apia",  # has left out a day
    "Asia/Kathmandu",
)
EXPRESSIONS = (
    "tz AT TIME ZONE '{zone}'",
    "timezone('{zone}', ts)",
    "date_trunc('day', tz, '{zone}')",
    "date_trunc('week', tz, '{zone}')",
    "date_trunc('MONTH', tz, '{zone}')",
    "date_trunc('quarter', tz AT TIME ZONE '{zone}') AT TIME ZONE '{zone}'",
    "date_trunc('year', tz, '{zone}')",
    "date_trunc('hour', tz AT TIME ZONE '{zone}')",
    "EXTRACT(hour FROM tz AT TIME ZONE '{zone}')",
)
AROUND = tuple(dt.timedelta(seconds=seconds) for seconds in (-90_000, -3_600, -1, 0, 1_800, 3_599, 90_000))
TICK = dt.timedelta(microseconds=1)


def moments(zone: str) -> Sequence[dt.datetime]:
    """Moments around each at which a zone's offset changes, by UTC and by its own time, and those at the ends."""
    steps = {*time_zones.offsets(zone), *time_zones.local_offsets(zone)}
    near = {since + by for since, _ in steps for by in (*AROUND, -TICK, TICK)}
    return sorted(m for m in near | {time_zones.END - TICK} if time_zones.FIRST <= m < time_zones.END)


@pytest.mark.service
@pytest.mark.parametrize("zone", ZONES)
def test_every_moment_is_postgresqls(zone: str, postgres: psycopg.Connection) -> None:
    share_time_zones()
    asked = [expression.format(zone=zone) for expression in EXPRESSIONS]
    rows = [(n, moment) for n, moment in enumerate(moments(zone))]
    types = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    with postgres.transaction(force_rollback=True), duckdb.connect(config={"threads": "1"}) as other:
        postgres.execute("SET LOCAL timezone = 'UTC'")
        other.execute("SET timezone = 'UTC'")
        postgres.execute(f"CREATE TEMP TABLE vals ({types})".encode())
        other.execute(f"CREATE TABLE vals ({types})")
        with postgres.cursor().copy("COPY vals (id, ts, tz) FROM STDIN") as copy:
            for n, moment in rows:
                copy.write_row((n, moment, moment))
        postgres.execute("ANALYZE vals")
        numbers, stamps = [n for n, _ in rows], [str(moment) for _, moment in rows]
        other.execute(
            "INSERT INTO vals (id, ts, tz) SELECT n, CAST(m AS TIMESTAMP), CAST(m AS TIMESTAMP) "
            "FROM (SELECT unnest(?::BIGINT[]) AS n, unnest(?::VARCHAR[]) AS m)",
            [numbers, stamps],
        )

        def ours(expression: str, engine: Engine) -> dict[int, str]:
            query = statement(based(expression), engine)
            found = other.execute(query) if engine is DUCKDB else postgres.execute(query.encode())
            return {n: shown(value) for n, value in found.fetchall()}

        for expression in asked:
            text = f"SELECT id, ({expression})::text FROM vals".encode()
            truth = {n: shown(value) for n, value in postgres.execute(text).fetchall()}
            for engine in (POSTGRES, DUCKDB):
                found = ours(expression, engine)
                wrong = {str(rows[n][1]): (found[n], truth[n]) for n in truth if found[n] != truth[n]}
                assert not wrong, (engine.name, expression, len(wrong), list(wrong.items())[:5])


def shown(value: str) -> str:
    return value.removesuffix("+00").rstrip("0") if "." in value else value.removesuffix("+00")


@pytest.mark.parametrize(
    "expression",
    [
        "tz AT TIME ZONE 'CET'",
        "tz AT TIME ZONE '+02'",
        "tz AT TIME ZONE 'America/Ojinaga'",
        "tz AT TIME ZONE 'Europe/Nowhere'",
        "tz AT TIME ZONE '../etc/passwd'",
        "tz AT TIME ZONE 'right/Europe/Berlin'",
        "tz AT TIME ZONE s",
        "tz AT TIME ZONE INTERVAL '2 hours'",
        "d AT TIME ZONE 'Europe/Berlin'",
        "date_trunc('hour', tz, 'Europe/Berlin')",
        "tz AT TIME ZONE 'Europe/Berlin' AT TIME ZONE 'Asia/Tokyo'",
    ],
)
def test_what_engines_could_read_differently_is_refused(expression: str) -> None:
    with pytest.raises(Refusal) as refused:
        based(expression)
    assert refused.value.code == "PV020"
