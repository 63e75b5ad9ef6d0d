"""Canonical form: spellings of the same condition become one, so that the same question has one release key.

Passes run to a fixpoint, from the inside out. Each keeps the value of its expression in three-valued logic, so that a
canonical expression stands for the written one anywhere. Nothing is ever computed: arithmetic over doubles depends
on its order.

In:  '1970'::int <= birth_year AND NOT (country = 'US' OR country IN ('DE'))
Out: birth_year >= 1970, NOT (country IN ('DE', 'US')): conjuncts in the order of their texts
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from sqlglot import exp

from rewriter.effort import spend
from rewriter.ir.relation import Relation, conjuncts, leaf_of
from rewriter.ir.trees import cast, copied, walk
from rewriter.ir.types import CASTS, ZONELESS, Type, type_named
from rewriter.policy import labels
from rewriter.scalar.functions import BY_TYPE
from rewriter.scalar.typecheck import ORDERING

TURNED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.NullSafeEQ: exp.NullSafeEQ,
    exp.NullSafeNEQ: exp.NullSafeNEQ,
}
"""Comparisons with their sides changed."""
OPPOSITE: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.LT: exp.GTE,
    exp.GTE: exp.LT,
    exp.GT: exp.LTE,
    exp.LTE: exp.GT,
    exp.NullSafeEQ: exp.NullSafeNEQ,
    exp.NullSafeNEQ: exp.NullSafeEQ,
    exp.And: exp.Or,
    exp.Or: exp.And,
}
"""Negated comparisons; both engines order NaN like a number, so these hold for it too."""
ATOMS = (exp.Column, exp.Parameter, exp.Literal)
"""What is canonical as it is."""
OPERATORS = (exp.Binary, exp.Unary, exp.Between, exp.In)
TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?")
Pass = Callable[[exp.Expr, Relation | None], exp.Expr]


def canonical(expression: exp.Expr, relation: Relation | None = None, *, copy: bool = True) -> exp.Expr:
    """The canonical form of a base-form expression over `relation`, whose types let constants be written alike.

    Without `copy` the expression is used up.

    >>> canonical(exp.condition("NOT (3 >= a)")).sql(), canonical(exp.condition("a = 1 OR a IN (2, 1)")).sql()
    ('a > 3', 'a IN (1, 2)')
    """
    if isinstance(expression, ATOMS):
        return copied(expression) if copy else expression
    if copy:
        value = copied(expression, _unparenthesised)
    elif walk(expression, exp.Paren):
        value = expression.transform(lambda n: n.unnest(), copy=False)
    else:
        value = expression
    before = ""
    while before != (before := text_of(value)):
        value = _inside_out(value, relation)
    return _parenthesised(value)


def _unparenthesised(node: exp.Expr) -> exp.Expr | None:
    # What is within stays as it is: earlier keys have its parentheses.
    return copied(node.unnest()) if isinstance(node, exp.Paren) else None


def canonical_conjuncts(
    conditions: Iterable[exp.Expr], relation: Relation | None = None
) -> tuple[exp.Expr, ...]:
    """The conjuncts of AND-ed conditions in canonical form, each once, in the order of their texts.

    >>> [c.sql() for c in canonical_conjuncts([exp.condition("b BETWEEN 1 AND 2"), exp.condition("a IS TRUE")])]
    ['a', 'b >= 1', 'b <= 2']
    """
    found: dict[str, exp.Expr] = {}
    for condition in conditions:
        for part in conjuncts(canonical(condition, relation)):
            if isinstance(part, exp.Is) and part.expression == exp.true():
                # A conjunct drops a row where it is NULL: x IS TRUE asks for no more than x.
                found |= {text_of(p): p for p in canonical_conjuncts([part.this], relation)}
            elif part != exp.true():
                found[text_of(part)] = part
    return tuple(found[text] for text in sorted(found))


def conditions_met(relation: Relation) -> tuple[exp.Expr, ...]:
    """The canonical conjuncts of all that a relation's rows meet, found once: every query of them begins with it."""
    if "met" not in relation.noted:
        relation.noted["met"] = canonical_conjuncts(relation.met, relation)
    return relation.noted["met"]


def text_of(node: exp.Expr) -> str:
    """An expression as a text that no other one has, whatever its parentheses.

    >>> text_of(exp.condition("(a)")) == text_of(exp.condition("a")), text_of(exp.null())
    (True, 'null()')
    """
    if isinstance(node, exp.Paren):
        return text_of(node.this)
    if isinstance(node, exp.Column):
        alias, name = leaf_of(node)
        return f"{alias!r}.{name!r}"
    if isinstance(node, exp.Literal):
        return repr(node.this) if node.args["is_string"] else str(node.this)
    written = []
    for key, value in node.args.items():
        if isinstance(value, list):
            written += [f"{key}:{text_of(v) if isinstance(v, exp.Expr) else v!r}" for v in value]
        elif value is not None and value is not False:
            written.append(f"{key}:{text_of(value) if isinstance(value, exp.Expr) else repr(value)}")
    text = f"{node.key}({','.join(written)})"
    # A text in a list is quoted once more for each list around it, its quotes and backslashes too.
    spend(1 + len(text) // 100)
    return text


def _inside_out(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    spend()
    if isinstance(node, ATOMS):
        return node
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            made = _inside_out(value, relation)
            if made is not value:
                node.set(key, made)
        elif isinstance(value, list):
            node.set(key, [_inside_out(v, relation) if isinstance(v, exp.Expr) else v for v in value])
    for types, one in PASSES:
        if isinstance(node, types):
            node = one(node, relation)
    return node


def _constant(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    """A cast of a constant text to a number or text as the plain constant; dates and timestamps in one spelling."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return node
    if node.to.expressions:
        return node  # of a size, to which the text is cut or rounded
    target, text = CASTS.get(node.to.this), node.this.this
    # Beside character(n) a text keeps the blanks at its end, which a constant without a type has not.
    if target is Type.TEXT and not text.endswith(" "):
        return exp.Literal.string(text)
    if node.to.this == exp.DType.INT and text.isascii() and text.isdigit() and int(text) < 2**31:
        return exp.Literal.number(text)
    return _time(text, target) or node


def _time(text: str, target: Type | None) -> exp.Expr | None:
    """An ISO text as a constant of type date or timestamp, None for other texts."""
    found = TIME.fullmatch(text)
    if found is None or target not in ZONELESS:
        return None
    day, minute, second, fraction = found.groups()
    if target is Type.DATE:
        return cast(exp.Literal.string(day), "DATE") if minute is None else None
    rest = f".{fraction.rstrip('0')}" if (fraction or "").strip("0") else ""
    return cast(exp.Literal.string(f"{day} {minute or '00:00'}:{second or '00'}{rest}"), "TIMESTAMP")


def _typed(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    """A constant compared with a column of dates, timestamps or texts in the column's type; texts are not cast."""
    if relation is None:
        return node
    if isinstance(node, exp.Cast):
        text = CASTS.get(node.to.this) is Type.TEXT and not node.to.expressions
        same = text and _column_type(node.this, relation) is Type.TEXT
        return node.this if same and not _orders_texts(node, relation) else node
    if isinstance(node, (exp.Predicate, exp.In)):
        of = _column_type(node.this, relation)
        if of in ZONELESS:
            for side in [node.expression] if isinstance(node, exp.Binary) else node.expressions:
                written = _as_time(side, of)
                if written is not None:
                    side.replace(written)
    return node


def _as_time(side: exp.Expr, of: Type) -> exp.Expr | None:
    """A constant text, or a date compared with a timestamp, as a constant of the column's type."""
    if isinstance(side, exp.Literal) and side.is_string:
        return _time(side.this, of)
    if isinstance(side, exp.Cast) and isinstance(side.this, exp.Literal) and side.to.this == exp.DType.DATE:
        return _time(side.this.this, of) if of is Type.TIMESTAMP else None
    return None


def _orders_texts(node: exp.Expr, relation: Relation) -> bool:
    """Whether the order of enumerated values as texts is asked for, which is not their own."""
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    return type(above) in ORDERING and labels(_type_name(node.this, relation)) is not None


def _type_name(node: exp.Expr, relation: Relation) -> str:
    return relation.source(node.table).column(node.name).type if isinstance(node, exp.Column) else ""


def _column_type(node: exp.Expr, relation: Relation) -> Type:
    name = _type_name(node, relation)
    return Type.OTHER if "(" in name and labels(name) is None else type_named(name)


def _negated(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    """`x IS NOT NULL` as NOT x IS NULL."""
    if not node.args.get("negate"):
        return node
    node.set("negate", None)
    return exp.Not(this=_moved(node))


def _negation(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    """An expression with NOT moved inside as far as possible."""
    inner = node.this
    if isinstance(inner, exp.Not):
        return _moved(inner.this)
    opposite = OPPOSITE.get(type(inner))
    if opposite is None:
        return node
    sides = [_moved(inner.this), _moved(inner.expression)]
    if isinstance(inner, exp.Connector):
        sides = [exp.Not(this=s) for s in sides]
    return opposite(this=sides[0], expression=sides[1])


def _truth(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    """`x = TRUE` as x, `x = FALSE` as NOT x."""
    for one, other in ((node.expression, node.this), (node.this, node.expression)):
        if isinstance(one, exp.Boolean):
            same = one.this == isinstance(node, exp.EQ)
            return _moved(other) if same else exp.Not(this=_moved(other))
    return node


def _between(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    """`x BETWEEN a AND b` as two comparisons."""
    low = exp.GTE(this=node.this.copy(), expression=_moved(node.args["low"]))
    return exp.And(this=low, expression=exp.LTE(this=_moved(node.this), expression=_moved(node.args["high"])))


def _turned(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    """Comparisons with the constant on the right, else the sides in the order of their texts."""
    turned = TURNED.get(type(node))
    if turned is None:
        return node
    left, right = node.this, node.expression
    constant = not walk(left, exp.Column)
    turn = constant if constant == bool(walk(right, exp.Column)) else text_of(right) < text_of(left)
    return turned(this=_moved(right), expression=_moved(left)) if turn else node


def _listed(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    """IN with its constants in order, each once; one alone is an equality."""
    if not node.expressions:
        return node
    listed = {text_of(e): e for e in node.expressions}
    if len(listed) == 1:
        return exp.EQ(this=_moved(node.this), expression=_moved(node.expressions[0]))
    node.set("expressions", [_moved(listed[text]) for text in sorted(listed)])
    return node


def _connected(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    """AND and OR with their parts in order, each once; OR of equalities of one value with constants as IN."""
    if isinstance(node.parent, type(node)):
        return node
    kind = type(node)
    parts = [_moved(p) for p in list(node.flatten(unnest=False))]
    if kind is exp.Or:
        parts = _alternatives(parts)
    found = {text_of(p): p for p in parts}
    joined, *others = (found[text] for text in sorted(found))
    for other in others:
        joined = kind(this=joined, expression=other)
    return joined


def _alternatives(parts: list[exp.Expr]) -> list[exp.Expr]:
    groups: dict[tuple[str, str], list[exp.Expr]] = {}
    rest = []
    for part in parts:
        listed = _listed_constants(part)
        kinds = {_constant_kind(e) for e in listed}
        if len(kinds) == 1 and "" not in kinds:
            groups.setdefault((text_of(part.this), kinds.pop()), []).append(part)
        else:
            rest.append(part)
    for found in groups.values():
        constants = [_moved(e) for p in found for e in _listed_constants(p)]
        merged = exp.In(this=_moved(found[0].this), expressions=constants)
        rest.append(found[0] if len(found) == 1 else merged)
    return rest


def _listed_constants(part: exp.Expr) -> list[exp.Expr]:
    if isinstance(part, exp.In):
        return list(part.expressions)
    return [part.expression] if isinstance(part, exp.EQ) else []


def _constant_kind(node: exp.Expr) -> str:
    """The type of a plain constant as it is written, the empty text for all else."""
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return text_of(node.to)
    return ("text" if node.is_string else "number") if isinstance(node, exp.Literal) else ""


def _searched(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    """`CASE x WHEN 1` as `CASE WHEN x = 1`, without ELSE NULL."""
    if node.this is not None:
        for branch in node.args["ifs"]:
            branch.set("this", exp.EQ(this=node.this.copy(), expression=_moved(branch.this)))
        node.set("this", None)
    if isinstance(node.args.get("default"), exp.Null):
        node.set("default", None)
    return node


def _default(node: exp.Expr, relation: Relation | None) -> exp.Expr:
    """A call without arguments that have their default; COALESCE, GREATEST and LEAST of one value as that value."""
    function = BY_TYPE.get(type(node))
    for name, value in () if function is None else function.defaults.items():
        if node.args.get(name) == value:
            node.set(name, None)
    alone = isinstance(node, (exp.Coalesce, exp.Greatest, exp.Least)) and not node.expressions
    return _moved(node.this) if alone else node


PASSES: tuple[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], Pass], ...] = (
    (exp.Func, _default),
    (exp.Cast, _constant),
    ((exp.Cast, exp.Binary, exp.In), _typed),
    (exp.Case, _searched),
    (exp.Between, _between),
    ((exp.EQ, exp.NEQ), _truth),
    ((exp.Is, exp.Like, exp.ILike), _negated),
    (exp.Not, _negation),
    (exp.Binary, _turned),
    (exp.In, _listed),
    (exp.Connector, _connected),
)
"""Each pass with the nodes that it is for."""


def _moved(node: exp.Expr) -> exp.Expr:
    """A part that moves from a discarded expression into its replacement."""
    node.parent = None
    return node


def _parenthesised(node: exp.Expr) -> exp.Expr:
    """Parentheses around every operator inside an operator: none of them rests on precedence."""
    for child in () if isinstance(node, ATOMS) else list(node.iter_expressions()):
        _parenthesised(child)
        if isinstance(node, OPERATORS) and isinstance(child, OPERATORS):
            around = exp.Paren()
            child.replace(around)
            around.set("this", child)
    return node
