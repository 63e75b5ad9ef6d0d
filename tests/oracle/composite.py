"""Data sets whose units two columns name, `person` and `clan`, and the statements of the generator as they are of both.

Numbers are several persons, and texts that are joined would be one: person 1 of clan "1a" and person 11 of clan "a".
"""

from __future__ import annotations

from sqlglot import exp, parse_one

from tests.oracle.data import Rows

_AT = {"people": 0, "visits": 1, "notes": 0, "cards": 0}


def parts(unit: object) -> tuple[object, object]:
    """The columns of a unit that the data have as a number."""
    if not isinstance(unit, int):
        return unit, "a"
    return unit // 4, ("a", "1a", "A", "b")[unit % 4]


def spellings(unit: object) -> frozenset[object]:
    """The unit as an engine's driver gives its row."""
    number, clan = parts(unit)
    return frozenset({(number, clan), (str(number), clan)})


def composed(rows: Rows) -> Rows:
    """The rows, with two columns in place of the unit's number."""
    return {
        name: rows[name]
        if name not in _AT
        else [(*row[: _AT[name]], *parts(row[_AT[name]]), *row[_AT[name] + 1 :]) for row in rows[name]]
        for name in rows
    }


def declared(tables: dict[str, str], text: str) -> dict[str, str]:
    """The tables' columns, with a clan after each person."""
    keyed = tables["people"].replace("person bigint PRIMARY KEY", "person bigint")
    wider = {**tables, "people": f"{keyed}, PRIMARY KEY (person, clan)"}
    return {
        name: columns.replace("person bigint", f"person bigint, clan {text}")
        for name, columns in wider.items()
    }


def policy(one: str) -> str:
    """The policy of one column as that of two."""
    for old, new in (
        ('privacy_unit = "person"', 'privacy_unit = ["person", "clan"]'),
        ('"person -> people.person"', '"(person, clan) -> people (person, clan)"'),
        ('unique = ["person"]', 'unique = ["person, clan"]'),
    ):
        one = one.replace(old, new)
    return one


def of_both(sql: str) -> str:
    """A statement about persons as one about persons of clans: wherever it compares, lists or counts their column."""
    tree = parse_one(sql, read="postgres")
    for node in list(tree.walk()):
        if isinstance(node, exp.EQ) and _person(node.this) and _person(node.expression):
            node.replace(exp.paren(exp.and_(node.copy(), _twin(node), copy=False)))
        elif isinstance(node, exp.Count) and isinstance(node.this, exp.Distinct):
            _pair(node.this, "expressions")
        elif isinstance(node, exp.In) and _person(node.this):
            node.set("this", exp.Tuple(expressions=[node.this.copy(), _twin(node.this)]))
    for node in list(tree.walk()):
        for name, listed in node.args.items():
            if isinstance(listed, list) and not isinstance(node, (exp.Tuple, exp.Coalesce)):
                node.set(name, [one for item in listed for one in _both(item)])
            elif name == "on" and isinstance(listed, exp.Tuple):
                listed.set("expressions", [one for item in listed.expressions for one in _both(item)])
    return tree.sql("postgres")


def _both(item: object) -> list[object]:
    value = item.this if isinstance(item, (exp.Ordered, exp.Alias)) else item
    renamed = isinstance(item, exp.Alias) and item.alias != "person"
    if isinstance(item, exp.Identifier) and item.name == "person":
        return [item, exp.to_identifier("clan")]
    if renamed or not isinstance(value, exp.Expr) or not _person(value):
        return [item]
    assert isinstance(item, exp.Expr)
    return [item, _twin(item)]


def _person(node: exp.Expr) -> bool:
    """Whether an expression is the first column of a unit, or that of either side of a join."""
    if isinstance(node, exp.Coalesce):
        return all(map(_person, (node.this, *node.expressions)))
    return isinstance(node, exp.Column) and node.name == "person"


def _pair(distinct: exp.Distinct, name: str) -> None:
    items = distinct.args[name]
    if len(items) == 1 and _person(items[0]):
        distinct.set(name, [exp.Tuple(expressions=[items[0].copy(), _twin(items[0])])])


def _twin(node: exp.Expr) -> exp.Expr:
    copy = node.copy()
    for found in list(copy.find_all(exp.Identifier)):
        if found.name == "person":
            found.set("this", "clan")
    return copy
