"""Nothing of how PostgreSQL is asked comes into the canonical form of a question, which its keys cover."""

from __future__ import annotations

import pytest
from sqlglot import exp

from rewriter.emit.engines.neutral import NEUTRAL
from rewriter.ir.types import Type


@pytest.mark.parametrize("of", Type, ids=lambda of: of.name)
def test_values_are_written_as_they_are(of: Type) -> None:
    value = exp.column("a")
    assert NEUTRAL.key(value, of) is NEUTRAL.cell(value, of) is NEUTRAL.ordered(value, of) is value
    assert NEUTRAL.told(value, of) == (value, of)
    assert NEUTRAL.text(value, of).sql() == "CAST(a AS VARCHAR)"
