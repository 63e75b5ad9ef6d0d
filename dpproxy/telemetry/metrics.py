"""Prometheus metrics of one process, or of all workers together: counts and durations, no label that data decide.

How long a query takes depends on data (docs/threat-model.md): the page is the owner's alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TypeVar, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from budget.account import FailureKind
from budget.units import units
from dpproxy.telemetry.lateness import WHAT
from dpproxy.telemetry.observer import Observer, StatementEnd, catalogued
from dpproxy.telemetry.stages import STAGES, Stage
from rewriter.refusal import CATALOGUE

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The environment's name, which prometheus_client reads when it is imported, of the folder that workers share."""
Labelled = TypeVar("Labelled", Counter, Gauge, Histogram)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics(Observer):
    """Counts ended statements. With SHARED set, the counts lie in files of that folder, one set for each process."""

    def __init__(self, slots: int) -> None:
        """`slots`: of the backend, in this process."""
        self.registry = registry = CollectorRegistry()
        # Every label begins with the value 0, so that a first refusal is an increase.
        self._answers = _labelled(
            Counter("dpproxy_answers", "Private statements answered.", ["paid"], registry=registry),
            ("bought", "replayed", "free"),
        )
        self._refusals = _labelled(
            Counter(
                "dpproxy_refusals", "Statements that got an error, by SQLSTATE.", ["code"], registry=registry
            ),
            (*CATALOGUE, catalogued("")),
        )
        self._releases = _labelled(
            Counter("dpproxy_releases", "Releases, bought or replayed.", ["paid"], registry=registry),
            ("bought", "replayed"),
        )
        self._charged = _labelled(
            Counter(
                "dpproxy_charged_units", "Budget units charged to analysts.", ["unit"], registry=registry
            ),
            ("information", "calls"),
        )
        self._failures = _labelled(
            Counter(
                "dpproxy_backend_failures",
                "Statements that failed at the backend, or were stopped there.",
                ["kind"],
                registry=registry,
            ),
            get_args(FailureKind),
        )
        self._statements = Histogram(
            "dpproxy_statement_seconds",
            "From a private statement's start to its answer or refusal.",
            buckets=_SECONDS,
            registry=registry,
        )
        self._stages = _labelled(
            Histogram(
                "dpproxy_stage_seconds",
                "Stages of private statements.",
                ["stage"],
                buckets=_SECONDS,
                registry=registry,
            ),
            STAGES,
        )
        gauge = partial(Gauge, multiprocess_mode="livesum", registry=registry)
        self._sessions = gauge("dpproxy_sessions", "Analysts' sessions.")
        self._busy = gauge("dpproxy_backend_slots_busy", "Slots of the backend in use.")
        self._late = _labelled(
            Gauge(
                "dpproxy_late_seconds",
                "How long the event loop, or a login, had to wait within the last seconds.",
                ["what"],
                multiprocess_mode="liveall",
                registry=registry,
            ),
            WHAT,
        )
        gauge("dpproxy_backend_slots", "Slots of the backend.").set(slots)

    def late(self, what: str, seconds: float) -> None:
        """The loop, or a login, had to wait so long lately."""
        self._late[what].set(seconds)

    def stage(self, stage: Stage, seconds: float) -> None:
        """A stage of a private statement is over."""
        self._stages[stage].observe(seconds)

    def ended(self, statement: StatementEnd) -> None:
        """Counts an answer or a refusal, and what was paid: a refusal may have cost something, too."""
        paid = statement.paid
        if statement.code:
            self._refusals[catalogued(statement.code)].inc()
        else:
            self._answers[_kind(paid.bought, paid.replayed)].inc()
        self._releases["bought"].inc(paid.bought)
        self._releases["replayed"].inc(paid.replayed)
        self._charged["information"].inc(float(units(paid.information)))
        self._charged["calls"].inc(float(units(paid.calls)))
        if statement.seconds is not None:
            self._statements.observe(statement.seconds)

    def failed(self, kind: FailureKind) -> None:
        """Counts a failure of the backend."""
        self._failures[kind].inc()

    def session(self, change: int) -> None:
        """So many sessions more, or fewer."""
        self._sessions.inc(change)

    def slot(self) -> AbstractContextManager[object]:
        """For as long as a slot of the backend is held."""
        return self._busy.track_inprogress()


def page_of(metrics: Metrics) -> bytes:
    """The metrics of this process, in Prometheus' text format."""
    return generate_latest(metrics.registry)


def page_of_stopped(logins: int, analysts: int) -> bytes:
    """How many are stopped by failures of the backend, which the ledger knows for all proxies."""
    registry = CollectorRegistry()
    told = Gauge(
        "dpproxy_stopped", "Who gets nothing new before the owner has looked.", ["who"], registry=registry
    )
    told.labels("login").set(logins)
    told.labels("analyst").set(analysts)
    return generate_latest(registry)


def page_of_all(folder: Path) -> bytes:
    """The metrics of all processes that share `folder`, those that died included, but for their gauges."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def forget_gauges(folder: Path, pid: int) -> None:
    """Drops the gauges of a dead process that shared `folder`, such as its sessions; its counters stay."""
    mark_process_dead(pid, path=str(folder))  # type: ignore[no-untyped-call]


def environment(folder: Path) -> Mapping[str, str]:
    """The environment of a process whose metrics are to lie in `folder`."""
    return {**os.environ, SHARED: str(folder)}


def _labelled(metric: Labelled, labels: Iterable[str]) -> dict[str, Labelled]:
    """The metric by its label: finding it takes longer than counting."""
    return {label: metric.labels(label) for label in labels}


def _kind(bought: int, replayed: int) -> str:
    return "bought" if bought else "replayed" if replayed else "free"
