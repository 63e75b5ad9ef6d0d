"""Decisions in multiple precision: bounds of exp and log, and uniforms that grow until they decide."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from mpmath.ctx_iv import MPIntervalContext
from mpmath.libmp import to_int

from mechanisms.randomness import Stream


class _Contexts(threading.local):
    """One interval arithmetic a thread and precision: making one takes milliseconds, using one microseconds."""

    def __init__(self) -> None:
        self.by_precision: dict[int, Any] = {}


_contexts = _Contexts()


def interval_context(precision: int) -> Any:
    """Give this thread's interval arithmetic of a precision (mpmath's shared one is not safe across threads)."""
    if precision not in _contexts.by_precision:
        context = MPIntervalContext()
        context.prec = precision
        _contexts.by_precision[precision] = context
    return _contexts.by_precision[precision]


def interval(context: Any, x: Fraction) -> Any:
    """Enclose a rational in an interval of the context's precision."""
    return context.mpf(x.numerator) / context.mpf(x.denominator)


def floor_ceil(context: Any, x: Any, bits: int) -> tuple[int, int]:
    """Give integers below and above x 2^bits for every x of an interval."""
    scaled = x * context.mpf(1 << bits)
    low, high = scaled._mpi_
    return int(to_int(low, "f")), int(to_int(high, "c"))


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Give integers (low, high) with low <= 2^bits exp(-x) <= high, for x >= 0.

    >>> exp_bounds(Fraction(1), 20)
    (385749, 385750)
    >>> exp_bounds(Fraction(0), 20)
    (1048576, 1048576)
    """
    context = interval_context(bits + 64)
    return floor_ceil(context, context.exp(-interval(context, x)), bits)


class LazyUniform:
    """A uniform number of [0, 1) known to lie in [value, value + 1] / 2^bits, more finely on demand."""

    __slots__ = ("_more", "bits", "value")

    def __init__(self, word: int, more: Stream) -> None:
        """Start from its first 64 bits; further ones come from the stream `more`."""
        self.value = word
        self.bits = 64
        self._more = more

    def refine(self) -> None:
        """Learn the next 64 bits."""
        self.value = self.value << 64 | int(self._more.words(1)[0])
        self.bits += 64


def bernoulli_exp(uniform: LazyUniform, gamma: Fraction) -> bool:
    """Decide U < exp(-gamma) exactly, gamma >= 0, with as many bits of U as it takes."""
    while True:
        low, high = exp_bounds(gamma, uniform.bits)
        if uniform.value + 1 <= low:
            return True
        if uniform.value >= high:
            return False
        uniform.refine()


@dataclass(frozen=True)
class LazyGumbel:
    """The real number score/beta + ln(weight) + G, G = -ln(-ln(1 - U)) standard Gumbel, enclosed at will."""

    level: Fraction
    weight: Fraction
    uniform: LazyUniform

    def enclosure(self, context: Any) -> Any:
        """Give an interval that holds the number, from the bits of U known so far."""
        value, end = self.uniform.value, 1 << self.uniform.bits
        inverse_u = context.mpf([end, end]) / context.mpf([end - value - 1, end - value])
        return (
            interval(context, self.level)
            + context.log(interval(context, self.weight))
            - context.log(context.log(inverse_u))
        )


def compare_gumbel(left: LazyGumbel, right: LazyGumbel) -> int:
    """Compare two lazily known numbers exactly: -1 where left is below right, 1 where it is above.

    Ends with probability 1: the numbers are independent and continuous, and each turn halves the
    width of both uniforms 64 times.
    """
    while True:
        ends = [u.value in (0, (1 << u.bits) - 1) for u in (left.uniform, right.uniform)]
        if not any(ends):
            context = interval_context(max(left.uniform.bits, right.uniform.bits) + 128)
            a, b = left.enclosure(context), right.enclosure(context)
            if a.b < b.a:
                return -1
            if b.b < a.a:
                return 1
        left.uniform.refine()
        right.uniform.refine()
