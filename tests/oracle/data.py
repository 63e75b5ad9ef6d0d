"""The oracle's tables: their rows, drawn to be awkward, and their columns in the words of each engine.

A few units have many rows, with all values that there are. Texts come in several spellings that a collation may take
for one; floats are not a number, infinite and negative zeros; rows come twice; some belong to no unit.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

Row = tuple[object, ...]
Rows = dict[str, list[Row]]
Unit = str | int

TOWNS = ("berlin", "Berlin", "berliN", "bERLIN", "bérlin", "paris", "Paris", "rome")
TRADES = ("Nurse", "nurse", "Chef", "chef ", "King", "")
KINDS = ("view", "like", "share")
MOODS = ("calm", "Calm", "CALM", "cälm", "wild", "Wild", "", "calm ")
WORDS = ("abc", "ABC", "Abc", "aBC", "äbc", "xyz", "Xyz", "lone")
ITEMS = ("pen", "Pen", "PEN", "ink")
CODES = ("a", "A", "b", "ab", "a ")
AREAS = ("north", "North", "south")
FLOATS = (0.0, -0.0, 1.5, 99.0, -3.25, 1e300, float("nan"), float("inf"), float("-inf"), 7.0, None)
PLACES = 8
UNITS = 24
DAYS = 60
FIRST = dt.datetime(2024, 1, 1)

COLLATED = {
    "duckdb": ("VARCHAR COLLATE NOCASE", "VARCHAR COLLATE NOACCENT", "VARCHAR COLLATE NOCASE.NOACCENT"),
    "postgresql": ("text COLLATE ci", "varchar(9) COLLATE ai", "citext", "folded", "char(7)", "varchar(9)"),
    "spark": ("string",),
}
"""Types of texts that an engine may compare otherwise than by their bytes; those that it lacks are left out."""
PLAIN = {"duckdb": "VARCHAR", "postgresql": "text", "spark": "string"}


@dataclass(frozen=True)
class Shape:
    """What a data set's columns are, by engine: the type of each column of texts, `unit` the type of the units; where
    these are `composite`, two columns name each."""

    texts: dict[str, str]
    unit: str
    composite: bool = False

    @property
    def numbered(self) -> bool:
        """Whether units are numbers."""
        return self.unit == "bigint"


TEXTS = ("city", "trade", "code", "mood", "word", "item", "key", "town", "area", "tag")
"""Columns of texts, whichever table they are in."""


def shape(rng: Random, available: Sequence[str], plain: str) -> Shape:
    """The types of a data set: most columns of texts are collated; `available` are the collated types there are."""
    texts = {c: rng.choice(available) if available and rng.random() < 0.6 else plain for c in TEXTS}
    unit = rng.choice(("bigint", "bigint", "bigint", plain, rng.choice([*available, plain])))
    return Shape(texts, unit)


def tables(of: Shape, engine: str) -> dict[str, str]:
    """The definition of each table's columns and keys."""
    t, u = of.texts, of.unit
    double = "double precision" if engine == "postgresql" else "double"
    keyed = " PRIMARY KEY" if engine != "spark" else ""
    return {
        "people": f"person {u}{keyed}, city {t['city']}, trade {t['trade']}, code {t['code']}, born int,"
        f" height {double}, joined date",
        "visits": f"visit bigint{keyed}, person {u}, place int, kind {PLAIN[engine]}, mood {t['mood']}, cost {double},"
        " points int, day date, seen timestamp",
        "notes": f"person {u}, visit bigint, word {t['word']}, stars int, weight {double}",
        "cards": f"person {u}, tier {t['code']}, fee {double}, since int",
        "lines": f"line bigint{keyed}, visit bigint, item {t['item']}, amount int",
        "places": f"place int{keyed}, town {t['town']}, area {t['area']}",
        "words": f"word {t['key']}{keyed}, topic {t['area']}",
        "tags": f"place int, tag {t['tag']}",
    }


PUBLIC = ("places", "words", "tags")
PRIVATE = ("people", "visits", "notes", "cards", "lines")


def policy(engine: str = "duckdb") -> str:
    """dpproxy.toml's tables: bounds so low that a unit with many rows is beyond each of them.

    Where an engine keeps no keys, the owner vouches for those of people and visits.
    """
    if engine != "spark":
        return POLICY
    vouched = POLICY.replace("[tables.people]\n", '[tables.people]\nvouched_key = "person"\n')
    return vouched.replace("[tables.visits]\n", '[tables.visits]\nvouched_key = "visit"\n')


POLICY = """
[tables.people]
privacy_unit = "person"
[tables.people.columns]
city = { domain = ["berlin", "Berlin", "berliN", "bERLIN", "paris"], nullable = true }
code = { domain = ["a", "A", "b"] }
trade = {}
born = { range = [1940, 2010], nullable = true }
height = { bounds = [0, 250], scale = 1 }
joined = { range = ["2023-01-01", "2023-12-31"] }

[tables.visits]
privacy_unit = "person"
max_rows_per_unit = 4
max_rows_per_unit_per_group = 1
max_groups_per_unit = { "mood" = 2, "place" = 2, "kind" = 1, "kind, mood" = 3, "day" = 3 }
horizon = { seen = ["2024-01-01", "2024-02-29"], events_per_unit = 4 }
[tables.visits.columns]
place = { domain_from = "places.place" }
kind = { domain = ["view", "like", "share"] }
cost = { bounds = [-5, 100], scale = 2 }
points = { unit_bounds = [-10, 20], scale = 0 }
day = { range = ["2024-01-01", "2024-02-29"] }

[tables.notes]
privacy_unit = "person"
privacy_unit_path = ["person -> people.person"]
max_rows_per_unit = 3
max_rows_per_unit_per_group = 2
max_groups_per_unit = { "word" = 2, "stars" = 2 }
[tables.notes.columns]
visit = { of_unit = true }
word = { domain_from = "words.word" }
stars = { range = [0, 5], nullable = true }

[tables.cards]
privacy_unit = "person"
privacy_unit_path = ["person -> people.person"]
unique = ["person"]
[tables.cards.columns]
tier = { domain = ["a", "A", "b"], nullable = true }
fee = { bounds = [0, 50], scale = 1 }

[tables.lines]
privacy_unit_path = ["visit -> visits.visit", "person -> people.person"]
max_rows_per_unit = 5
max_rows_per_unit_per_group = 2
max_groups_per_unit = { "item" = 2 }
[tables.lines.columns]
amount = { bounds = [0, 9], scale = 0 }

[tables.places]
public = true
[tables.words]
public = true
[tables.tags]
public = true
"""


def units(of: Shape) -> list[Unit]:
    """All units: the first ones have many rows. As texts, pairs of them differ by case alone."""
    if of.numbered:
        return list(range(1, UNITS + 1))
    return [f"{'uU'[n % 2]}{n // 2}" for n in range(UNITS)]


HEAVY = 4


def rows(rng: Random, of: Shape) -> Rows:
    """The rows of each table; those of heavy units come first in some data sets, last in others."""
    people = units(of)
    order = people if rng.random() < 0.6 else [*people[HEAVY:], *people[:HEAVY]]
    data: Rows = {name: [] for name in (*PRIVATE, *PUBLIC)}
    for place in range(1, PLACES + 1):
        data["places"].append((place, rng.choice(TOWNS), rng.choice(AREAS)))
        data["tags"] += [(place, rng.choice(ITEMS)) for _ in range(rng.randrange(3))]
    data["words"] = [(word, rng.choice(AREAS)) for word in WORDS]
    for unit in order:
        _person(rng, unit, unit in people[:HEAVY], data)
    # Visits name their units themselves, so that only those without one are nobody's.
    data["visits"].append((len(data["visits"]) + 1, None, *_visit(rng)))
    for stranger in (None, 999 if of.numbered else "zz"):
        data["notes"].append((stranger, rng.randrange(1, 40), *_note(rng)))
    visits = [(row[0], row[1] in people[:HEAVY]) for row in data["visits"]]
    for visit, heavy in visits:
        for _ in range(rng.choice((0, 1, 3)) if heavy else rng.choice((0, 0, 1))):
            data["lines"].append((len(data["lines"]) + 1, visit, rng.choice(ITEMS), rng.randrange(-3, 20)))
    return data


def _person(rng: Random, unit: Unit, heavy: bool, data: Rows) -> None:
    born = rng.choice((1930, 2050, 10**9, 1990)) if heavy else rng.choice((None, rng.randint(1940, 2010)))
    height = rng.choice((1e300, 4000.0, float("inf"))) if heavy else rng.choice(FLOATS)
    joined = dt.date(2023, 1, 1) + dt.timedelta(days=rng.randrange(365))
    city = None if rng.random() < 0.1 else rng.choice(TOWNS)
    code = rng.choice(CODES)
    data["people"].append((unit, city, rng.choice(TRADES), code, born, height, joined))
    for _ in range(rng.randint(8, 13) if heavy else rng.choice((0, 1, 2, 3, 5))):
        data["visits"].append((len(data["visits"]) + 1, unit, *_visit(rng)))
    for _ in range(rng.randint(6, 9) if heavy else rng.choice((0, 1, 2))):
        note = (unit, rng.randrange(1, 40), *_note(rng))
        data["notes"] += [note] * rng.choice((1, 1, 2))
    for _ in range(rng.randint(2, 5) if heavy else rng.choice((0, 1, 1))):
        data["cards"].append((unit, rng.choice(CODES), rng.choice(FLOATS), rng.choice((None, 3, 90, 2000))))


def _visit(rng: Random) -> Row:
    day = FIRST + dt.timedelta(days=rng.randrange(DAYS), hours=rng.randrange(24))
    mood = None if rng.random() < 0.1 else rng.choice(MOODS)
    points = rng.choice((None, 0, 1, 2, 7, -50, 500))
    place = rng.randint(1, PLACES)
    return (place, rng.choice(KINDS), mood, rng.choice(FLOATS), points, day.date(), day)


def _note(rng: Random) -> Row:
    word = None if rng.random() < 0.1 else rng.choice((*WORDS, "none"))
    return (word, rng.choice((None, 0, 3, 5, 9)), rng.choice(FLOATS))


def remaining(data: Rows, units: frozenset[object], keep: bool) -> Rows:
    """The rows without those of `units`, or (`keep`) with no other unit's; rows that nobody owns stay."""
    owned = {row[0] for row in data["people"]}
    visits = {row[0]: row[1] for row in data["visits"]}

    def stays(owner: object) -> bool:
        return owner not in owned or (owner in units) == keep

    left = {name: data[name] for name in PUBLIC}
    left["people"] = [r for r in data["people"] if stays(r[0])]
    left["visits"] = [r for r in data["visits"] if stays(r[1])]
    for name in ("notes", "cards"):
        left[name] = [r for r in data[name] if stays(r[0])]
    left["lines"] = [r for r in data["lines"] if stays(visits.get(r[1]))]
    return left
