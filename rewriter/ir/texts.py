"""Trees of SQL as texts: sqlglot's generators, which look for every clause that some dialect has in each node.

Names, columns, types and SELECTs make up most of a text, and ours have few clauses: they are written here, to the same
letters. Whatever has more than these goes to sqlglot's own methods.

Why: docs/decisions/sqlglot-is-interpreted.md.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.generator import Generator
from sqlglot.helper import name_sequence

_CLAUSES = ("from_", "joins", "where", "group", "having", "order", "limit", "offset")
_SELECT = frozenset({*_CLAUSES, "expressions", "distinct", "with_"})
_TABLE = frozenset({"this", "db", "alias"})
_SUBQUERY = frozenset({"this", "alias"})
_PLAIN = ("", "postgres", "duckdb")
"""Dialects that write all SELECTs and casts as they are."""


def sql_text(node: exp.Expr, dialect: str = "", *, pretty: bool = False) -> str:
    """The text of a tree. PostgreSQL's dialect and the engines' may change the tree while they write it.

    >>> sql_text(exp.column("a", "t").eq(exp.Literal.string("b")), "postgres")
    "t.a = 'b'"
    """
    return str(_written(dialect, pretty).generate(node, copy=False))


def fragment(node: exp.Expr, dialect: str = "", *, pretty: bool = False) -> str:
    """The text of a tree as a part of other texts: of `with_queries`, or of a tree that has it as an exp.Var.

    >>> sql_text(exp.Paren(this=exp.Var(this=fragment(exp.column("a").eq(exp.null())))))
    '(a = NULL)'
    """
    return str(_written(dialect, pretty).sql(node))


def with_queries(
    queries: Sequence[tuple[str, str]], text: str, dialect: str = "", *, pretty: bool = False
) -> str:
    """The text of a query, a fragment, behind WITH name AS (query), ... of others.

    >>> with_queries([("a", "SELECT 1 AS b")], "SELECT b FROM a")
    'WITH a AS (SELECT 1 AS b) SELECT b FROM a'
    """
    writer = _written(dialect, pretty)
    if queries:
        named = ", ".join(f"{name} AS {writer.wrap(query)}" for name, query in queries)
        text = f"WITH {named}{writer.sep()}{text}"
    return text.replace(writer.SENTINEL_LINE_BREAK, "\n") if pretty else text


class _Writers(threading.local):
    """The writers of one thread."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, bool], Generator] = {}


_WRITERS = _Writers()


def _written(dialect: str, pretty: bool) -> Generator:
    found = _WRITERS.known.get((dialect, pretty))
    if found is None:
        found = _writer(dialect)(pretty=pretty, comments=False, dialect=_dialect(dialect))
        _WRITERS.known[dialect, pretty] = found
    found._next_name, found.unsupported_messages = name_sequence("_t"), []
    return found


@lru_cache
def _dialect(name: str) -> Dialect:
    return Dialect.get_or_raise(name or None)


@lru_cache
def _writer(name: str) -> type[Generator]:
    """A dialect's generator, with what is below in place of its own."""
    own: Any = _dialect(name).generator_class
    types: dict[exp.DType, str] = {}
    functions: dict[type[exp.Expr], str] = {}
    dispatch: dict[type, Any] = {str: lambda _, text: text, type(None): lambda _, nothing: ""}

    class Writer(own):  # type: ignore[misc]
        def sql(self, expression: Any, key: str | None = None, comment: bool = True) -> Any:
            if key is not None and expression.__class__ is not str:
                expression = expression.args.get(key)
            handler = dispatch.get(expression.__class__)
            return handler(self, expression) if handler else super().sql(expression)

        def expressions(self, expression: Any = None, *given: Any, **named: Any) -> Any:
            if expression is None or given or named:
                return super().expressions(expression, *given, **named)
            texts = [text for one in expression.args.get("expressions") or () if (text := self.sql(one))]
            if not self.pretty:
                return ", ".join(texts)
            return self.indent(",\n".join(texts))

        def function_fallback_sql(self, expression: Any) -> Any:
            if self.dialect.ORIGINAL_NAME_META_KEY:
                return super().function_fallback_sql(expression)
            kind, parts = expression.__class__, []
            for key in kind.arg_types:
                part = expression.args.get(key)
                parts += part if part.__class__ is list else [part]
            texts = [self.sql(p) for p in parts if p is not None and p.__class__ is not bool]
            if kind not in functions:
                functions[kind] = self.normalize_func(kind.sql_name())
            if self.pretty and self.too_wide(texts):
                return self.func(functions[kind], *texts)
            return f"{functions[kind]}({', '.join(texts)})"

        def binary(self, expression: exp.Binary, op: str) -> Any:
            args, kind = expression.args, expression.__class__
            if len(args) > 2 or args["this"].__class__ is kind or kind is exp.Is:
                return super().binary(expression, op)
            return f"{self.sql(args['this'])} {op} {self.sql(args['expression'])}"

        def identifier_sql(self, expression: exp.Identifier) -> Any:
            name = expression.args["this"]
            if not name.isidentifier():
                return super().identifier_sql(expression)
            quoted = expression.args.get("quoted") or name.lower() in self.RESERVED_KEYWORDS
            return f"{self._identifier_start}{name}{self._identifier_end}" if quoted else name

        def column_sql(self, expression: exp.Column) -> Any:
            args = expression.args
            if len(args) > 2 and (args.get("db") or args.get("join_mark") or args.get("shadow")):
                return super().column_sql(expression)
            table, name = args.get("table"), args["this"]
            column = self.identifier_sql(name) if name.__class__ is exp.Identifier else self.sql(name)
            return f"{self.identifier_sql(table)}.{column}" if table else column

        def datatype_sql(self, expression: exp.DataType) -> Any:
            kind = expression.args["this"]
            if any(value for part, value in expression.args.items() if part != "this"):
                # sqlglot writes the precision of an interval as if it were a unit.
                return re.sub(r"^INTERVAL (\d+)$", r"INTERVAL(\1)", super().datatype_sql(expression))
            if kind not in types:
                types[kind] = super().datatype_sql(expression)
            return types[kind]

        def table_sql(self, expression: exp.Table, sep: str = " AS ") -> Any:
            args = expression.args
            if any(args[part] for part in args.keys() - _TABLE):
                return super().table_sql(expression, sep)
            table, alias = self.sql(args["this"]), args.get("alias")
            named = f"{self.sql(args['db'])}.{table}" if args.get("db") else table
            return f"{named}{sep}{self.sql(alias)}" if alias else named

        def indent(
            self, sql: str, level: int = 0, pad: int | None = None, *skipped: bool, **skips: bool
        ) -> Any:
            if not self.pretty or not sql or skipped or any(skips.values()):
                return super().indent(sql, level, pad, *skipped, **skips)
            margin = " " * (level * self._indent + (self.pad if pad is None else pad))
            return margin + sql.replace("\n", f"\n{margin}")

        def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> Any:
            args = expression.args
            if any(args[part] for part in args.keys() - _SUBQUERY):
                return super().subquery_sql(expression, sep)
            query, shown = self.wrap(expression), self.sql(args.get("alias"))
            return f"{query}{sep}{shown}" if shown else query

        def tablealias_sql(self, expression: exp.TableAlias) -> Any:
            args = expression.args
            if args.get("columns") or not args.get("this"):
                return super().tablealias_sql(expression)
            return self.sql(args["this"])

        def from_sql(self, expression: exp.From) -> str:
            return f"{self.sep()}FROM {self.sql(expression.args['this'])}"

        def group_sql(self, expression: exp.Group) -> Any:
            if expression.args.keys() != {"expressions"}:
                return super().group_sql(expression)
            return self.op_expressions("GROUP BY", expression)

        def star_sql(self, expression: exp.Star) -> Any:
            return super().star_sql(expression) if any(expression.args.values()) else "*"

        def alias_sql(self, expression: exp.Alias) -> str:
            return f"{self.sql(expression.args['this'])} AS {self.sql(expression.args['alias'])}"

    def cast(self: Any, node: exp.Expr) -> Any:
        if len(node.args) > 2 or node.args["this"].__class__ is exp.IntDiv:
            return dispatched[exp.Cast](self, node)
        return f"CAST({self.sql(node.args['this'])} AS {self.sql(node.args['to'])})"

    def select(self: Any, node: exp.Expr) -> Any:
        args, distinct = node.args, node.args.get("distinct")
        own = isinstance(args.get("limit"), exp.Fetch) or (distinct and any(distinct.args.values()))
        if own or any(args[part] for part in args.keys() - _SELECT):
            return dispatched[exp.Select](self, node)
        shown, word = self.expressions(node), "SELECT DISTINCT" if distinct else "SELECT"
        written = [f"{word}{self.sep()}{shown}" if shown else word]
        for clause in _CLAUSES:
            value = args.get(clause)
            if value:
                written += map(self.sql, value) if value.__class__ is list else [self.sql(value)]
        text = "".join(written)
        return f"{self.sql(args['with_'])}{self.sep()}{text}" if args.get("with_") else text

    dispatched = Writer()._dispatch
    dispatch |= {**dispatched, exp.Cast: cast, exp.Select: select} if name in _PLAIN else dispatched
    return Writer
