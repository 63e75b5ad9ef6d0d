"""One execution of a private statement, as a session asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpproxy.backends.base import Cancellation
from dpproxy.engine.last_release import LastRelease
from dpproxy.engine.selection.groups import Choice
from dpproxy.pgwire.step import Prepared
from dpproxy.telemetry.observer import ChargeTally, Observer
from dpproxy.telemetry.stages import Stages


@dataclass(frozen=True)
class QueryRequest:
    """One execution of a private statement: the text, who sent it, and the state of the session.

    Attributes:
        text: the statement.
        oids, parameters: the types of its parameters, and their values in canonical text.
        analyst: whose budget pays.
        settings: the session's settings by name.
        cancellation: how the execution is cancelled.
        last: the session's last release; read by dpproxy.last_release, replaced by this execution.
        stages: the timings of the execution.
        attributed: the person a tool's comment names as asking; kept in the history.
        paid: what the execution has cost so far.
        watcher: notified while the execution holds a slot of the backend.
        planned: what the session has shown of the statement so far, None where it has shown nothing.
        kept: by their lasting keys, the private choices of a published answer, which its refreshes use again; those
            of this execution are added. None where nothing is published.
        replays: by request key, the stored answers that the execution has replayed, where no other would do as well.
        login: who is logged in, and may act for the analyst; "" for the analyst.
    """

    text: str
    oids: tuple[int, ...]
    analyst: str
    parameters: tuple[str | None, ...]
    settings: Mapping[str, str]
    cancellation: Cancellation = field(default_factory=Cancellation)
    last: LastRelease = field(default_factory=LastRelease)
    stages: Stages = field(default_factory=Stages)
    attributed: str = ""
    paid: ChargeTally = field(default_factory=ChargeTally)
    watcher: Observer = field(default_factory=Observer)
    planned: Prepared | None = None
    kept: dict[bytes, Choice] | None = None
    replays: dict[bytes, bytes] = field(default_factory=dict)
    login: str = ""


@dataclass(frozen=True)
class StepResult:
    """The result of a step: the released arrays in PostgreSQL's binary format, and what to send before the rows."""

    arrays: tuple[bytes, ...]
    notices: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
