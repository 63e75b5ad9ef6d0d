"""The programs, how each is run, and which of its actions are refused and why."""

from __future__ import annotations

from tests.programs.table import HERE, Program, node, python

ROWS = "raw rows of a private table"
WRITES = "analysts write nothing but published tables"
GOCODE = "/usr/share/gocode"
"""Where Debian keeps Go's libraries."""

PROGRAMS: tuple[Program, ...] = (
    python(
        "dbt",
        "dbt",
        {
            "relationships of sources": (
                "None is not of type 'integer'",
                "where no row breaks the key, too few units have one for a number to be released: dbt gets NULL",
            ),
            "incremental, its second run": (
                "only tables can be published",
                "needs a temporary table: build tables, which are free within an epoch",
            ),
            "a view": (
                "a view would run its query each time",
                "would be asked each time it is read: build a table",
            ),
            "a seed": ("created AS a query", "is no query: the owner has public tables for it"),
        },
    ),
    python(
        "notebook",
        "jupysql",
        {
            "%sqlcmd profile": ("row-level output", f"{ROWS}; profile a published table"),
            "boxplot": ("PERCENTILE_DISC", "draws outliers, which are rows"),
            "%sql of raw rows": ("row-level output", ROWS),
        },
        "JupySQL",
    ),
    python(
        "notebook",
        "expectations",
        {
            "examples of unexpected values": ("row-level output", f"{ROWS}; take `BOOLEAN_ONLY`"),
            "median between": (
                "row-level output",
                f"{ROWS} from the middle; quantiles between asks the same",
            ),
        },
        "Great Expectations",
    ),
    python(
        "notebook",
        "polars",
        {"rows of a table": ("row-level output", ROWS), "write_database": ("changes no data", WRITES)},
    ),
    python("notebook", "connectorx", {"rows of a table": ("row-level output", ROWS)}),
    python(
        "notebook",
        "adbc",
        {"rows of a table": ("row-level output", ROWS), "ingest": ("changes no data", WRITES)},
        "ADBC",
    ),
    python(
        "notebook",
        "sqlalchemy",
        {"rows of a mapped class": ("row-level output", ROWS), "create_all": ("changes no data", WRITES)},
        "SQLAlchemy",
    ),
    node("postgres.js", {"rows of a table": ("PV010", ROWS), "insert": ("25006", WRITES)}),
    node("Sequelize", {"findOne of a private table": ("PV010", ROWS), "sync": ("0A000", WRITES)}),
    node("Drizzle", {"rows of a table": ("PV010", ROWS), "insert": ("25006", WRITES)}),
    node("Knex", {"rows of a table": ("PV010", ROWS), "createTable": ("25006", WRITES)}),
    python(
        "superset",
        "superset",
        {
            "a dataset of a query of rows": (
                "500",
                "Superset asks it for one row: make the dataset of a table, or of a view in the policy",
            ),
            "samples": ("row-level output", ROWS),
            "a table of raw records": ("row-level output", ROWS),
        },
        "Superset",
    ),
    python(
        "pgadmin",
        "pgadmin",
        {
            "query tool: explain analyze": (
                "would run the query",
                "would buy the answer: explain shows the price",
            ),
            "view data": ("PV010", ROWS),
        },
        "pgAdmin",
    ),
    Program(
        "dbplyr",
        "r/dbplyr.R",
        ("Rscript", str(HERE / "r" / "dbplyr.R")),
        "/usr/lib/R/site-library/dbplyr",
        {
            "head of a private table": ("row-level output", ROWS),
            "compute": ("changes no data", WRITES),
            "dbWriteTable": ("is not TRUE", WRITES),
        },
    ),
    Program(
        "pgx",
        "go/main.go",
        ("env", "GO111MODULE=off", f"GOPATH={GOCODE}", "go", "run", str(HERE / "go" / "main.go")),
        f"{GOCODE}/src/github.com/jackc/pgx/v4",
        {"rows of a table": ("PV010", ROWS), "CopyFrom": ("42501", WRITES)},
    ),
)
