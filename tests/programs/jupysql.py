"""JupySQL: its magics in an IPython shell."""

from __future__ import annotations

from typing import Any

import matplotlib
from IPython.core.interactiveshell import InteractiveShell

from tests.programs.actions import COUNTRIES, URL, action, near, run

SHELL: Any = InteractiveShell.instance()
BY_COUNTRY = "SELECT country, COUNT(*) AS n FROM app.users GROUP BY country"


def sql(line: str, cell: str = "") -> Any:
    """What a magic gives."""
    if cell:
        return SHELL.run_cell_magic("sql", line, cell)
    return SHELL.run_line_magic("sql", line)


@action("connect")
def connect() -> None:
    SHELL.run_line_magic("load_ext", "sql")
    SHELL.run_line_magic("config", "SqlMagic.displaycon = False")
    sql(URL.replace("postgresql:", "postgresql+psycopg2:"))


@action("%sql")
def line() -> None:
    assert {row.country for row in sql(BY_COUNTRY)} == COUNTRIES


@action("%%sql with a variable")
def cell() -> None:
    SHELL.user_ns["oldest"] = 57
    near(sql("", "SELECT COUNT(*) AS n FROM app.users WHERE age <= {{oldest}}")[0].n, 2000)


@action("DataFrame")
def frame() -> None:
    near(sql(BY_COUNTRY).DataFrame().set_index("country").n["DE"], 1000)


@action("PolarsDataFrame")
def polars() -> None:
    assert set(sql(BY_COUNTRY).PolarsDataFrame()["country"]) == COUNTRIES


@action("autopandas")
def autopandas() -> None:
    SHELL.run_line_magic("config", "SqlMagic.autopandas = True")
    try:
        near(sql(BY_COUNTRY).n.sum(), 4000)
    finally:
        SHELL.run_line_magic("config", "SqlMagic.autopandas = False")


@action("--save and --with")
def saved() -> None:
    sql("--save adults --no-execute", "SELECT country, age FROM app.users WHERE age >= 58")
    near(sql("--with adults", "SELECT COUNT(*) AS n FROM adults")[0].n, 2000)


@action("%sqlcmd tables")
def tables() -> None:
    assert "users" in str(SHELL.run_line_magic("sqlcmd", "tables --schema app"))


@action("%sqlcmd columns")
def columns() -> None:
    assert "balance" in str(SHELL.run_line_magic("sqlcmd", "columns --schema app --table users"))


@action("%sqlcmd profile of a public table")
def public_profile() -> None:
    assert "50" in str(SHELL.run_line_magic("sqlcmd", "profile --schema app --table articles"))


@action("%sqlcmd profile")
def profile() -> None:
    assert "age" in str(SHELL.run_line_magic("sqlcmd", "profile --schema app --table users"))


@action("histogram")
def histogram() -> None:
    SHELL.run_line_magic("sqlplot", "histogram --schema app --table users --column age --bins 10")


@action("histogram of categories")
def categories() -> None:
    SHELL.run_line_magic("sqlplot", "histogram --schema app --table users --column country")


@action("boxplot")
def boxplot() -> None:
    SHELL.run_line_magic("sqlplot", "boxplot --schema app --table users --column age")


@action("bar and pie")
def bar() -> None:
    result = sql(BY_COUNTRY)
    result.bar()
    result.pie()


@action("%sqlplot bar of a saved query")
def plotted() -> None:
    sql("--save counted --no-execute", "SELECT country FROM app.users")
    SHELL.run_line_magic("sqlplot", "bar --table counted --with counted --column country")


@action("%sql of raw rows")
def rows() -> None:
    sql("SELECT * FROM app.users LIMIT 10")


@action("%sqlcmd explore of a public table")
def explore() -> None:
    SHELL.run_line_magic("sqlcmd", "explore --schema app --table articles")


if __name__ == "__main__":
    matplotlib.use("Agg")
    run("jupysql", "ipython", "pandas")
