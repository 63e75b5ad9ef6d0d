"""An adversary: each statement depends on what was released before.

Every action is taken on one side, recorded, and then on the other with what was released frozen.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random

from budget.units import MICRO
from tests.adversary.book import Book, Release
from tests.adversary.deployment import (
    EPSILON_PER,
    POLICIES,
    PUBLISHERS,
    SERVICE,
    TEAMS,
    Pair,
    Said,
    Side,
)
from tests.replay.compare import differences, losses
from tests.replay.recorder import Run

KEYS = ("", "shop", "town", "shop, town", "CUBE (shop, town)")
VALUES = (
    "SUM(amount)",
    "SUM(amount)",
    "COUNT(*)",
    "COUNT(DISTINCT person_id)",
    "AVG(amount)",
    "SUM(pieces)",
    "COUNT(*) FILTER (WHERE pieces * 2000000 > 5)",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY pieces)",
)
STREAM = (
    "SELECT room, day, SUM(COUNT(*)) OVER (PARTITION BY room ORDER BY day) FROM visits GROUP BY room, day"
)
SESSIONS = 5
LEVELS = ("0.25", "0.5", "1", "2", "4", "8")
MARK = re.compile(r"-?\d{7,}")
"""Numbers that are so long that noise does not draw them twice."""


@dataclass(frozen=True)
class Question:
    """A statement over orders. `where`: conditions, made of what was released."""

    keys: str
    values: tuple[str, ...]
    where: tuple[str, ...] = ()
    text: str = ""

    @property
    def columns(self) -> list[str]:
        """The names of its keys."""
        return re.findall(r"shop|town", self.keys)

    def __str__(self) -> str:
        if self.text:
            return self.text
        listed = ", ".join([*self.columns, *self.values])
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        return f"SELECT {listed} FROM orders{where}" + (f" GROUP BY {self.keys}" if self.keys else "")


@dataclass
class Session:
    """A session, the same on both sides."""

    login: str
    role: str
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """What is wrong, at which step of which walk, and what was asked there."""

    walk: str
    step: int
    action: str
    what: str

    def __str__(self) -> str:
        return f"walk {self.walk}, step {self.step}: {self.action}: {self.what}"


@dataclass
class Tally:
    """How much was tried. `tight`: the largest share of what an account was charged that its answers have lost;
    `failed`: actions that failed at the backend, on one side or on both, each a finding."""

    walks: int = 0
    steps: int = 0
    answered: int = 0
    draws: int = 0
    free: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    tight: float = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Takes over what another process has tried."""
        for name in ("walks", "steps", "answered", "draws", "free"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.actions += other.actions
        self.refused += other.refused
        self.failed += other.failed
        self.tight = max(self.tight, other.tight)
        self.findings += other.findings


class Walk:
    """A walk by `seed` over a pair of deployments, which begins with a new epoch; `actions`: by weight."""

    def __init__(
        self, seed: str, pair: Pair, tally: Tally, actions: Mapping[str, float] | None = None
    ) -> None:
        self.seed, self.pair, self.tally, self._actions = seed, pair, tally, actions or ACTIONS
        tally.walks += 1
        pair.recorder.chance = Random(seed)
        self.first, self.second = pair.sides.values()
        self.sessions: dict[int, Session] = {}
        self.step, self.action = 0, ""
        self.history: list[tuple[Question, int, Said]] = []
        self.published: dict[str, str] = {}
        self.policy = 0
        self._marks: dict[str, list[frozenset[Release]]] = {}
        self._free: set[str] = set()
        self._streams: dict[object, object] = {}
        self._base: dict[str, int] = {}
        self._tomorrow()
        for side in pair.sides.values():
            side.book.forget()
        for name in TEAMS:  # accounts are made at their first use
            self.step += 1
            self._enter(self.step - 1, name)
            self._ask(self.step - 1, ["SELECT used FROM dpproxy.budget"])
        self._base = self._used(self.first)
        self._enter(len(TEAMS), SERVICE)
        self._enter(len(TEAMS) + 1, SERVICE)

    def _tomorrow(self) -> None:
        self.pair.tomorrow()
        for side in self.pair.sides.values():
            side.book.epoch = str(self.pair.clock.now.date())

    def close(self) -> None:
        """Ends the sessions, withdraws what is published, and puts the first policy back."""
        for side in self.pair.sides.values():
            for number in self.sessions:
                side.leave(number)
            for name in self.published:
                side.service.publishing.remove(name)
            if self.policy:
                side.reload(0)

    def run(self, steps: int) -> None:
        """Takes so many steps, or as many as it takes to be wrong."""
        for _ in range(steps):
            if not self.tally.findings:
                self.take()

    def take(self) -> None:
        """One action, by what has been released."""
        self.step += 1
        last = self.history[-1][2].rows if self.history else []
        rng = Random(f"{self.seed}/{self.step}/{last}")
        names, weights = zip(*self._actions.items(), strict=True)
        self.action = rng.choices(names, weights)[0]
        self.tally.actions[self.action] += 1
        self.tally.steps += 1
        getattr(self, self.action)(rng)

    # What the analysts do

    def ask(self, rng: Random) -> None:
        """Something, of few things, in some session."""
        values = tuple(dict.fromkeys(rng.choices(VALUES, k=rng.choice((1, 1, 2)))))
        self._question(Question(rng.choice(KEYS), values), rng.choice([*self.sessions]))

    def refine(self, rng: Random) -> None:
        """The largest group of the last answer, or those whose value is odd."""
        asked, number, said = self._last(rng)
        columns = asked.columns
        rows = [row for row in said.rows if None not in row]
        if not columns or not rows or asked.text:
            return self.ask(rng)
        largest = max(rows, key=lambda row: float(row[len(columns)] or 0))
        odd = [row for row in rows if int(float(row[len(columns)] or 0)) % 2]
        chosen = rng.choice(odd) if odd and rng.random() < 0.5 else largest
        compare = rng.choice(("=", "=", "<>"))
        where = (*asked.where, f"{columns[0]} {compare} '{chosen[0]}'")[-2:]
        left = [k for k in ("shop", "town") if not any(w.startswith(k) for w in where)]
        keys = rng.choice(["", *left])
        self._question(replace(asked, keys=keys, where=where), number)

    def coarsen(self, rng: Random) -> None:
        """What the last answers imply: totals, and sums of groups."""
        asked, number, _ = self._last(rng)
        if asked.text:
            return self.ask(rng)
        self._question(replace(asked, keys="", values=asked.values[:1]), number)

    def again(self, rng: Random) -> None:
        """The same, in a session of the same or another account."""
        asked, _, _ = self._last(rng)
        self._question(asked, rng.choice([*self.sessions]))

    def climb(self, rng: Random) -> None:
        """The same at the next level, or for an error."""
        asked, number, _ = self._last(rng)
        settings = self.sessions[number].settings
        level = settings.get("dpproxy.units", "off")
        if rng.random() < 0.2:
            wanted = {"dpproxy.units": "", "dpproxy.error": rng.choice(("5%", "20%"))}
        else:
            place = LEVELS.index(level) + 1 if level in LEVELS else rng.randrange(3)
            wanted = {"dpproxy.units": LEVELS[min(place, len(LEVELS) - 1)], "dpproxy.error": "off"}
        self._set(number, wanted)
        self._question(asked, number)

    def reuse(self, rng: Random) -> None:
        """Another wish about what is implied, or the usual settings."""
        number = rng.choice([*self.sessions])
        self._set(
            number,
            rng.choice(
                (
                    {"dpproxy.reuse": "always"},
                    {"dpproxy.reuse": "on"},
                    {"dpproxy.reuse": "off"},
                    {"dpproxy.units": "", "dpproxy.error": "off"},
                )
            ),
        )

    def role(self, rng: Random) -> None:
        """A service login acts for another analyst, and asks what the last one asked."""
        number = rng.choice([n for n, s in self.sessions.items() if s.login == SERVICE])
        self._take_role(number, rng.choice([*TEAMS]))
        asked = self._last(rng)[0]
        self._question(asked, number)

    def cursor(self, rng: Random) -> None:
        """Rows of an analyst's cursor, fetched in another role."""
        number = rng.choice([n for n, s in self.sessions.items() if s.login == SERVICE])
        asked, payer = self._last(rng)[0], self.sessions[number].role
        other = rng.choice([name for name in TEAMS if name != payer])
        hold = rng.choice(("", " WITH HOLD"))
        self._ask(number, ["BEGIN", f"DECLARE c CURSOR{hold} FOR {asked}"])
        opened = [f"DECLARE c CURSOR WITH HOLD FOR {asked}"]
        if self._ask(number, opened).error:
            return
        self._take_role(number, other)
        self._ask(number, ["FETCH ALL FROM c"])
        self._ask(number, ["CLOSE ALL"])

    def prepared(self, rng: Random) -> None:
        """A statement that one role has prepared, and another executes."""
        number = rng.choice([n for n, s in self.sessions.items() if s.login == SERVICE])
        asked = self._last(rng)[0]
        if self._ask(number, [f"PREPARE p AS {asked}"]).error:
            return
        self._take_role(number, rng.choice([*TEAMS]))
        self._ask(number, ["EXECUTE p"])
        self._ask(number, ["DEALLOCATE ALL"])

    def session(self, rng: Random) -> None:
        """A session ends and another one begins."""
        number = rng.choice([*self.sessions])
        for side in self.pair.sides.values():
            side.leave(number)
        self._enter(number, rng.choice([*TEAMS, SERVICE]) if number < len(TEAMS) else SERVICE)

    def stream(self, rng: Random) -> None:
        """Running counts, which go on over epochs."""
        where = rng.choice(("", "", " WHERE room <> 'room 1'"))
        text = STREAM.replace(" GROUP", f"{where} GROUP")
        self._question(Question("", (), text=text), rng.choice([*self.sessions]))

    # What is published

    def publish(self, rng: Random) -> None:
        """An analyst publishes the last question, or a cube of it."""
        asked, payer = self._last(rng)[0], rng.choice(PUBLISHERS)
        if asked.text:
            return self.ask(rng)
        named = [f"{value} AS v{n}" for n, value in enumerate(asked.values)]
        name = f"t{self.step}"
        refresh = rng.choice(("once", "epoch", "epoch"))
        number = [*TEAMS].index(payer)
        if self.sessions[number].role != payer:
            number = self._service(payer)
        said = self._ask(
            number,
            [
                f"SET dpproxy.refresh = '{refresh}'",
                f"CREATE TABLE published.{name} AS {replace(asked, values=tuple(named))}",
            ],
        )
        if not said.error:
            self.published[name] = payer
        self._look()

    def look(self, rng: Random) -> None:
        """Somebody reads what is published."""
        self._look()

    def drop(self, rng: Random) -> None:
        """A publisher withdraws an answer."""
        if not self.published:
            return self.publish(rng)
        name = rng.choice([*self.published])
        number = self._service(self.published[name])
        if not self._ask(number, [f"DROP TABLE published.{name}"]).error:
            del self.published[name]

    def _look(self) -> None:
        for name in self.published:
            self._free |= set(self._marked(self._ask(0, [f"SELECT * FROM published.{name}"], free=True)))

    # What the owner does

    def epoch(self, rng: Random) -> None:
        """The epoch ends, after which published answers are bought again, soon or late; then a question again."""
        self._tomorrow()
        if rng.random() < 0.5:
            self.refresh(rng)
        asked, number, _ = self._last(rng)
        self._question(asked, number)

    def refresh(self, rng: Random) -> None:
        """What is due is bought again."""
        now = self.pair.clock.now

        def due(side: Side) -> Said:
            side.book.begin(PUBLISHERS[0])
            return side.refresh(now)

        self._both(due)
        self._look()

    def load(self, rng: Random) -> None:
        """The owner adds rows."""
        self.pair.load()

    def reload(self, rng: Random) -> None:
        """The owner changes a bound or a domain while everything goes on; then the last question again."""
        self.policy = (self.policy + rng.randrange(1, len(POLICIES))) % len(POLICIES)
        for side in self.pair.sides.values():
            side.reload(self.policy)
        asked, number, _ = self._last(rng)
        self._question(asked, number)

    # How

    def _last(self, rng: Random) -> tuple[Question, int, Said]:
        if not self.history:
            return Question("shop", ("SUM(amount)",)), rng.choice([*self.sessions]), Said()
        asked, number, said = self.history[-1 - min(int(rng.expovariate(1)), len(self.history) - 1)]
        return asked, number, said

    def _question(self, asked: Question, number: int) -> None:
        said = self._ask(number, [str(asked)])
        self.history.append((asked, number, said))

    def _enter(self, number: int, login: str) -> None:
        for side in self.pair.sides.values():
            side.enter(number, login)
        self.sessions[number] = Session(login, login)
        if login == SERVICE:
            self._take_role(number, [*TEAMS][number % len(TEAMS)])

    def _service(self, payer: str) -> int:
        number = next(n for n, s in self.sessions.items() if s.login in (SERVICE, payer))
        if self.sessions[number].login == SERVICE:
            self._take_role(number, payer)
        return number

    def _take_role(self, number: int, role: str) -> None:
        self.sessions[number].role = role
        self._ask(number, [f"SET ROLE {role}"])

    def _set(self, number: int, settings: Mapping[str, str]) -> None:
        self.sessions[number].settings |= settings
        for name, value in settings.items():
            self._ask(number, [f"SET {name} = '{value}'" if value else f"RESET {name}"])

    def _ask(self, number: int, statements: Sequence[str], *, free: bool = False) -> Said:
        """On both sides; `free`: what it shows was paid for by others."""
        role = self.sessions[number].role
        said = self._both(lambda side: side.ask(number, role, statements), " ".join(statements))
        if said.error:
            self.tally.refused[said.error.split()[0]] += 1
        elif not free:
            self._shown(said, role, statements[-1])
        return said

    def _both(self, act: Callable[[Side], Said], what: str = "") -> Said:
        """An action on the first side, recorded, and on the second one with what was released."""
        recorder, before = self.pair.recorder, self._used(self.first)
        run = recorder.begin()
        said = act(self.first)
        self.first.book.end()
        after = self._used(self.first)
        other_run = recorder.begin(run)
        other = act(self.second)
        found = [*run.findings, *other_run.findings]
        found += [w for side in (self.first, self.second) for w in side.book.wrong]
        found += differences(run, other_run)
        found += self._lost(run, other_run)
        if failed := [side for side, of in ((self.first, said), (self.second, other)) if of.failed]:
            self.tally.failed["both" if len(failed) == 2 else "one"] += 1
            found.insert(0, f"the backend raised {' and '.join(side.name for side in failed)}")
        if said != other:
            found.append(f"what is sent differs: {said} and {other}")
        if after != self._used(self.second):
            found.append(f"charged {after} and {self._used(self.second)}")
        found += self._charged(before, after)
        found += self._drawn(run)
        self.tally.draws += len(run.steps)
        if self.first.book.read:
            self.tally.answered += 1
            self.tally.free += before == after
        place = (self.seed, self.step, f"{self.action} {what}")
        self.tally.findings += [Finding(*place, one) for one in dict.fromkeys(found)]
        return said

    def _lost(self, run: Run, other: Run) -> list[str]:
        """What the draws lose is noted in both books; what is wrong with them."""
        found: list[str] = []
        lost: dict[int, Fraction] = {}
        pairs = [(a, b) for a, b in zip(run.blocks, other.blocks, strict=False) if a.cost and b.cost]
        for (paid, wrong), blocks in zip(losses(run, other), pairs, strict=True):
            lost |= {id(block): paid.rho for block in blocks}
            found += [wrong] if wrong else []
        for side in (self.first, self.second):
            for release, drawn, _ in side.book.fresh:
                release.lost += sum((lost.get(id(block), Fraction(0)) for block in drawn), Fraction(0))
        return found

    def _charged(self, before: Mapping[str, int], after: Mapping[str, int]) -> list[str]:
        """Every draw is paid for by all accounts, and what an account knows costs no more than it was charged."""
        book = self.first.book
        found = []
        for account in after:
            drawn = [r.rho for r, _, chain in book.fresh if r.epoch and account in chain]
            fresh, paid = sum(drawn, Fraction(0)), _rho(after[account] - before[account])
            if paid < fresh:
                found.append(f"{account} pays rho {float(paid):.6g} for draws of {float(fresh):.6g}")
        if self._base:
            used = {account: _rho(amount - self._base[account]) for account, amount in after.items()}
            found += book.unpaid(used)
            for account, releases in book.known.items():
                lost = sum((release.lost for release in releases if release.counts), Fraction(0))
                self.tally.tight = max(self.tally.tight, float(lost / used[account]) if used[account] else 0)
        return found

    def _drawn(self, run: Run) -> list[str]:
        """The noise of a stream hides one number at each time, by one law, whatever the policy and the data are."""
        found = []
        for step in run.steps:
            if step.kind != "running":
                continue
            stream, (mechanism, _) = run.seeds[int(str(step.path[0]))], step.law
            if self._streams.setdefault(stream, mechanism) != mechanism:
                found.append("a stream goes on by another law")
            for moment, hidden in zip(step.called(), step.hidden or (), strict=False):
                place = stream, step.path[1:], moment
                if hidden is not None and self._streams.setdefault(place, hidden) != hidden:
                    found.append("noise of a stream hides another number than before")
        return found

    def _shown(self, said: Said, role: str, statement: str) -> None:
        """Long numbers are those of answers that the account has, or are published."""
        book: Book = self.first.book
        read = frozenset(book.read)
        known = book.known.get(book.chains[role][0], set())
        for mark in self._marked(said):
            if mark in self._free:
                continue
            if read:
                self._marks.setdefault(mark, []).append(read)
            elif not any(releases <= known for releases in self._marks.get(mark, [])):
                place = (self.seed, self.step, f"{self.action} {statement}")
                self.tally.findings.append(
                    Finding(*place, "a value of an answer that the account has not got")
                )
                return

    @staticmethod
    def _marked(said: Said) -> list[str]:
        return [value for row in said.rows for value in row if value and MARK.fullmatch(value)]

    def _used(self, side: Side) -> dict[str, int]:
        accounts = {account for chain in side.book.chains.values() for account in chain}
        made = {row.account for row in side.service.ledger.accounts.all()}
        return {account: side.used(account) if account in made else 0 for account in sorted(accounts)}


def _rho(micro: int) -> Fraction:
    """Micro-units of information as rho."""
    return Fraction(micro, MICRO) * EPSILON_PER**2 / 8


ACTIONS = {
    "ask": 4,
    "refine": 6,
    "coarsen": 3,
    "again": 3,
    "climb": 4,
    "reuse": 2,
    "role": 3,
    "cursor": 1,
    "prepared": 1,
    "session": 1,
    "stream": 2,
    "publish": 2,
    "look": 1,
    "drop": 0.5,
    "epoch": 1,
    "refresh": 1,
    "load": 1,
    "reload": 2,
}
