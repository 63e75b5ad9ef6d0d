"""One execution of a private statement, as a session asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpproxy.backends.base import Cancellation
from dpproxy.engine.last_release import LastRelease
from dpproxy.telemetry.observer import ChargeTally, Observer
from dpproxy.telemetry.stages import Stages


@dataclass(frozen=True)
class QueryRequest:
    """What the client sent, who it is, and what its session has set and remembers.

    `oids`, `parameters`: the parameters' types, and their values in canonical text; `last`: what the session knows
    of its last answer, which is read and noted anew; `stages`: where the execution is; `attributed`: for whom a
    tool's comment says that it asks, a note for the history; `paid`: what it has cost so far; `watcher`: is told
    where it holds a slot of the backend.
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
