"""Enumerated values are compared in their declared order, which the canonical text of a question names."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rewriter.api import node_text, split_query
from rewriter.ir.parameter import Parameter
from rewriter.logical.plan import AggregateNode
from rewriter.policy import Column, Policy, Table, enumerated, front_name, labels, shown_type
from rewriter.refusal import Refusal
from rewriter.scalar.enum_order import MOST_LABELS

LEVELS = ("low", "medium", "high")


def policy(listed: Sequence[str] = LEVELS) -> Policy:
    """People and their visits, each with a level of `listed` labels."""
    of = enumerated("public", "level", listed)
    columns = (Column("id", "bigint", False), Column("lev", of, False), Column("was", of))
    people = Table(
        "public", "people", columns, False, ("people",), privacy_unit="id", keys=(frozenset({"id"}),)
    )
    visits = Table("public", "visits", columns, False, ("visits",), privacy_unit="id")
    return Policy({("public", "people"): people, ("public", "visits"): visits}, unit_clips=True)


def asked(sql: str, listed: Sequence[str] = LEVELS, *given: str | None) -> str:
    """The text of a statement's node, which its release key covers; `given`: values of its parameters."""
    shown = policy(listed)
    of = enumerated("public", "level", listed)

    plan = split_query(
        sql,
        shown,
        tuple(Parameter(of, value) for value in given),
        lambda _, text: [Parameter(of, text.split("'")[1])],
    )
    (node,) = plan.nodes
    assert isinstance(node, AggregateNode)
    return node_text(node, shown, plan.values)[0]


def where(condition: str, listed: Sequence[str] = LEVELS, *given: str | None) -> str:
    """The condition of a count of people as its node's text has it, without names of sources."""
    text = asked(f"SELECT count(*) FROM people WHERE {condition}", listed, *given)
    return text.partition(" AS t0 WHERE ")[2].partition("\n")[0].replace('"t0".', "").replace('"', "")


@pytest.mark.parametrize(
    ("condition", "meant"),
    [
        ("lev >= 'medium'", "lev IN ('high', 'medium')"),
        ("'medium' <= lev", "lev IN ('high', 'medium')"),
        ("lev > 'medium'", "lev = 'high'"),
        ("NOT lev < 'medium'", "lev <> 'low'"),
        ("lev BETWEEN 'low' AND 'medium'", "lev IN ('high', 'low', 'medium') AND lev IN ('low', 'medium')"),
        ("lev < 'low'", "lev <> lev"),
        ("lev > ALL (ARRAY['low', 'medium'])", "lev = 'high' AND lev IN ('high', 'medium')"),
        ("coalesce(was, 'low') > 'low'", "COALESCE(was, 'low') IN ('high', 'medium')"),
        ("lev >= 'medium'::level", "lev IN ('high', 'medium')"),
        ("lev = 'medium'", "lev = 'medium'"),
        ("lev::text < 'm'", "CAST(lev AS TEXT) < 'm'"),
        ("lev::text = 'low'", "lev = 'low'"),
    ],
)
def test_a_comparison_names_the_labels_that_are_meant(condition: str, meant: str) -> None:
    assert where(condition) == meant


def test_a_parameter_asks_what_its_value_asks() -> None:
    assert where("lev >= $1", LEVELS, "medium") == where("lev >= 'medium'")
    assert where("lev >= $1 AND lev <> $2", LEVELS, "low", "high") == where("lev >= 'low' AND lev <> 'high'")


def test_two_columns_are_compared_by_the_places_of_their_labels() -> None:
    numbered = "CASE WHEN {0} = 'low' THEN 1 WHEN {0} = 'medium' THEN 2 WHEN {0} = 'high' THEN 3 END"
    assert where("lev > was") == f"{numbered.format('lev')} > {numbered.format('was')}"


PER_UNIT = (
    "SELECT count(*) FROM (SELECT id, max(lev) AS m FROM visits GROUP BY id) AS q WHERE m = 'low'",
    "SELECT count(*) FROM (SELECT id, row_number() OVER (PARTITION BY id ORDER BY lev) AS n FROM visits) AS q "
    "WHERE n = 1",
    "SELECT count(*) FROM (SELECT id, min(lev) OVER (PARTITION BY id) AS m FROM visits) AS q WHERE m = 'low'",
)


@pytest.mark.parametrize("sql", PER_UNIT)
def test_the_order_within_a_unit_is_the_declared_one(sql: str) -> None:
    assert """WHEN 'low' THEN 1 WHEN 'medium' THEN 2 WHEN 'high' THEN 3 END""" in asked(sql)


ORDERED = ("lev >= 'medium'", "lev < 'medium'", "lev BETWEEN 'low' AND 'medium'", "lev > was")
UNORDERED = ("lev = 'medium'", "lev <> 'low'", "lev IN ('low', 'high')", "lev = was", "lev IS NULL")


def test_another_order_changes_the_questions_that_depend_on_it_alone() -> None:
    turned = ("high", "medium", "low")
    assert all(where(one) != where(one, turned) for one in ORDERED)
    assert all(where(one) == where(one, turned) for one in UNORDERED)
    assert all(asked(sql) != asked(sql, turned) for sql in PER_UNIT)


def test_a_new_label_changes_the_questions_that_it_answers_alone() -> None:
    more = ("low", "some", "medium", "high")
    assert where("lev >= 'low'") != where("lev >= 'low'", more)
    assert where("lev < 'medium'") != where("lev < 'medium'", more)
    assert where("lev >= 'medium'") == where("lev >= 'medium'", more)
    assert all(where(one) == where(one, more) for one in UNORDERED)


REFUSED = {
    "greatest(lev, was) = 'low'": "PV020",
    "least(lev, 'low') = 'low'": "PV020",
    "$1 >= 'medium'": "PV020",
    "lev > 'none'": "22P02",
}


@pytest.mark.parametrize(("condition", "code"), REFUSED.items(), ids=REFUSED)
def test_what_has_no_order_that_engines_share_is_refused(condition: str, code: str) -> None:
    with pytest.raises(Refusal) as caught:
        where(condition, LEVELS, None)
    assert caught.value.code == code


def test_thousands_of_labels_are_compared_with_a_constant_and_ordered_no_further() -> None:
    many = [f"label {n:05}" for n in range(5 * MOST_LABELS)]
    assert where("lev >= 'label 04997'", many) == "lev IN ('label 04997', 'label 04998', 'label 04999')"
    assert where("lev < 'label 04000'", many).count("label") == 4000
    for condition in ("lev < was", "lev < $1"):
        with pytest.raises(Refusal) as caught:
            where(condition, many, None)
        assert caught.value.code == "54000"


def test_names_and_labels_of_any_signs_come_back() -> None:
    listed = ("it's", "", "schön", 'a"b', "a','b", "(x)[]", "back\\slash", "new\nline")
    for schema, name in (("public", "level"), ('My "S"', 'a.b"("c'), ("x", "int[]")):
        of = enumerated(schema, name, listed)
        assert labels(of) == listed
        assert labels(f"{of}[]") is None
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in (schema, name))
        assert (front_name(of), front_name(f"{of}[]")) == (quoted, f"{quoted}[]")
        assert shown_type(of) == (name if schema == "public" else f"{schema}.{name}")
    assert labels(enumerated("public", "empty", ())) == ()
