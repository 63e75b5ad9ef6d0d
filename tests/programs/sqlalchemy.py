"""SQLAlchemy: its inspector, mapped classes made of the schema, and queries of its ORM."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.automap import automap_base
from sqlalchemy.orm import Session

from tests.programs.actions import COUNTRIES, URL, action, near, run

ENGINE = sa.create_engine(URL.replace("postgresql:", "postgresql+psycopg2:"))
METADATA = sa.MetaData(schema="app")
BASE: Any = automap_base(metadata=METADATA)


def scalar(query: Any) -> Any:
    """One number of a query."""
    with Session(ENGINE) as session:
        return session.scalar(query)


@action("automap")
def automap() -> None:
    BASE.prepare(autoload_with=ENGINE)
    assert {"users", "events", "articles"} <= set(BASE.classes.keys())


@action("relationships of mapped classes")
def relationships() -> None:
    assert {"users", "articles"} <= {one.target.name for one in sa.inspect(BASE.classes.events).relationships}


@action("schemas, tables and columns")
def inspector() -> None:
    found = sa.inspect(ENGINE)
    assert "app" in found.get_schema_names()
    assert "users" in found.get_table_names("app")
    assert "balance" in {column["name"] for column in found.get_columns("users", "app")}


@action("keys, indexes and comments")
def keys() -> None:
    found = sa.inspect(ENGINE)
    assert found.get_pk_constraint("users", "app")["constrained_columns"] == ["user_id"]
    assert found.get_foreign_keys("events", "app")[0]["referred_schema"] == "app"
    assert found.get_indexes("users", "app") == []
    assert found.get_table_comment("users", "app")["text"]


@action("count")
def count() -> None:
    near(scalar(sa.select(sa.func.count()).select_from(BASE.classes.users)), 4000)


@action("group by and having")
def grouped() -> None:
    users = BASE.classes.users
    query = (
        sa.select(users.country, sa.func.count().label("n"))
        .group_by(users.country)
        .having(sa.func.count() > 500)
    )
    with Session(ENGINE) as session:
        assert {row.country for row in session.execute(query)} == COUNTRIES


@action("in_")
def among() -> None:
    users = BASE.classes.users
    near(scalar(sa.select(sa.func.count()).select_from(users).where(users.country.in_(["DE", "US"]))), 2000)


@action("a join along a foreign key")
def joined() -> None:
    users, events = BASE.classes.users, BASE.classes.events
    query = sa.select(sa.func.count(sa.distinct(events.user_id))).join(users, users.user_id == events.user_id)
    near(scalar(query.where(users.country == "DE")), 1000)


@action("case and filter")
def case() -> None:
    users = BASE.classes.users
    old = sa.case((users.age >= 58, 1), else_=0)
    near(scalar(sa.select(sa.func.sum(old))), 2000)
    near(scalar(sa.select(sa.func.count().filter(users.age >= 58)).select_from(users)), 2000)


@action("a subquery and a CTE")
def nested() -> None:
    users = BASE.classes.users
    counted = sa.select(users.country, sa.func.count().label("n")).group_by(users.country).cte()
    near(scalar(sa.select(sa.func.max(counted.c.n))), 1000)


@action("a stream of rows")
def streamed() -> None:
    with ENGINE.connect().execution_options(stream_results=True) as connection:
        assert (
            len(list(connection.execute(sa.text("SELECT age, COUNT(*) FROM app.users GROUP BY age")))) == 80
        )


@action("a savepoint")
def savepoint() -> None:
    with Session(ENGINE) as session, session.begin():
        with session.begin_nested():
            near(session.scalar(sa.text("SELECT COUNT(*) FROM app.users")), 4000)
        assert session.scalar(sa.text("SELECT 1")) == 1


@action("public rows of a mapped class")
def public() -> None:
    with Session(ENGINE) as session:
        article: Any = session.get(BASE.classes.articles, 7)
        assert article.title == "t7"


@action("rows of a mapped class")
def rows() -> None:
    with Session(ENGINE) as session:
        session.scalars(sa.select(BASE.classes.users).limit(5)).all()


@action("create_all")
def create() -> None:
    metadata = sa.MetaData()
    sa.Table("mine", metadata, sa.Column("id", sa.Integer))
    metadata.create_all(ENGINE)


if __name__ == "__main__":
    run("sqlalchemy", "psycopg2-binary")
