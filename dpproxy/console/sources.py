"""What the console reads: the ledger and the configuration, never the backend's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Lock
from time import monotonic

from budget.account import LedgerError
from dpproxy.config.sections import Config
from dpproxy.deployment.service import BoundConfig, Service
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from dpproxy.engine.sealed_texts import SealedTexts
from dpproxy.telemetry.metrics import page_of_stopped

CONSOLE = "console"
"""What the console's secret is derived for."""
_SECONDS = 1.0
"""So long a look at the parts is taken for the present one: monitoring asks often."""


@dataclass(frozen=True)
class Part:
    """A part of the proxy and how it is: `failed` with the kind of error, empty where it can be reached."""

    name: str
    failed: str = ""


class Probe:
    """Checks whether parts can be reached, at most every second."""

    def __init__(self, looks: Mapping[str, Callable[[], object]]) -> None:
        """`looks`: by name of the part; each raises where it cannot be reached."""
        self._looks = looks
        self._at, self._parts = -_SECONDS, tuple[Part, ...]()
        self._lock = Lock()

    def parts(self) -> tuple[Part, ...]:
        """All of them as of now, or of a second ago; may block."""
        with self._lock:
            if monotonic() - self._at >= _SECONDS:
                self._parts = tuple(Part(name, _failure(look)) for name, look in self._looks.items())
                self._at = monotonic()
            return self._parts


def _nobody_is_served_here() -> None:
    """Nobody waits either."""


@dataclass(frozen=True)
class Sources:
    """Where pages come from.

    `bound`: gives the configuration that is served by now; `keys`: 32 secret bytes for cookies, and those of the key
    before; `metrics`: None where nobody is served here; `texts`: what opens the texts of statements, None where the
    file says that none are kept; `served`: raises Late where clients wait.
    """

    bound: Callable[[], BoundConfig]
    ledger: RollbackGuardedLedger
    probe: Probe
    keys: tuple[bytes, ...] = field(repr=False)
    metrics: Callable[[], bytes] | None
    workers: int
    begun: datetime
    texts: SealedTexts | None
    served: Callable[[], None] = _nobody_is_served_here

    @classmethod
    def of(
        cls,
        service: Service,
        metrics: Callable[[], bytes] | None,
        workers: int,
        served: Callable[[], None] = _nobody_is_served_here,
    ) -> Sources:
        """The sources of a running service."""
        looks: dict[str, Callable[[], object]] = {
            "server": served,
            "ledger": service.ledger.high_water.now,
            "front": partial(service.front.rows, "SELECT 1", most=1),
            "backend": service.checked.backend.schema,
        }
        return cls(
            lambda: service.checked,
            service.ledger,
            Probe(looks),
            service.secrets(CONSOLE),
            None if metrics is None else partial(_with_stopped, metrics, service.ledger),
            workers,
            datetime.now(UTC),
            service.texts,
            served,
        )

    @property
    def checked(self) -> BoundConfig:
        """The configuration with its policy."""
        return self.bound()

    @property
    def config(self) -> Config:
        """The configuration."""
        return self.checked.config


def _with_stopped(page: Callable[[], bytes], ledger: RollbackGuardedLedger) -> bytes:
    """The metrics, with what the ledger knows; without that where it cannot be reached."""
    with suppress(LedgerError):
        stopped = ledger.failures.stopped()
        return page() + page_of_stopped(len(stopped.logins), len(stopped.analysts))
    return page()


def _failure(look: Callable[[], object]) -> str:
    """The kind of an error, not its text: that may name hosts and roles."""
    try:
        look()
    except Exception as error:
        return type(error).__name__
    return ""
