"""A small shop: users (one row each), events (many), articles (public), with outliers, NULLs and dangling rows."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

from rewriter.policy import Column, Hop, Policy, Table

USERS = Table(
    schema="public",
    name="users",
    columns=(
        Column("user_id", "bigint", nullable=False),
        Column("country", "text", nullable=True, domain=("US", "DE", "FR", "LI")),
        Column("job_title", "text"),
        Column("birth_year", "integer", nullable=True, range=("1940", "2010")),
        Column("signup_date", "date", nullable=False, range=("2023-01-01", "2024-12-31")),
        Column("email", "text", hidden=True),
    ),
    public=False,
    backend_name=("users",),
    privacy_unit="user_id",
    keys=(frozenset({"user_id"}),),
)
EVENTS = Table(
    schema="public",
    name="events",
    columns=(
        Column("event_id", "bigint"),
        Column("user_id", "bigint"),
        Column("article_id", "bigint", nullable=False, domain_from=(("public", "articles"), "article_id")),
        Column("action", "text", nullable=False, domain=("view", "like", "share")),
        Column("device", "text"),
        Column("amount", "double precision"),
        Column("quantity", "integer"),
        Column("ts", "timestamp without time zone", nullable=False, range=("2024-01-01", "2024-03-31")),
    ),
    public=False,
    backend_name=("events",),
    privacy_unit="user_id",
    path=(Hop("user_id", ("public", "users"), "user_id"),),
    declared_keys=(frozenset({"event_id"}),),
    max_rows_per_unit=1000,
    max_rows_per_unit_per_group=500,
    max_groups_per_unit={frozenset({"device"}): 3},
)
ARTICLES = Table(
    schema="public",
    name="articles",
    columns=(
        Column("article_id", "bigint", nullable=False),
        Column("title", "text"),
        Column("topic", "text"),
    ),
    public=True,
    backend_name=("articles",),
    in_front=True,
    keys=(frozenset({"article_id"}),),
)
TAGS = Table(
    schema="public",
    name="tags",
    columns=(Column("article_id", "bigint", nullable=False), Column("tag", "text")),
    public=True,
    backend_name=("tags",),
    in_front=True,
)
POLICY = Policy({("public", t.name): t for t in (USERS, EVENTS, ARTICLES, TAGS)})

SCHEMA = (
    "CREATE TABLE users (user_id bigint PRIMARY KEY, country text, job_title text, birth_year int,"
    " signup_date date NOT NULL, email text)",
    "CREATE TABLE events (event_id bigint, user_id bigint, article_id bigint, action text, device text,"
    " amount double precision, quantity int, ts timestamp)",
    "CREATE TABLE articles (article_id bigint PRIMARY KEY, title text, topic text)",
    "CREATE TABLE tags (article_id bigint NOT NULL, tag text)",
)
OUTLIER = 7
Rows = dict[str, list[tuple[Any, ...]]]


def rows(users: int = 120) -> Rows:
    """The tables' rows, the same at every call: user 7 is an outlier in every respect."""
    rng = random.Random(11)
    data: Rows = {"users": [], "events": [], "articles": [], "tags": []}
    for article in range(1, 21):
        data["articles"].append((article, f"Title {article}", ["ai", "food", "law"][article % 3]))
        data["tags"] += [(article, tag) for tag in rng.sample(["x", "y", "z"], article % 3)]
    for user in range(1, users + 1):
        country = None if user % 17 == 0 else rng.choice(["US", "US", "DE", "FR"])
        birth = None if user % 13 == 0 else rng.randint(1940, 2005)
        title = rng.choice(["Engineer", "Nurse", "Chef", "eng_lead", "Engineer%"])
        signup = dt.date(2023, 1, 1) + dt.timedelta(days=rng.randint(0, 700))
        if user == OUTLIER:
            country, birth, title = "LI", 1940, "King"
        data["users"].append((user, country, title, birth, signup, f"u{user}@example.org"))
        count = 300 if user == OUTLIER else int(rng.paretovariate(1.0)) % 60
        data["events"] += [_event(rng, user) for _ in range(count)]
    data["events"] += [_event(rng, None), _event(rng, 10_000)]
    data["events"] = [(number, *event) for number, event in enumerate(data["events"], 1)]
    return data


def _event(rng: random.Random, user: int | None) -> tuple[Any, ...]:
    stamp = dt.datetime(2024, 1, 1) + dt.timedelta(seconds=rng.randint(0, 91 * 86400 - 1))
    amount = None if rng.random() < 0.1 else round(rng.uniform(-5, 100), 2)
    device = None if rng.random() < 0.05 else rng.choice(["phone", "tv", "web", "car", "watch"])
    quantity = rng.choice([None, 0, 1, 2, 5, -7, 2_000_000_000])
    return (
        user,
        rng.randint(1, 20),
        rng.choice(["view", "view", "like", "share"]),
        device,
        amount,
        quantity,
        stamp,
    )


def without(data: Rows, user: int) -> Rows:
    """The neighbouring database: all rows of `user` removed from every private table."""
    return {
        **data,
        "users": [r for r in data["users"] if r[0] != user],
        "events": [r for r in data["events"] if r[1] != user],
    }
