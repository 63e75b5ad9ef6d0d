"""The table of programs in docs/clients.md is of the actions that `make programs` does."""

from __future__ import annotations

import pytest

from tests.programs.register import PROGRAMS
from tests.programs.table import PAGE, Done, Program, rows, written


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.name for program in PROGRAMS])
def test_a_row_has_the_actions_of_its_program(program: Program) -> None:
    cells = rows(PAGE.read_text())[program.name].split(" | ")
    assert cells[1:] == Done(program, {}, {}, "").row().split(" | ")[1:]
    assert len(program.actions()) >= 10


def test_what_does_not_end_as_it_should_is_a_failure_and_other_rows_are_kept() -> None:
    program = Program("it", "dbt.py", (), "", {"a view": ("0A000", "no views")})
    right = dict.fromkeys(program.actions()) | {"a view": "0A000: no"}
    assert [*Done(program, {}, right, "").failures()] == []
    (missing,) = Done(program, {}, right | {"a view": None}, "").failures()
    assert missing == "it: a view: nothing said 0A000"
    (wrong,) = Done(program, {}, right | {"debug": "it broke"}, "").failures()
    assert wrong == "it: debug: it broke"
    page = PAGE.read_text()
    assert written(page, [], PROGRAMS) == page
