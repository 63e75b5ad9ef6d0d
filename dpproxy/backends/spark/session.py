"""A session of Spark Connect as a backend: how one is made, and what is pinned in it whatever the server's defaults."""

from __future__ import annotations

import warnings
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql.connect.client.core import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy
from pyspark.sql.connect.session import SparkSession

from dpproxy.backends.base import BackendUnavailable

OLDEST = (4, 0)
PINNED = {
    "spark.sql.ansi.enabled": "false",
    # In Spark 4 it leaves plans of a union under a window without a column that they read, which fails the query.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.RemoveRedundantAliases",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
}
"""What decides what a query means, and that no row can make it raise; `variable.substitute` would read ${...} in the
analysts' texts."""
# pyspark logs what the server says, which may quote rows.
PySparkLogger.getLogger("SQLQueryContextLogger").addFilter(lambda _: False)
_ERRORS = (PySparkException, OSError, ValueError, RuntimeError)
_ATTEMPTS = 3


def place(url: str) -> str:
    """Where a URL leads, without its token; raises BackendUnavailable for a URL that is none.

    >>> place("sc://spark:15002/;token=secret")
    'Spark at spark:15002'
    """
    with suppress(*_ERRORS):
        builder = DefaultChannelBuilder(url)
        return f"Spark at {builder.endpoint}"
    raise BackendUnavailable('the backend\'s url has to be like "sc://host:15002"')


def connected(url: str) -> SparkSession:
    """A new session with all of its settings pinned; raises BackendUnavailable."""
    where, reason = place(url), "it does not answer"
    session: SparkSession | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            session = SparkSession.builder.remote(url).create()
            session.client.set_retry_policies([DefaultPolicy(max_retries=_ATTEMPTS)])
            version = tuple(map(int, str(session.version).split(".")[:2]))
            if version >= OLDEST:
                session.conf._set_all(configs=dict(PINNED), silent=False)
                return session
            reason = (
                f"Spark {OLDEST[0]}.{OLDEST[1]} or later is needed, with the settings of docs/backends.md"
            )
    except _ERRORS:
        pass
    except Exception as error:
        if not type(error).__module__.startswith("grpc"):
            raise
    if session is not None:
        end(session)
    raise BackendUnavailable(f"{where}: {reason}")


def end(session: SparkSession) -> None:
    """Ends a session and all that it runs, whatever state it is in."""
    with suppress(Exception):
        session.client.release_session()
    with suppress(Exception):
        session.client.close()
