"""The peers' benchmark without the peers: what their processes leave behind, the table, and their part of the page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.page_parts import rewritten
from benchmarks.peers import ours
from benchmarks.peers.page import Run, figures, findings, part
from benchmarks.peers.processes import asked, guarded
from benchmarks.peers.tasks import REPEATS, TASKS, GroupValues, Outcome, cannot

TRUTH: dict[str, GroupValues] = {
    "people by country": {"a": 100.0, "b": 200.0},
    "top-10 articles": {str(n): 1000.0 - n for n in range(20)},
    "COUNT(*)": {"": 1000.0},
    "SUM by country": {"a": 10.0, "b": 20.0},
    "distinct articles": {"": 20.0},
}


def outcome(peer: str, value: float, seconds: float) -> Outcome:
    """One that answers COUNT(*) alone, with this value."""
    answers, times = {"COUNT(*)": [{"": value}]}, {"COUNT(*)": [seconds]}
    others = [task for task in TASKS if task != "COUNT(*)"]
    return Outcome(
        peer, "bounds", "nothing", answers, times, {others[0]: "no"}, dict.fromkeys(others[1:], "KeyError")
    )


def counted(peer: str, groups: GroupValues, seconds: float) -> Outcome:
    """One that answers people by country alone."""
    return Outcome(peer, "", "", {TASKS[0]: [dict(groups)]}, {TASKS[0]: [seconds]})


def fake(folder: Path, code: str) -> str:
    """An interpreter that runs this instead of an adapter."""
    file = folder / "python"
    file.write_text(f"#!{sys.executable}\n{code}\n")
    file.chmod(0o700)
    return str(file)


def test_an_outcome_passes_from_process_to_process() -> None:
    found = outcome("x", 1.0, 0.5)
    assert Outcome.load(found.dump()) == found


def test_a_peer_that_raises_is_asked_the_other_tasks() -> None:
    found, left = Outcome("x", "", ""), iter([{"": 1.0}])
    found.ask("COUNT(*)", lambda: next(left))
    found.ask("SUM by country", cannot("no sums"))
    found.ask("distinct articles", lambda: {"": 2.0})
    assert found.failed == {"COUNT(*)": "StopIteration: "}
    assert found.cannot == {"SUM by country": "no sums"}
    assert found.answers == {"distinct articles": [{"": 2.0}] * REPEATS}
    assert len(found.seconds["distinct articles"]) == REPEATS


@pytest.mark.service
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import sys; sys.exit('no module|named x')", "exit code 1: no module/named x"),
        ("print('[1, 2]')", "exit code 0: it printed no outcome"),
        ("print('{\"nobody\": 1}')", "exit code 0: it printed no outcome"),
        ("import time; time.sleep(60)", "no answer within 2 seconds"),
    ],
)
def test_a_peer_that_fails_is_named_with_its_reason(tmp_path: Path, code: str, reason: str) -> None:
    found = asked("x", fake(tmp_path, code), "rows.csv", longest=2)
    assert found.failed == dict.fromkeys(TASKS, reason)


@pytest.mark.service
def test_a_peer_answers_on_its_last_line(tmp_path: Path) -> None:
    answer = outcome("x", 1.0, 0.5)
    code = f"import sys; print('noise'); print({answer.dump()!r})"
    assert asked("x", fake(tmp_path, code), "rows.csv") == answer


def test_a_missing_environment_is_named() -> None:
    assert "was not built" in asked("x", "/nowhere/python", "rows.csv").failed["COUNT(*)"]


def test_what_a_measurement_raises_is_that_peers_failure() -> None:
    def measure() -> Outcome:
        raise OSError("no space")

    assert guarded("x", measure).failed == dict.fromkeys(TASKS, "OSError: no space")


def test_figures_are_held_against_the_truth() -> None:
    found = Outcome("x", "", "")
    found.answers["top-10 articles"] = [
        {"0": 1100.0, "1": 999.0, "15": 985.0},
        {"0": 900.0, "absent": 50.0},
        {"0": 1000.0},
    ]
    found.seconds["top-10 articles"] = [3.0, 1.0, 2.0]
    at = figures(found, "top-10 articles", TRUTH["top-10 articles"])
    assert at is not None
    assert (at.seconds, at.first, at.right, at.wanted) == (2.0, 3.0, 1, 10)
    assert at.error == pytest.approx((0 + 0.1) / 2)
    assert figures(found, "COUNT(*)", TRUTH["COUNT(*)"]) is None


def test_the_table_says_what_failed_and_what_cannot_be() -> None:
    run = Run([(outcome("us", 1010.0, 0.5), 7), (outcome("x", 990.0, 2.0), 9)], TRUTH, 100, 0.5)
    cells = {tuple(row[:2]): row[2:] for row in run.rows}
    assert len(cells) == 2 * len(TASKS)
    assert cells["COUNT(*)", "x"] == ("2.00 (2.00)", "1%", "1 of 1")
    assert cells["people by country", "x"] == ("-", "cannot: no", "-")
    assert cells["SUM by country", "x"] == ("-", "failed: KeyError", "-")


def test_findings_compare_ours_with_the_others() -> None:
    found = [
        counted("dpproxy", {"a": 130.0, "b": 260.0}, 0.5),
        counted("dpproxy again", {"a": 110.0}, 0.25),
        counted("x", {"a": 90.0, "b": 180.0}, 2.0),
        counted("y", {"a": 150.0}, 3.0),
    ]
    seconds, first, second, *silent = findings(Run([(one, 7) for one in found], TRUTH, 100, 0.5))
    assert "answers in 0.25 to 0.50 s, the others in 2.00 to 3.00 s" in seconds
    assert first.endswith(
        "dpproxy: 3.0 (people by country) to 3.0 (people by country) times the smallest of theirs."
    )
    assert "dpproxy again: 1.0 (people" in second
    assert silent[0] == "- Not answered: top-10 articles by dpproxy, dpproxy again, x, y."
    assert len(silent) == 4


@pytest.mark.parametrize("exact", [counted("x", TRUTH["people by country"], 2.0), outcome("x", 990.0, 2.0)])
def test_there_is_no_ratio_to_an_exact_answer_or_of_single_numbers(exact: Outcome) -> None:
    ours = counted("dpproxy", {"a": 130.0}, 0.5) if exact.cannot == {} else outcome("dpproxy", 1030.0, 0.5)
    said = [*findings(Run([(ours, 7), (exact, 9)], TRUTH, 100, 0.5))]
    assert said[1] == "- Error of groups, dpproxy: compared with none."


FAILED = Run([(Outcome.nothing("us", "boom"), 7), (outcome("x", 1000.0, 2.0), 9)], TRUTH, 100, 0.5)
"""One that failed before the first answer, and one that gave an exact one."""


def test_a_failure_leaves_the_others_on_the_page() -> None:
    written = part(FAILED, 1000, "a machine")
    assert "| COUNT(*) | us | - | failed: boom | - |" in written
    assert "| us |  |  | - |" in written
    assert "| x | bounds | nothing | 9 |" in written


def test_a_failure_leaves_the_others_in_the_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib draws the figure: `make bench-peers` has it")
    from benchmarks.peers.plot import plot

    plot(tmp_path / "peers.svg", FAILED)
    drawn = (tmp_path / "peers.svg").read_text()
    assert "<!-- x -->" in drawn
    assert "<!-- us -->" not in drawn


@pytest.mark.service
def test_ours_answers_within_the_budget_of_one_answer(tmp_path: Path) -> None:
    found = ours.measured(tmp_path, 2_000, "laplace", ("COUNT(*)", "distinct articles"))
    assert not found.failed
    assert len({groups[""] for groups in found.answers["COUNT(*)"]}) > 1, (
        "each analyst's answer has noise of its own"
    )
    assert list(found.cannot) == ["distinct articles"]


def test_each_part_of_the_page_is_kept_when_the_other_is_written() -> None:
    page = rewritten("# Old figures\n", "peers", "## Peers")
    assert page == "# Old figures\n\n<!-- peers -->\n\n## Peers\n"
    again = rewritten(page, "", "# New figures\n")
    assert again == "# New figures\n\n<!-- peers -->\n\n## Peers\n"
    assert rewritten(again, "peers", "## New peers") == "# New figures\n\n<!-- peers -->\n\n## New peers\n"
    assert rewritten(again, "", "# New figures\n") == again
