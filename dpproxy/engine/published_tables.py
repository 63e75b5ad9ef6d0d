"""Published answers: paid for once by their publisher, stored in the ledger, shown by the front, refreshed when due.

Why: docs/decisions/published-answers.md.
"""

from __future__ import annotations

import json
import logging
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol, cast, get_args

from budget.account import Charge, LedgerError
from budget.publications import NameTaken, PublishedAnswer, Refresh, Released
from dpproxy.backends.base import Row
from dpproxy.config.epoch import epoch_end
from dpproxy.config.identity import OWNER
from dpproxy.config.sections import Config
from dpproxy.engine import refusals
from dpproxy.engine.brake import MAX_COST, PRICE_FIRST
from dpproxy.engine.executor import QueryEngine
from dpproxy.engine.options import ERROR, MOST_UNITS, TERMS
from dpproxy.engine.request import QueryRequest
from dpproxy.engine.rollback_guard import RollbackGuardedLedger
from dpproxy.engine.selection.groups import Choice
from dpproxy.front.front import Front, FrontError
from dpproxy.front.published_tables import Work, placed, removed, renamed, told
from dpproxy.front.statement import Described
from rewriter.logical.plan import SystemTableNode
from rewriter.policy import labels
from rewriter.refusal import Refusal
from rewriter.statements.classify import Verdict
from rewriter.statements.published_table import Publication, publication
from rewriter.statements.set_statement import ERROR_COLUMNS

log = logging.getLogger("dpproxy.engine.published_tables")

REFRESH, NOTICES = "dpproxy.refresh", "dpproxy.notices"
MOST_ROWS, MOST_BYTES = 1_000_000, 64 * 2**20
RETRY = timedelta(minutes=10)
"""After a refresh that cost nothing and brought nothing."""
_RENEWING = b"published answers"
_KEPT = (*TERMS, ERROR, MOST_UNITS, MAX_COST)
_ASKED = (PRICE_FIRST, "application_name")
"""Settings that count when an answer is published, and not when it is refreshed."""
_PERIODS = {"day": timedelta(days=1), "week": timedelta(days=7), "month": timedelta(days=30)}
_FIRST_OF_USERS = 16384
"""The number of the first type that is not PostgreSQL's own: in the front, these are enumerated types and rows."""
_NO_COLUMNS = ("record", "unknown", "void", "cstring", "anyarray", "trigger")


@dataclass(frozen=True)
class Done:
    """The result of a statement: PostgreSQL's command tag, and notices to send before it."""

    tag: str
    notices: tuple[str, ...] = ()


class Publishing:
    """The published answers of one policy; safe to use from many threads."""

    def __init__(
        self, config: Config, answering: QueryEngine, ledger: RollbackGuardedLedger, front: Front
    ) -> None:
        self._config, self._answering, self._ledger, self._front = config, answering, ledger, front

    def run(self, request: QueryRequest) -> Done:
        """Runs a publisher's statement on published answers; its effect is durable when this returns.

        A ROLLBACK does not undo it, since charges are permanent. Raises Refusal.
        """
        asked = publication(request.text)
        assert asked is not None
        if not self._config.budget.may_publish(request.analyst):
            raise refusals.may_not_publish(request.analyst)
        with _told(asked):
            match asked.kind:
                case "create":
                    return self._create(asked, request)
                case "drop":
                    return self._each(asked, request.analyst, self._drop, "DROP TABLE")
                case "rename":
                    return self._each(asked, request.analyst, self._rename, "ALTER TABLE")
                case "comment":
                    return self._each(asked, request.analyst, self._comment, "COMMENT")
        return Done("CREATE SCHEMA", ('schema "published" already exists, skipping',))

    def create(self, asked: Publication, request: QueryRequest) -> Done:
        """Asks and pays for the query of a CREATE TABLE AS as `request`, then publishes the answer; raises Refusal."""
        with _told(asked):
            return self._create(asked, request)

    def _create(self, asked: Publication, request: QueryRequest) -> Done:
        name, refresh = asked.names[0], self._refresh_of(request)
        if self._ledger.publications.get(name) is not None:
            if asked.lenient:
                return Done("CREATE TABLE AS", (f'relation "{name}" already exists, skipping',))
            raise refusals.exists(name)
        settings = {key: request.settings[key] for key in _KEPT if key in request.settings}
        asking = {key: request.settings[key] for key in (*_KEPT, *_ASKED) if key in request.settings}
        query = replace(request, text=asked.query, settings=asking, kept={})
        released, notices = self._released(query, refresh)
        rows = rows_of(released.answer)

        def publish() -> Work:
            yield from placed(name, released.columns, rows, self._front.reader)
            published = self._ledger.publications.publish(
                name, request.analyst, asked.query, settings, refresh, released
            )
            yield from told(published)

        self._front.publish(publish())
        renewed = "" if released.due_at is None else f", refreshed from {released.due_at:%Y-%m-%d %H:%M} UTC"
        notices = (
            *notices,
            f"dpproxy: published.{name} is free for everybody{renewed}; ROLLBACK does not undo it",
        )
        silent = request.settings.get(NOTICES, "on").lower() in ("off", "false", "no", "0")
        return Done(f"SELECT {len(rows)}", () if silent else notices)

    def remove(self, name: str) -> bool:
        """Withdraws an answer of any publisher; False where there is none. Raises Refusal."""
        published = self._ledger.publications.get(name)
        if published is not None:
            self._front.publish(self._drop(published, Publication("drop", (name,))))
        return published is not None

    def refresh(self, name: str) -> PublishedAnswer | None:
        """Refreshes an answer before it is due; None where there is none.

        A failure is returned, not raised.
        """
        published = self._ledger.publications.get(name)
        if published is None:
            return None
        self._refresh(published, self._now(), due=False)
        self.synchronise()
        return self._ledger.publications.get(name)

    def refresh_due(self, now: datetime) -> None:
        """Refreshes the answers due at `now` (UTC) that no other process has claimed, then shows what has changed.

        Nothing is charged twice: a process claims an answer before it renews it, and the claim moves the answer to its
        next turn, even if the process then dies. Raises LedgerError, FrontError.
        """
        if any(_due(published, now) for published in self._ledger.publications.all()):
            # One process after the other: an answer may be made of another that is renewed before it.
            with self._ledger.single_flight.hold([_RENEWING]):
                self.synchronise()
                for published in self._ledger.publications.all():
                    if _due(published, now) and self._refresh(published, now, due=True):
                        self._show(published.name)
        self.synchronise()

    def synchronise(self, *, afresh: bool = False) -> None:
        """Makes the front show what the ledger keeps; `afresh`: whatever it shows already.

        Raises LedgerError, FrontError.
        """
        kept = {published.name: str(published.version) for published in self._ledger.publications.all()}
        there = self._front.published()
        for name in kept.keys() | there.keys():
            if afresh or kept.get(name) != there.get(name):
                self._show(name)

    def _show(self, name: str) -> None:
        # A table that a session reads cannot be removed now: a later call removes it.
        with suppress(Refusal):
            self._front.publish(self._brought(name))

    def _brought(self, name: str) -> Work:
        """The change of the front; the ledger is read only once no other process can change the table."""
        published = self._ledger.publications.get(name)
        answer = None if published is None else self._ledger.publications.answer(published)
        if published is None:
            yield from removed(name)
        elif answer is not None:
            yield from placed(published.name, published.columns, rows_of(answer), self._front.reader)
            yield from told(published)

    # Changes of an existing answer

    def _each(
        self,
        asked: Publication,
        analyst: str,
        work: _OnOne,
        tag: Literal["DROP TABLE", "ALTER TABLE", "COMMENT"],
    ) -> Done:
        answers: list[PublishedAnswer] = []
        notices = []
        for name in asked.names:
            published = self._ledger.publications.get(name)
            if published is None and not asked.lenient:
                raise refusals.missing(name)
            if published is None:
                notices.append(f'table "{name}" does not exist, skipping')
            elif published.publisher != analyst:
                raise refusals.not_the_publisher(name)
            else:
                answers.append(published)
        for published in answers:
            self._front.publish(work(published, asked))
        return Done(tag, tuple(notices))

    def _drop(self, published: PublishedAnswer, _: Publication) -> Work:
        yield from removed(published.name)
        self._ledger.publications.unpublish(published)

    def _rename(self, published: PublishedAnswer, asked: Publication) -> Work:
        if self._ledger.publications.get(asked.other) is not None:
            raise refusals.exists(asked.other)
        yield from renamed(published.name, asked.other)
        changed = self._ledger.publications.rename(published, asked.other)
        if changed is None:
            raise refusals.missing(published.name)
        yield from told(changed)

    def _comment(self, published: PublishedAnswer, asked: Publication) -> Work:
        if asked.column is not None and asked.column not in dict(published.columns):
            raise refusals.no_column(published.name, asked.column)
        changed = self._ledger.publications.comment(published, asked.column or "", asked.comment)
        if changed is None:
            raise refusals.missing(published.name)
        yield from told(changed)

    # Asking

    def _refresh(self, published: PublishedAnswer, now: datetime, *, due: bool) -> bool:
        """Refreshes an answer; returns whether a new answer was stored."""
        until = (
            None if published.refresh == "once" else self._next(published.refresh, published.publisher, now)
        )
        under_way = f"begun at {now:%Y-%m-%d %H:%M} UTC and not ended yet"
        claim = self._ledger.publications.claim_refresh(published, until, under_way, due=now if due else None)
        if claim is None:
            return False
        kept = {bytes.fromhex(key): Choice(*choice) for key, choice in published.choices.items()}
        request = QueryRequest(published.query, (), published.publisher, (), published.settings, kept=kept)
        spent = self._spent(published.publisher)
        try:
            # The publisher had the right once; the current configuration decides about now.
            if (
                due
                and published.publisher != OWNER
                and not self._config.budget.may_publish(published.publisher)
            ):
                raise refusals.may_not_publish(published.publisher)
            with refusals.translated():
                released, _ = self._released(request, published.refresh)
        except Refusal as refusal:
            # Where nothing was charged, trying again costs nothing either.
            again = (
                until
                if spent is None or self._spent(published.publisher) != spent or until is None
                else now + RETRY
            )
            self._ledger.publications.refresh_failed(published, claim, _failure(refusal), again)
            return False
        return self._ledger.publications.refreshed(published, claim, released) is not None

    def _spent(self, analyst: str) -> Sequence[Charge] | None:
        """The amounts that an account has used and reserved; None where they cannot be read."""
        with suppress(LedgerError):
            row = self._ledger.accounts.get(self._answering.account(analyst))
            return row.used, row.reserved
        return None

    def _released(self, request: QueryRequest, refresh: Refresh) -> tuple[Released, tuple[str, ...]]:
        """The answer to a query, paid for by the request, with the notices that it came with."""
        at = self._now()
        notices: tuple[str, ...] = ()
        if self._answering.classify(request.text) is Verdict.PRIVATE:
            sql, oids, errors = self._planned(request.text)
            settings = {**request.settings, ERROR_COLUMNS: "on" if errors else "off"}
            answer = self._answering.execute(replace(request, settings=settings))
            notices = answer.notices
            try:
                columns, rows = self._front.evaluate_as(request.analyst, sql, oids, answer.arrays, MOST_ROWS)
            except Refusal as refusal:
                refusal.position = None
                raise
        else:
            columns, rows = self._front.evaluate_as(request.analyst, request.text, (), (), MOST_ROWS)
            _check_columns(columns)
        packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode())
        if len(packed) > MOST_BYTES:
            raise Refusal("54000", "the answer is too large to be published", hint="Publish fewer rows.")
        charged = Charge(request.paid.information, request.paid.calls)
        # Labels stay texts: a type ends where the policy no longer shows it, and the answer does not.
        shown = tuple((c.name, c.type if labels(c.type) is None else "text") for c in columns)
        choices = {key.hex(): choice for key, choice in (request.kept or {}).items()}
        due_at = self._next(refresh, request.analyst, at)
        return Released(shown, packed, charged, at, due_at, choices), notices

    def _planned(self, query: str) -> tuple[str, tuple[int, ...], bool]:
        """The presentation with the types of its arrays, with columns for the noise where their names are free."""
        for errors in (True, False):
            prepared = self._answering.prepare(query, (), errors)
            if any(isinstance(node, SystemTableNode) for node in prepared.nodes):
                raise Refusal(
                    "0A000",
                    "the tables of the schema dpproxy cannot be published",
                    hint="Publish the rest of the query without them.",
                )
            columns = self._front.describe(prepared.presentation, prepared.array_oids)
            if not errors or len({column.name for column in columns}) == len(columns):
                break
        _check_columns(columns)
        return prepared.presentation, prepared.array_oids, errors

    def _now(self) -> datetime:
        return datetime.now(UTC)

    def _refresh_of(self, request: QueryRequest) -> Refresh:
        written = request.settings.get(REFRESH) or "once"
        if written not in get_args(Refresh):
            raise refusals.unknown_value(REFRESH, get_args(Refresh))
        refresh = cast(Refresh, written)
        if refresh == "period" and self._period(request.analyst) is None:
            raise Refusal("22023", "the publisher's account has no period", hint=f"SET {REFRESH} = 'epoch'")
        return refresh

    def _period(self, analyst: str) -> timedelta | None:
        return _PERIODS.get(self._ledger.accounts.limit(self._answering.account(analyst)).period)

    def _next(self, refresh: Refresh, analyst: str, now: datetime) -> datetime | None:
        """When an answer that was released at `now` is due again."""
        if refresh == "once":
            return None
        if refresh == "epoch":
            return epoch_end(self._config.privacy.epoch, now)
        ends, period = (
            self._ledger.accounts.get(self._answering.account(analyst)).refreshes_at,
            self._period(analyst),
        )
        if ends is not None and ends > now:
            return ends
        return None if period is None else now + period


class _OnOne(Protocol):
    """An operation on one published answer."""

    def __call__(self, published: PublishedAnswer, asked: Publication, /) -> Work: ...


@contextmanager
def _told(asked: Publication) -> Iterator[None]:
    """Errors as a client sees them: of a query, at their place in the statement."""
    try:
        with refusals.translated():
            try:
                yield
            except NameTaken:
                raise refusals.exists(asked.other or asked.names[0]) from None
            except FrontError:
                raise Refusal(
                    "57P03",
                    "the front cannot be changed, so nothing is published yet",
                    hint="Try again: the paid answer is free until the epoch ends.",
                ) from None
    except Refusal as refusal:
        if refusal.position is not None:
            refusal.position += asked.offset
        raise


def _due(published: PublishedAnswer, now: datetime) -> bool:
    return published.due_at is not None and published.due_at <= now


def _check_columns(columns: Sequence[Described]) -> None:
    """Raises Refusal where no table can have them."""
    repeated = [name for name, count in Counter(column.name for column in columns).items() if count > 1]
    if repeated:
        raise Refusal(
            "42701", f'column "{repeated[0]}" specified more than once', hint="Name it: COUNT(*) AS number."
        )
    for column in columns:
        if column.type in _NO_COLUMNS:
            raise Refusal(
                "42P16", f'column "{column.name}" has pseudo-type {column.type}', hint="CAST(x AS type)"
            )
        if column.oid >= _FIRST_OF_USERS and labels(column.type) is None:
            raise Refusal(
                "42P16",
                f'column "{column.name}" has the type {column.type}, which ends with its table',
                hint="Name the columns of the row one by one.",
            )


def rows_of(answer: bytes) -> list[Row]:
    """The rows of a published answer as the ledger has it."""
    return [tuple(row) for row in json.loads(zlib.decompress(answer))]


def _failure(refusal: Refusal) -> str:
    """The failure as everybody may read it: without numbers of the publisher's account."""
    said = "the publisher's budget does not cover it" if refusal.code == "PV001" else refusal.message
    return f"{refusal.code}: {said}"
