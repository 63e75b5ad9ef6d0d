"""One line of JSON a statement on standard error: who, which, at what price, how long; no text of it, no data."""

from __future__ import annotations

import hmac
import logging
import sys
from contextlib import suppress
from functools import partial
from typing import TextIO

import structlog

from budget.units import shown
from dpproxy.telemetry.observer import Observer, StatementEnd

_SHARED: list[structlog.typing.Processor] = [
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    structlog.processors.EventRenamer("event"),
]


class StatementLog(Observer):
    """Writes a line for every statement that ends.

    `key`: 32 secret bytes. The fingerprint of a text is keyed, so that nobody who reads the log can try out which
    literals a statement had; the same text has the same fingerprint.
    """

    def __init__(self, key: bytes, out: TextIO | None = None) -> None:
        self._key = key
        self._log = structlog.wrap_logger(
            structlog.WriteLogger(sys.stderr if out is None else out),
            processors=[*_SHARED, structlog.processors.JSONRenderer(ensure_ascii=True)],
            wrapper_class=structlog.BoundLogger,
        )

    def ended(self, statement: StatementEnd) -> None:
        """Writes the statement's line, unless standard error was closed."""
        paid = statement.paid
        write = partial(
            self._log.info,
            "refused" if statement.code else "answered",
            account=statement.account,
            fingerprint=None if statement.text is None else self.fingerprint(statement.text),
            code=statement.code or "00000",
            information=shown(paid.information),
            calls=shown(paid.calls),
            bought=paid.bought,
            replayed=paid.replayed,
            milliseconds=None if statement.seconds is None else round(1000 * statement.seconds, 1),
        )
        with suppress(OSError, ValueError):
            write()

    def fingerprint(self, text: str) -> str:
        """16 hexadecimal digits for a text."""
        return hmac.digest(self._key, text.encode(errors="surrogatepass"), "sha256").hex()[:16]


def json_everywhere(out: TextIO | None = None) -> None:
    """Has what the proxy itself logs come as JSON lines, too."""
    handler = logging.StreamHandler(sys.stderr if out is None else out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            ],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
