"""Every command that the documentation shows is run: here, beside a small server, or by the test that is named here."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from dpproxy import __version__
from dpproxy.config.key_file import load_keys
from tests.dpproxy.serving import COUNT, POLICY, ROOT, Running, make, serving, within

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "sample_data" / "README.md"]
GENERATED = ROOT / "docs" / "cli.md"
UNIT = (ROOT / "deploy" / "dpproxy.service").read_text()
PROGRAMS = (
    "dpproxy|make|python|python3|pip|pipx|psql|systemctl|journalctl|docker|head|npm|java|dbt|export|curl|sh"
)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
INLINE = re.compile(rf"`((?:{PROGRAMS}) [^`\n]+)`")


@dataclass(frozen=True, order=True)
class Shown:
    """A command and the page that shows it; `typed`: in a block of commands, not in a sentence."""

    page: str
    command: str
    typed: bool = False


def shown() -> Iterator[Shown]:
    """The lines of blocks of commands, and what is a command between backticks or in a file of `deploy`."""
    for path in PAGES:
        page, text = str(path.relative_to(ROOT)), path.read_text()
        if path == GENERATED:
            continue
        for language, block in FENCED.findall(text):
            lines = block.replace("\\\n", " ").splitlines()
            if language == "console":
                yield from (Shown(page, line[2:], True) for line in lines if line.startswith("$ "))
            elif language in ("sh", "bash", "shell"):
                yield from (Shown(page, line.partition(" # ")[0].strip(), True) for line in lines if line)
        yield from (Shown(page, command) for command in INLINE.findall(FENCED.sub("", text)))
    for path in sorted(path for path in (ROOT / "deploy").rglob("*") if path.is_file()):
        for pattern in (rf"^#.*?\b((?:{PROGRAMS}) .+)$", r"^ExecStart=(.*)$"):
            yield from (Shown(f"deploy/{path.name}", c) for c in re.findall(pattern, path.read_text(), re.M))


ALL = sorted(set(shown()))
NAMES = {
    one
    for one in ALL
    if not one.typed
    and re.fullmatch(r"dpproxy( [a-z-]+)+", one.command)
    and any(re.search(rf"\b{one.command} \S", other.command) for other in ALL)
}
"""Commands that are only named: another one that is shown has this one with more behind it, and is run."""

MAKE = {
    "demo": ("dpproxy demo", "tests/docs/test_readme.py::test_psql"),
    "test": (
        " --dist loadfile --no-loadscope-reorder --durations=20",
        "tests/docs/test_readme.py::test_make",
    ),
    "test-slow": (
        "-m pytest -m slow",
        "tests/dpproxy/engine/test_release_keys.py::test_keys_change_with_what_is_released",
    ),
    "accuracy": (
        "-m benchmarks.accuracy --keys 20 --parts sample precision choices dashboard splits newcomer shop tpch "
        "times peers --tpch .venv-tpch --venv .venv",
        "tests/benchmarks/accuracy/test_accuracy.py::test_a_small_shop_down_to_the_page",
    ),
    "audit": ("-m tests.audit", "tests/audit/test_audit.py::test_case"),
    "audit-sql": ("-m tests.audit sql", "tests/audit/test_audit_sql.py::test_question"),
    "availability": (
        "-m benchmarks.latency.availability",
        "tests/benchmarks/latency/test_availability.py::test_a_bystander_is_answered_beside_an_attack",
    ),
    "bench": (
        "-m benchmarks.latency",
        "tests/benchmarks/latency/test_bench.py::test_every_part_of_it",
    ),
    "bench-growth": (
        "-m benchmarks.latency.growth",
        "tests/benchmarks/latency/test_growth.py::test_a_ledger_is_filled_and_measured",
    ),
    "bench-ledger": (
        "-m benchmarks.latency.ledger",
        "tests/benchmarks/latency/test_ledger.py::test_reserve_and_settle",
    ),
    "bench-peers": (
        "-m benchmarks.peers .venv",
        "tests/benchmarks/peers/test_peers.py::test_ours_answers_within_the_budget_of_one_answer",
    ),
    "bench-planning": (
        "-m benchmarks.latency.planning",
        "tests/benchmarks/latency/test_planning.py::test_planning",
    ),
    "bench-ratios": (
        "-m benchmarks.latency.ratios sample visits tpch",
        "tests/benchmarks/latency/test_ratios.py::test_a_statement_is_timed_in_every_way",
    ),
    "bench-relay": (
        "-m benchmarks.latency.relay",
        "tests/benchmarks/latency/test_relay.py::test_the_relay_beside_the_front",
    ),
    "timing": (
        "-m benchmarks.latency.timing",
        "tests/benchmarks/latency/test_timing.py::test_times_that_differ_are_told_apart_and_others_are_not",
    ),
    "bench-scale": (
        "-m benchmarks.scale.duckdb",
        "tests/benchmarks/scale/test_duckdb.py::test_a_large_count_in_a_process",
    ),
    "clients": (
        "-m tests.clients",
        "tests/clients/test_clients.py::test_a_client_has_every_feature",
    ),
    "corpora": ("-m benchmarks.corpora.errors", "tests/benchmarks/corpora/test_errors.py::test_corpora"),
    "coverage": ("-m benchmarks.corpora.coverage", "tests/benchmarks/corpora/test_errors.py::test_coverage"),
    "fuzz": (
        "-m tests.rewriter.fuzz 600",
        "tests/rewriter/test_fuzz_text.py::test_nothing_but_a_refusal_leaves_the_rewriter",
    ),
    "image": (
        "-m pytest -m slow tests/deploy",
        "tests/deploy/test_manifests.py::test_the_image_has_what_it_copies",
    ),
    "ledger-torture": ("-m tests.budget.torture", "tests/budget/test_torture.py::test_a_short_race"),
    "spoiled": (
        '-m pytest -m "slow or not slow" tests/rewriter/test_spoiled.py',
        "tests/rewriter/test_spoiled.py::test_some_statements",
    ),
    "replay": (
        "-m tests.replay  --seconds 1800 --engines duckdb,postgresql",
        "tests/replay/test_replay.py::test_nothing_but_paid_draws_tells_a_unit_in_generated_statements",
    ),
    "adversary": (
        "-m tests.adversary   --seconds 1800",
        "tests/adversary/test_adversary.py::test_an_adversary_learns_no_more_than_is_charged",
    ),
    "adversary-mutants": (
        "-m tests.adversary --mutants --seed 1",
        "tests/adversary/test_adversary.py::test_a_mistake_of_the_accounting_is_found",
    ),
    "audit-sequential": (
        "-m tests.audit sequential 1800",
        "tests/audit/test_audit.py::test_a_sequential_test_stops_where_it_is_certain_and_tells_its_power",
    ),
    "oracle": (
        "--seconds 1800 --engines duckdb,postgresql",
        "tests/oracle/test_oracle.py::test_a_unit_does_what_its_price_assumes_and_nothing_to_others",
    ),
    "truth": (
        "--seconds 1800 --engines duckdb,postgresql",
        "tests/truth/test_truth.py::test_answers_without_noise_are_postgresqls",
    ),
    "operators": (
        "-m tests.oracle.operators",
        "tests/oracle/test_oracle.py::test_every_accepted_pair_of_operators_is_reached",
    ),
    "identity": (
        "-m pytest -m slow tests/identity",
        "tests/dpproxy/server/test_jwt.py::test_a_token_is_a_password",
    ),
    "programs": (
        "-m tests.programs ",
        "tests/programs/test_table.py::test_a_row_has_the_actions_of_its_program",
    ),
    "published": (
        "-m tests.published {root}/.venv-dbt/bin/dbt",
        "tests/published/test_dashboard.py::test_six_queries_per_refresh_and_none_for_fifty_sessions",
    ),
    "reproduce": (
        "-m benchmarks.papers.figures",
        "tests/benchmarks/papers/test_figures.py::test_a_figure_of_the_sample_data",
    ),
    "reproduce-sql": (
        "-m benchmarks.papers.figures_in_sql",
        "tests/benchmarks/papers/test_figures.py::test_a_draw_in_sql_is_near_the_librarys",
    ),
    "spark": (
        "-m benchmarks.scale.spark",
        "tests/benchmarks/scale/test_spark.py::test_a_thousand_users_on_spark",
    ),
}
"""What `make TARGET` calls, and the test that runs the same code to a small extent."""

ELSEWHERE = (
    (
        "docs/budget.md",
        "dpproxy failures.*",
        "tests/dpproxy/deployment/test_failures.py::test_three_failures_stop_until_the_owner_has_looked",
    ),
    ("README.md", r"psql .*", "tests/docs/test_readme.py::test_psql"),
    (
        "README.md",
        r"(echo .* \| )?\.venv/bin/dpproxy .*",
        "tests/docs/test_readme.py::test_own_data",
    ),
    (
        "docs/quickstart-postgres.md",
        r"(dpproxy|psql|echo) .*",
        "tests/docs/test_quickstart.py::test_every_command_in_its_order",
    ),
    ("docs/clients.md", r"(psql|export) .*", "tests/clients/test_docs_clients.py::test_a_snippet_runs"),
    (
        "docs/python.md",
        "pip install .*",
        "tests/clients/test_python_client.py::test_the_wheel_needs_psycopg_alone",
    ),
    (
        "docs/assess.md",
        "dpproxy assess .*",
        "tests/dpproxy/owner/assess/test_assessor.py::test_the_commands_of_the_page_keep_and_charge_nothing",
    ),
    (
        r"docs/(assess|budget)\.md",
        r"dpproxy advise -c dpproxy\.toml --from asked\.sql",
        "tests/dpproxy/owner/test_advise.py::test_a_log_says_which_budgets_it_needs",
    ),
    (
        "docs/budget.md",
        r"dpproxy (budget|audit) .*",
        "tests/dpproxy/cli/test_budget.py::test_every_command_of_the_page_runs",
    ),
    (
        "docs/published.md",
        r"dpproxy publish(ed)? .*",
        "tests/published/test_docs_published.py::test_the_sql_and_the_commands",
    ),
    (
        "docs/operating.md",
        "dpproxy user passwd NAME",
        "tests/dpproxy/cli/test_serve.py::test_a_new_password_holds_at_once",
    ),
    (
        "docs/operating.md",
        "dpproxy user remove NAME",
        "tests/dpproxy/cli/test_serve.py::test_removing_an_analyst_ends_their_sessions_alone",
    ),
    (
        ".*",
        r"dpproxy budget approve( --stop)?",
        "tests/dpproxy/deployment/test_reload.py::test_a_second_person_raises_limits",
    ),
    (
        "docs/report.md",
        r"dpproxy (report( --json)?|check)",
        "tests/dpproxy/owner/test_deployment_report.py::test_the_fields_are_the_registrys",
    ),
    ("docs/identity.md", "dpproxy user add metabase", "tests/docs/test_identity.py::test_the_pool"),
    (
        "docs/console.md",
        "dpproxy console password --auditor",
        "tests/dpproxy/console/test_console.py::test_an_auditor_sees_the_pages_and_no_metrics",
    ),
    (
        ".*",
        "dpproxy console password",
        "tests/dpproxy/console/test_console.py::test_the_password_is_kept_as_a_verifier_and_a_new_one_ends_logins",
    ),
    (
        "docs/console.md",
        r"dpproxy serve --http \S+",
        "tests/dpproxy/console/test_console.py::test_pages_tell_what_happened",
    ),
    (
        ".*",
        r"dpproxy serve --workers \w+",
        "tests/dpproxy/deployment/test_workers.py::test_workers_share_answers_and_accounts",
    ),
    (
        "(docs/operating.md|deploy/.*)",
        r"(docker|echo|psql) (?!.*user=owner).+",
        "tests/deploy/test_image.py::test_psql_is_answered",
    ),
    (
        ".*",
        r"dpproxy (backup|restore) dpproxy\.backup",
        "tests/dpproxy/owner/test_lifecycle.py::test_a_restore_gives_no_budget_back",
    ),
    (
        ".*",
        r"dpproxy key (rotate|retire|show)( --now)?",
        "tests/dpproxy/owner/test_lifecycle.py::test_a_rotation_leaves_nothing_to_the_key_before",
    ),
    (
        "docs/operating.md",
        "dpproxy find keys.txt",
        "tests/dpproxy/owner/test_lifecycle.py::"
        "test_a_person_who_is_deleted_stands_nowhere_unless_an_analyst_has_named_them",
    ),
    (
        "docs/operating.md",
        "psql .*",
        "tests/dpproxy/deployment/test_workers.py::test_the_owner_sees_and_rules_all_workers",
    ),
    (
        "docs/operating.md",
        "systemctl (reload|status|stop) dpproxy",
        "tests/dpproxy/deployment/test_workers.py::test_a_worker_that_hangs_is_replaced",
    ),
    (
        ".*",
        "dpproxy reload",
        "tests/dpproxy/deployment/test_workers.py::"
        "test_a_reload_under_load_ends_no_session_and_buys_again_only_what_has_changed",
    ),
    (
        ".*",
        "dpproxy demo",
        "tests/docs/test_examples.py::test_the_answer_is_near_the_truth_at_the_pages_price",
    ),
    (".*", r"dpproxy --\w+-completion", "tests/test_packaging.py::test_completion_is_there"),
    (
        ".*",
        r"pip (install dpproxy-\S*\.whl|wheel --no-deps \.)",
        "tests/test_packaging.py::test_a_fresh_environment_starts_it",
    ),
    (
        ".*",
        r"pip install .dpproxy\[\w+\].",
        "tests/test_packaging.py::test_what_the_pages_install_is_an_extra",
    ),
    (
        "docs/scale.md",
        r"python -m benchmarks\.scale\.spark [\d ]+",
        "tests/benchmarks/scale/test_spark.py::test_a_thousand_users_on_spark",
    ),
)
"""Page, command, and the test that runs it; of a row with .* at its end the blocks, no sentence."""

TARGETS = sorted({one.command.split()[1] for one in ALL if one.command.startswith("make ")})
RUN_HERE = re.compile(r"dpproxy (check|advise|audit|budget|init|console token)\b.*|head -c 32 .*")
SERVED = re.findall(r"^ExecStart=(.*)$", UNIT, re.M)
BUDGET = """
[budget.teams.acme]
members = ["alice"]
"""


def elsewhere(one: Shown) -> str | None:
    """The test that runs a command, where it is not this module."""
    for page, command, test in ELSEWHERE:
        within_reach = one.typed or not command.endswith(".*")
        if within_reach and re.fullmatch(page, one.page) and re.fullmatch(command, one.command):
            return test
    return None


HERE = sorted(
    {one.command for one in {*ALL} - NAMES if elsewhere(one) is None and RUN_HERE.fullmatch(one.command)},
    key=lambda command: ("export" not in command, command),
)
"""What is run below; what writes a file comes before what reads it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployment and, for `init`, another database."""
    place = tmp_path_factory.mktemp("shown")
    make(place, f'[server]\nauth = "trust"\n{POLICY}{BUDGET}')
    with duckdb.connect(place / "shop.duckdb") as connection:
        connection.execute("CREATE TABLE users (user_id INTEGER PRIMARY KEY, country VARCHAR)")
        connection.execute("CREATE TABLE events (user_id INTEGER NOT NULL, action VARCHAR)")
    return place


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Running]:
    """Served as the unit file says, with two analysts who have asked."""
    (line,) = SERVED
    program, *arguments = shlex.split(line.replace("/var/lib/dpproxy", str(folder)))
    assert program == "/opt/dpproxy/bin/dpproxy"
    with serving([*arguments, "--port", "0"], folder=folder) as running:
        for analyst in ("ann", "alice"):
            with running.connect(analyst) as connection:
                assert len(connection.execute(COUNT.encode()).fetchall()) == 3
        yield running


@pytest.mark.service
@pytest.mark.parametrize("line", HERE)
def test_it_runs(line: str, server: Running, folder: Path, tmp_path: Path) -> None:
    for placeholder, meant in (
        ("URL", f"duckdb:///{folder}/shop.duckdb"),
        ("FILE", "trail.jsonl"),
        ("--preset NAME", "--preset small-data"),
        ("NAME", "ann"),
    ):
        line = re.sub(rf"(?<!\S){placeholder}(?!\S)", meant, line)
    if line.startswith("head "):
        (tmp_path / ".dpproxy").mkdir()
        subprocess.run(["sh", "-c", line], cwd=tmp_path, check=True)
        assert len(load_keys(tmp_path / ".dpproxy" / "key", may_make=False).present) == 32
        return
    _, *arguments = shlex.split(line)
    with chdir(tmp_path if arguments[0] == "init" else folder):
        status, said, errors = within(*arguments)
    assert status == 0, errors
    assert said or arguments[:2] == ["budget", "export"]


def test_no_command_is_without_a_test() -> None:
    missed = [
        one
        for one in ALL
        if one.command not in (*HERE, *SERVED)
        and elsewhere(one) is None
        and one not in NAMES
        and not one.command.startswith("make ")
    ]
    assert missed == []
    assert sorted(MAKE) == TARGETS
    assert {elsewhere(one) for one in ALL} - {None} == {test for *_, test in ELSEWHERE}, "one is of no use"


@pytest.mark.service
@pytest.mark.parametrize("target", TARGETS)
def test_make(target: str) -> None:
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", target]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert any(line.endswith(MAKE[target][0].format(root=ROOT)) for line in said.stdout.splitlines())


@pytest.mark.parametrize(
    "test", sorted({test for *_, test in ELSEWHERE} | {test for _, test in MAKE.values()})
)
def test_the_tests_that_are_named_exist(test: str) -> None:
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / file).read_text())
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_the_wheel_that_is_installed_is_this_version() -> None:
    wheels = {found for one in ALL for found in re.findall(r"\S+\.whl", one.command)}
    assert wheels == {f"dpproxy-{__version__}-py3-none-any.whl"}
