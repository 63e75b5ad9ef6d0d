"""One data set for both sides: what the proxy reads from its backend, and what PostgreSQL answers from."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any

Rows = Mapping[str, Sequence[tuple[Any, ...]]]

COLOURS = ("red", "green", "blue", "rot")
LEVELS = ("low", "medium", "high", "none")
"""An enum whose order is not the alphabet's."""
KINDS = ("view", "Buy", "buy", "refund", "Straße")
CODES = ("ab", "abcd", "x", "Ä", "a b")
NAMES = (
    *(
        "Müller",
        "MÜLLER",
        "müller",
        "Straße",
        "STRASSE",
        "Ångström",
        "ångström",
        "ΣΑΣ",
        "σας",
        "Łódź",
        "ŁÓDŹ",
    ),
    *(
        "naïve",
        "co-op",
        "a_b",
        "a%b",
        "",
        " pad ",
        "O'Hara",
        "東京",
        "red",
        "Red",
        "tab\tx",
        "back\\slash",
        "line\nx",
    ),
    *(
        "123",
        "12.5",
        "-7",
        "Éric",
        "éric",
        "Õun",
        "Žluť",
        "ǅungla",
        "ıspanak",
        "İzmir",
        "ﬁn",
        "ß",
        "a.b",
        "x y z",
    ),
)
AGES = 20
ITEMS = 12
PEOPLE, EVENTS = 300, 1200
TABLES = {
    "people": (
        "id bigint PRIMARY KEY, colour varchar(12) NOT NULL, lev {level}, code {char4} NOT NULL, name text,"
        " age integer, bal numeric(10,2) NOT NULL, score double precision, born date NOT NULL, ok boolean"
    ),
    "events": (
        "id bigint NOT NULL, kind varchar(12), item integer, amount numeric(8,3) NOT NULL, n smallint NOT NULL,"
        " seen timestamp NOT NULL, stamp timestamptz NOT NULL"
    ),
    "items": (
        "item integer PRIMARY KEY, title text NOT NULL, class text NOT NULL, weight numeric(6,2), since date,"
        " lev {level}"
    ),
    "classes": "class text PRIMARY KEY, family text NOT NULL, code {char4} NOT NULL",
}
"""The columns of each table; {char4} is char(4), and {level} the enum, where there are such types."""
WITHOUT_ENUMS = (
    (
        'lev = { domain_from = "type", nullable = true }',
        f"lev = {{ domain = {list(LEVELS)}, nullable = true }}",
    ),
    ('[tables.items.columns]\nlev = { domain_from = "type" }\n', ""),
)
"""What of the policy is another where levels are texts."""
POLICY = """
[tables.people]
privacy_unit = "id"
[tables.people.columns]
colour = { domain = ["red", "green", "blue", "rot"] }
lev = { domain_from = "type", nullable = true }
age = { range = [0, 19], nullable = true }
ok = { domain = [true, false], nullable = true }
bal = { bounds = [-1000, 1000] }
score = { bounds = [-100, 100], scale = 6 }
born = { range = ["1990-01-01", "1990-12-31"] }
[tables.events]
privacy_unit = "id"
privacy_unit_path = ["id -> people.id"]
[tables.events.columns]
kind = { domain = ["view", "Buy", "buy", "refund", "Straße"], nullable = true }
item = { domain_from = "items.item", nullable = true }
amount = { bounds = [-100, 100] }
n = { bounds = [0, 9] }
seen = { range = ["2024-01-01", "2024-12-31"] }
stamp = { range = ["2024-01-01", "2024-12-31"] }
[tables.items]
public = true
[tables.items.columns]
lev = { domain_from = "type" }
[tables.classes]
public = true
"""


def rows(rng: Random) -> Rows:
    """The rows of all tables, in PostgreSQL's types."""
    people = [
        (
            number,
            rng.choice(COLOURS),
            rng.choice((*LEVELS, None)),
            rng.choice(CODES),
            rng.choice((*NAMES, None)),
            rng.choice((*range(AGES), None)),
            Decimal(rng.choice((rng.randrange(-100_000, 100_001), rng.randrange(-500, 501), 0))).scaleb(-2),
            rng.choice((None, 0.0, -0.5, 2.5, rng.randrange(-800, 801) / 8)),
            dt.date(1990, 1, 1) + dt.timedelta(rng.choice((0, 30, 31, 59, 364, rng.randrange(365)))),
            rng.choice((True, False, None)),
        )
        for number in range(1, PEOPLE + 1)
    ]
    return {"people": people, "events": events(rng), **public(rng)}


def events(rng: Random) -> list[tuple[Any, ...]]:
    """A unit has none, a few, or many."""
    found = []
    for _ in range(EVENTS):
        moment = dt.datetime(2024, 1, 1) + dt.timedelta(
            seconds=rng.choice((rng.randrange(366 * 86400), rng.randrange(366) * 86400, 59 * 86400 - 1)),
            microseconds=rng.choice((0, 500_000, 499_999, 999_999)),
        )
        moment = min(moment, dt.datetime(2024, 12, 31))
        found.append(
            (
                1 + int(PEOPLE * rng.random() ** 2),
                rng.choice((*KINDS, None)),
                rng.choice((*range(1, ITEMS + 1), None)),
                Decimal(rng.choice((rng.randrange(-100_000, 100_001), 2_500, 0))).scaleb(-3),
                rng.randrange(10),
                moment,
                moment.replace(tzinfo=dt.UTC),
            )
        )
    return found


def public(rng: Random) -> Rows:
    """Items without a class, classes without an item, repeated titles."""
    titles = ("Tee", "Öl", "tee", "Brot", "Straße", "x")
    return {
        "items": [
            (
                number,
                titles[number % len(titles)],
                ("food", "drink", "Ware", "lost")[number % 4],
                None if number == 5 else Decimal(number * 125).scaleb(-2),
                None if number == 3 else dt.date(2023, number, 28),
                (*LEVELS, None)[number % 5],
            )
            for number in range(1, ITEMS + 1)
        ],
        "classes": [
            ("food", "Eat", "ab"),
            ("drink", "Eat", "x"),
            ("Ware", "Not", "abcd"),
            ("none", "Not", "Ä"),
        ],
    }


def possible(of: Rows) -> Rows:
    """One unit with rows of every combination of the declared values, beside the same public rows: the groups of a
    statement over them are those that a statement can have."""
    people = [
        (1, colour, lev, "ab", "x", age, Decimal(0), 0.0, dt.date(1990, 1, 1), ok)
        for colour, lev, age, ok in itertools.product(
            COLOURS, (*LEVELS, None), (*range(AGES), None), (True, False, None)
        )
    ]
    moment = dt.datetime(2024, 1, 1)
    happened = [
        (1, kind, item, Decimal(0), 0, moment, moment.replace(tzinfo=dt.UTC))
        for kind, item in itertools.product((*KINDS, None), (*range(1, ITEMS + 1), None))
    ]
    return {**of, "people": people, "events": happened}
