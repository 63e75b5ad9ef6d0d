"""Parameters' values as constants of a query."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from rewriter.ir.parameter import Parameter, Parameters
from rewriter.ir.trees import cast, copied, data_type
from rewriter.ir.types import INTEGERS, Type, type_named


def constant(parameter: Parameter) -> exp.Expr:
    """A parameter's value as a typed constant, whose type needs no size: the value has been cut or rounded to it.

    >>> constant(Parameter("date", "2024-01-01")).sql("postgres")
    "CAST('2024-01-01' AS DATE)"
    >>> constant(Parameter("timestamp(0) without time zone", "2024-01-01 00:00:01")).sql("postgres")
    "CAST('2024-01-01 00:00:01' AS TIMESTAMP)"
    """
    value = exp.null() if parameter.value is None else exp.Literal.string(parameter.value)
    return cast(value, data_type(type_named(parameter.type).postgres or parameter.type, "postgres"))


def with_constants(node: exp.Expr, parameters: Parameters) -> exp.Expr:
    """A copy of an expression with the values of its parameters.

    >>> with_constants(exp.Parameter(this=exp.Literal.number(1)), (Parameter("integer", "7"),)).sql("postgres")
    "CAST('7' AS INT)"
    """
    return copied(
        node, lambda n: constant(parameters[int(n.name) - 1]) if isinstance(n, exp.Parameter) else None
    )


def compared(parameter: Parameter) -> Parameter:
    """A parameter in a comparison, where trailing zeros after its decimal point have no meaning.

    >>> [compared(Parameter("numeric", text)).value for text in ("1950", "1950.0", "1950.50", "100")]
    ['1950', '1950', '1950.5', '100']
    """
    value = parameter.value or ""
    if type_named(parameter.type) is not Type.NUMERIC or not value.lstrip("-").replace(".", "", 1).isdigit():
        return parameter
    whole, point, decimals = value.partition(".")
    return replace(parameter, value=f"{whole}{point}{decimals}".rstrip("0").rstrip(".") if point else whole)


def plain_constant(parameter: Parameter) -> exp.Expr:
    """A parameter's value as a client writes it; a numeric one is a number, whose type holds all its digits.

    >>> plain_constant(Parameter("numeric", "-1.50")).sql(), plain_constant(Parameter("text", "x")).sql()
    ('(-1.50)', "'x'")
    """
    value, found = parameter.value, type_named(parameter.type)
    if value is not None and (found is Type.TEXT or (found in INTEGERS and value.isdigit())):
        return exp.Literal(this=value, is_string=found is Type.TEXT)
    if value is None or found is not Type.NUMERIC:
        return constant(parameter)
    if not value.lstrip("-").replace(".", "", 1).isdigit():
        return exp.cast(exp.Literal.string(value), "DOUBLE")
    number = exp.Literal.number(value.lstrip("-"))
    return exp.paren(exp.Neg(this=number)) if value.startswith("-") else number
