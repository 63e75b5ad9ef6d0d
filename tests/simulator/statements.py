"""What each statement of the ledger does to the simulated tables.

A statement is known by its text, so that one that has changed is one that nobody knows; `compare.py` holds each of them
to PostgreSQL. As there, all parts of a statement see the rows from before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any
from uuid import UUID

from budget import (
    checkpoint,
    failures,
    generations,
    memberships,
    origins,
    schema,
    statements,
    statements_accounts,
    statements_streams,
)
from budget.store import Row
from tests.simulator.tables import AMOUNTS, Check, Fields, Transaction, Unique, amounts, left, named, within

Parameters = Mapping[str, Any]
Runs = Callable[[Transaction, Parameters], list[Row]]
KNOWN: dict[str, Runs] = {}
LENGTHS = {"day": timedelta(hours=24), "week": timedelta(hours=168), "month": timedelta(hours=720)}
ORDER = ("day", "week", "month", "none")
LONG_AGO = datetime(1, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1000)
def spelled(sql: str) -> str:
    """A statement without its layout."""
    return " ".join(sql.split())


def runs(*texts: str) -> Callable[[Runs], Runs]:
    """Says that a function is what these statements do."""

    def known(function: Runs) -> Runs:
        KNOWN.update(dict.fromkeys(map(spelled, texts), function))
        return function

    return known


# The life of a charge


def live(t: Transaction, names: list[str]) -> list[Fields]:
    """Accounts as of now."""
    return [_aged(row, t.now) for name in sorted(names) if (row := t.get("account", name)) is not None]


def _aged(row: Fields, now: datetime) -> Fields:
    now_at = max(row["seen_at"], now)
    started = row["period_started"]
    ends_at = started + LENGTHS[row["period"]] if started is not None and row["period"] in LENGTHS else None
    over = ends_at is not None and ends_at <= now_at
    begins = started is None or over
    return {
        **row,
        **(dict.fromkeys((f"used_{unit}" for unit in AMOUNTS), 0) if over else {}),
        "period_number": row["period_number"] + begins,
        "period_first": row["period_number"] + 1 if begins else row["period_first"],
        "period_started": now_at if begins else started,
        "seen_at": now_at,
        "refreshes_at": None if ends_at is None or over else ends_at,
    }


_KEPT = (*(f"used_{u}" for u in AMOUNTS), "period_number", "period_first", "period_started", "seen_at")


@runs(statements.RESERVE)
def reserve(t: Transaction, p: Parameters) -> list[Row]:
    accounts = live(t, p["chain"])
    asked = list(
        zip(p["ids"], p["information"], p["calls"], p["epsilons"], p["mechanisms"], p["queries"], strict=True)
    )
    total = {unit: sum(one[1 + place] for one in asked) for place, unit in enumerate(AMOUNTS)}
    before = [(e, one) for one in asked for e in t.entries(one[0], 0)]
    same = sum(
        e["account"] in p["chain"]
        and e["own"] == (e["account"] == p["own"])
        and amounts(e, "at_most_") == one[1:4]
        for e, one in before
    )
    policy = t.get("policy", p["deployment"])
    in_force = p["generation"] is None or (
        policy is not None and policy["generation"] == p["generation"] and policy["buying"]
    )
    stopped = not p["thaw"] and _stopped(t, p["login"], p["own"])
    pays = (
        not before
        and in_force
        and not stopped
        and len(accounts) == p["accounts"]
        and all((p["thaw"] or not a["frozen"]) and _admits(a, total, p["most"]) for a in accounts)
    )
    if pays:
        for account in accounts:
            row = t.get("account", account["name"])
            assert row is not None
            held = {f"reserved_{unit}": account[f"reserved_{unit}"] + total[unit] for unit in AMOUNTS}
            t.move(row, **{name: account[name] for name in _KEPT}, **held)
            for id, *most, mechanism, query in asked:
                own = account["name"] == p["own"]
                t.enter(
                    **{
                        "reservation": id,
                        "account": account["name"],
                        "own": own,
                        "stage": 0,
                        "kind": "reserve",
                    },
                    **named("at_most_", most),
                    **named("", (0, 0, 0)),
                    **{
                        "opened": None,
                        "period_number": account["period_number"],
                        "written_at": account["seen_at"],
                    },
                    **{"instance": p["instance"], "lease_until": account["seen_at"] + p["lease"]},
                    **(
                        {"mechanism": mechanism, "query": query, "attributed": p["attributed"]} if own else {}
                    ),
                )
                if own:
                    lease = account["seen_at"] + p["lease"]
                    held_by = {"instance": p["instance"], "lease_until": lease, "login": p["login"]}
                    t.insert_new("held", id, {"reservation": id, **held_by})
    whole = len(before) in (0, same) and len(before) in (0, p["accounts"] * len(asked))
    return [
        (
            *(a["name"], a["mode"], pays, bool(before), a["refreshes_at"], *left(a)),
            *(a["reserved_information"] + a["reserved_calls"] > 0, a["frozen"], whole, in_force, stopped),
        )
        for a in accounts
    ]


def _admits(account: Fields, total: Mapping[str, int], most: int) -> bool:
    tracked = account["mode"] == "track"
    sums = {unit: account[f"used_{unit}"] + account[f"reserved_{unit}"] + total[unit] for unit in AMOUNTS}
    either = (
        sums["information"] <= (most if tracked else account["limit_information"])
        or sums["epsilon"] <= account["limit_epsilon"]
    )
    return bool(either) and bool(sums["calls"] <= (most if tracked else account["limit_calls"]))


def _reach(t: Transaction, id: UUID) -> list[Row]:
    opened = any(e["own"] for e in t.entries(id, 0))
    return [(id,)] if opened and t.insert("mark", id, {"reservation": id, "reached": True}) else []


@runs(statements.MARK)
def mark(t: Transaction, p: Parameters) -> list[Row]:
    return [row for id in p["ids"] for row in _reach(t, id)]


@runs(statements.REACH)
def reach(t: Transaction, p: Parameters) -> list[Row]:
    before = t.get("mark", p["id"])
    said = [(True,) for _ in _reach(t, p["id"])]
    return said + ([] if before is None else [(before["reached"],)])


@runs(statements.LOCK_HELD)
def lock_held(t: Transaction, p: Parameters) -> list[Row]:
    login = (t.get("held", p["id"]) or {}).get("login")
    names = {e["account"] for e in t.entries(p["id"], 0)} | ({login} if login is not None else set())
    return [(name,) for name in sorted(names)]


def _stopped(t: Transaction, login: str | None, account: str) -> bool:
    """Whether a login or an analyst is stopped by failures."""
    return any(
        (f["login"] == login and f["stops_login"]) or (f["account"] == account and f["stops_account"])
        for f in t.rows("failure")
        if f["cleared_at"] is None
    )


@runs(statements.STOPPED)
def stopped(t: Transaction, p: Parameters) -> list[Row]:
    login = (t.get("held", p["id"]) or {}).get("login")
    return [(any(_stopped(t, login, e["account"]) for e in t.entries(p["id"], 0) if e["own"]),)]


@runs(statements.FAIL)
def fail(t: Transaction, p: Parameters) -> list[Row]:
    kept, opened = t.get("held", p["id"]), [e["account"] for e in t.entries(p["id"], 0) if e["own"]]
    if kept is None or not opened:
        return []
    who = {"login": t.get("account", kept["login"]), "account": t.get("account", opened[0])}
    now_at = max(t.now, *((row or {})["seen_at"] for row in who.values()))
    before = _stopped(t, kept["login"], opened[0])
    stops = {}
    for column, row in who.items():
        assert row is not None
        since = now_at - LENGTHS[row["period"]] if row["period"] in LENGTHS else LONG_AGO
        earlier = sum(
            f[column] == row["name"] and f["kind"] == p["failed"] and f["failed_at"] > since
            for f in t.rows("failure")
            if f["told"] and f["cleared_at"] is None
            if column == "account" or f["kind"] == "failed" or f["login"] == f["account"]
        )
        counts = column == "account" or p["failed"] == "failed" or kept["login"] == opened[0]
        stops[f"stops_{column}"] = not before and counts and earlier + 1 >= p["most"]
    failure = {"reservation": p["id"], "failed_at": now_at, "login": kept["login"], "account": opened[0]}
    rest = {"sealed": p["sealed"], "cleared_at": None, "cleared_by": None}
    t.insert_new("failure", p["id"], {**failure, "kind": p["failed"], "told": not before, **stops, **rest})
    return []


@runs(statements.TOLD)
def told(t: Transaction, p: Parameters) -> list[Row]:
    failure = t.get("failure", p["id"])
    return [] if failure is None else [(failure["told"],)]


@runs(failures._ALL)
def all_failures(t: Transaction, p: Parameters) -> list[Row]:
    found = sorted(t.rows("failure"), key=lambda f: (-f["failed_at"].timestamp(), f["reservation"]))
    names = ("reservation", "failed_at", "login", "account", "kind", "told", "stops_login", "stops_account")
    rows = []
    for one in found[: p["most"]]:
        asked = [e["query"] for e in t.entries(one["reservation"], 0) if e["own"]]
        ended = (one["sealed"], one["cleared_at"], one["cleared_by"])
        rows.append((*(one[name] for name in names), next(iter(asked), None) or "", *ended))
    return rows


@runs(failures._STOPPED)
def all_stopped(t: Transaction, p: Parameters) -> list[Row]:
    now = [f for f in t.rows("failure") if f["cleared_at"] is None]
    logins = {("login", f["login"]) for f in now if f["stops_login"]}
    return sorted(logins | {("analyst", f["account"]) for f in now if f["stops_account"]})


@runs(failures._CLEAR)
def clear(t: Transaction, p: Parameters) -> list[Row]:
    rows: list[Row] = []
    for one in t.rows("failure"):
        if one["cleared_at"] is None and p["name"] in (None, one["login"], one["account"]):
            at = max(one["failed_at"], t.now)
            t.put(
                "failure",
                one["reservation"],
                {**one, "cleared_at": at, "cleared_by": p["by"], "sealed": None},
            )
            rows.append((one["reservation"],))
    return rows


def _held(t: Transaction, id: UUID) -> list[tuple[Fields, Fields, datetime]]:
    """The entries that opened a reservation, each with its account and the time of it."""
    found = []
    for entry in t.entries(id, 0):
        account = t.get("account", entry["account"])
        assert account is not None
        found.append((entry, account, max(account["seen_at"], t.now)))
    return found


def _resolved(
    t: Transaction, entry: Fields, account: Fields, at: datetime, charged: tuple[int, int, int], **more: Any
) -> tuple[int, Fields]:
    """Writes the entry that resolves a reservation for an account, and moves its balance."""
    number = t.enter(
        **{name: entry[name] for name in ("reservation", "account", "own")},
        **{"stage": 1, "opened": 0, "period_number": account["period_number"], "written_at": at},
        **named("at_most_", amounts(entry, "at_most_")),
        **named("", charged),
        **more,
    )
    now = {f"reserved_{u}": account[f"reserved_{u}"] - entry[f"at_most_{u}"] for u in AMOUNTS}
    used = {f"used_{u}": account[f"used_{u}"] + c for u, c in zip(AMOUNTS, charged, strict=True)}
    return number, t.move(account, **now, **used, seen_at=at)


@runs(statements.SETTLE, statements_streams.SETTLE_LOOK)
def settle(t: Transaction, p: Parameters) -> list[Row]:
    held, key = _held(t, p["id"]), p["release_key"]
    own = next((e["account"] for e, _, _ in held if e["own"]), None)
    if not held or own is None or stopped(t, p) == [(True,)]:
        return []
    stored, stream = t.get("answer", key), p.get("stream")
    if stored is not None and stored["position"] > t.arrived and t.races():
        return []  # the statement's snapshot was of before the other's commit, for which its insert has waited
    reached = t.get("mark", p["id"])
    if stored is None and not (reached and reached["reached"]):
        return []
    price = stored or {unit: p[unit] for unit in AMOUNTS} | {"answer": p["answer"]}
    before = stored is not None
    paid = {
        e["account"]
        for e, account, _ in held
        if stream is not None
        and (stream, e["account"], account["period_number"]) in t.state.tables["stream_paid"]
    }
    if stream is not None:
        charges = [_stream_charge(e, price, e["account"] in paid) for e, _, _ in held]
    else:
        charged = _charged_before(t, stored, held)
        bought = before and any(r["account"] == own and r["release_key"] == key for r in t.rows("request"))
        charges = [_charge(e, price, e["account"] in charged, bought) for e, _, _ in held]
    if stored is None:
        row = {"release_key": key, "reservation": p["id"], **price, "epoch": p["epoch"]}
        row["position"] = t.position
        if any(a["reservation"] == p["id"] for a in t.rows("answer")):
            raise Unique("answer_paid_once")
        t.put("answer", key, row)
    told: list[Row] = []
    for (entry, account, at), cost in zip(held, charges, strict=True):
        words = {"query": p["query"], "noise": p["noise"]} if entry["own"] else {}
        again = before or (entry["account"] in paid and not entry["own"])
        more = {"kind": "settle", "release_key": key, "replayed": again, **words}
        number, moved = _resolved(t, entry, account, at, cost, **more)
        if entry["own"]:
            told = [(price["answer"], *cost, before, *left(moved), number)]
        if stream is not None and entry["account"] not in paid and any(amounts(price)[:2]):
            place = (stream, entry["account"], account["period_number"])
            t.insert(
                "stream_paid", place, dict(zip(("stream", "account", "period_number"), place, strict=True))
            )
    if stream is not None and not before:
        if any(look["release_key"] == key for look in t.rows("look")):
            raise Unique("look_once")
        t.insert_new(
            "look", (stream, p["number"]), {"stream": stream, "number": p["number"], "release_key": key}
        )
    _note_answer(t, own, p, next(at for entry, _, at in held if entry["own"]))
    return told


def _note_answer(t: Transaction, own: str, p: Parameters, at: datetime) -> None:
    """What the own account has from now on."""
    key, asked = p["release_key"], p["request_key"]
    request = {"account": own, "release_key": key, "request_key": asked, "mechanism": p["mechanism"]}
    if (own, key, asked) not in t.state.tables["request"]:
        t.put("request", (own, key, asked), {**request, "query": p["query"], "number": t.numbers()})
    if p["sealed"] is not None:
        t.insert("statement", (own, key), {"account": own, "release_key": key, "sealed": p["sealed"]})
    for choice, place in zip(p["choice_keys"], p["places"], strict=True):
        row = {"account": own, "choice_key": choice, "place": place, "release_key": key}
        t.insert("choice", (own, choice), row)
    for measure, place in zip(p["measure_keys"], p["measure_places"], strict=True):
        row = {
            "account": own,
            "measure_key": measure,
            "release_key": key,
            "place": place,
            "request_key": asked,
        }
        t.insert("owned", (own, measure, key, place), {**row, "groups": p["groups"], "bought_at": at})


def _charged_before(
    t: Transaction, stored: Fields | None, held: list[tuple[Fields, Fields, datetime]]
) -> set[str]:
    """The shared accounts that the purchase of a stored answer has charged in their present period."""
    if stored is None:
        return set()
    first = {(e["account"], e["period_number"]) for e in t.entries(stored["reservation"], 1) if not e["own"]}
    return {
        e["account"]
        for e, account, _ in held
        if not e["own"] and (e["account"], account["period_number"]) in first
    }


def _charge(entry: Fields, price: Fields, charged: bool, bought: bool) -> tuple[int, int, int]:
    if charged or (entry["own"] and bought):
        return 0, 0, 0
    if not entry["own"]:
        return amounts(entry, "at_most_")
    return price["information"], price["calls"], min(price["epsilon"], entry["at_most_epsilon"])


def _stream_charge(entry: Fields, price: Fields, paid: bool) -> tuple[int, int, int]:
    if paid:
        return 0, 0, 0
    owed, most = amounts(price), amounts(entry, "at_most_")
    return owed if entry["own"] else (max(most[0], owed[0]), max(most[1], owed[1]), max(most[2], owed[2]))


@runs(statements.RESOLVE)
def resolve(t: Transaction, p: Parameters) -> list[Row]:
    told: list[Row] = []
    for entry, account, at in _held(t, p["id"]):
        cost = amounts(entry, "at_most_") if p["kind"] == "spend" else (0, 0, 0)
        number, _ = _resolved(t, entry, account, at, cost, kind=p["kind"])
        if entry["own"]:
            told = [(number,)]
            if p["kind"] == "release":
                t.insert_new("mark", p["id"], {"reservation": p["id"], "reached": False})
    return told


@runs(statements.SPEND_STOPPED)
def spend_stopped(t: Transaction, p: Parameters) -> list[Row]:
    return resolve(t, {**p, "kind": "spend"}) if stopped(t, p) == [(True,)] else []


@runs(statements.FLUSH)
def flush(t: Transaction, p: Parameters) -> list[Row]:
    t.put(
        "flushed", 1, {"session": 1, "at": t.now}
    )  # a commit that writes nothing does not wait for the disk
    return [(1,)]


@runs(statements.LET_GO)
def let_go(t: Transaction, p: Parameters) -> list[Row]:
    if t.get("held", p["id"]) is None or not t.entries(p["id"], 1):
        return []
    t.put("held", p["id"], None)
    return [(p["id"],)]


@runs(statements.STATE)
def state(t: Transaction, p: Parameters) -> list[Row]:
    found: list[Row] = []
    for opening in t.entries(p["id"], 0):
        if opening["own"]:
            account, said = t.get("account", opening["account"]), t.get("mark", p["id"])
            assert account is not None
            end = t.get("entry", (p["id"], opening["account"], 1)) or {}
            answer = t.get("answer", end.get("release_key")) or {}
            row = (end.get("kind"), None if said is None else said["reached"], answer.get("answer"))
            charged = tuple(end.get(name) for name in (*AMOUNTS, "replayed"))
            found.append((*row, *charged, *left(account), end.get("number")))
    return found


@runs(statements.REPLAY)
def replay(t: Transaction, p: Parameters) -> list[Row]:
    t.waits = not p["durable"]
    request = _asked(t, p["account"], p["request_key"])
    if request is None or (answer := t.get("answer", request["release_key"])) is None:
        return []
    _note_replay(t, request, p["attributed"])
    return [(answer["answer"],)]


@runs(statements.NOTE_REPLAYS)
def note_replays(t: Transaction, p: Parameters) -> list[Row]:
    notes = list(zip(p["accounts"], p["request_keys"], p["attributed"], strict=True))
    known = [(_asked(t, account, key), attributed) for account, key, attributed in notes]
    for request, attributed in known:
        if request is not None:
            _note_replay(t, request, attributed)
    return [(sum(request is not None for request, _ in known),)]


def _asked(t: Transaction, account: str, request_key: bytes) -> Fields | None:
    asked = (r for r in t.rows("request") if (r["account"], r["request_key"]) == (account, request_key))
    return min(asked, key=lambda r: r["number"], default=None)


def _note_replay(t: Transaction, request: Fields, attributed: str) -> None:
    account = t.get("account", request["account"])
    assert account is not None
    t.enter(
        **{"reservation": t.random(), "account": account["name"], "own": True, "stage": 1, "kind": "replay"},
        **named("at_most_", (0, 0, 0)),
        **named("", (0, 0, 0)),
        **{"opened": None, "period_number": account["period_number"]},
        **{
            "written_at": max(account["seen_at"], t.now),
            "release_key": request["release_key"],
            "replayed": True,
        },
        **{name: request[name] for name in ("query", "mechanism")},
        attributed=attributed,
    )


@runs(statements.CHOICES)
def choices(t: Transaction, p: Parameters) -> list[Row]:
    chosen = [c for c in t.rows("choice") if c["account"] == p["account"] and c["choice_key"] in p["keys"]]
    return [
        (c["choice_key"], c["place"], a["answer"]) for c in chosen if (a := t.get("answer", c["release_key"]))
    ]


@runs(statements.OWNED)
def owned(t: Transaction, p: Parameters) -> list[Row]:
    found = [o for o in t.rows("owned") if o["account"] == p["account"] and o["measure_key"] in p["keys"]]
    found.sort(key=lambda o: o["release_key"])
    found.sort(key=lambda o: o["bought_at"], reverse=True)
    names = ("measure_key", "place", "release_key", "request_key", "groups", "bought_at")
    return [tuple(o[name] for name in names) for o in found[: p["most"]]]


@runs(statements.PAID)
def paid(t: Transaction, p: Parameters) -> list[Row]:
    return [
        (r["request_key"],)
        for r in t.rows("request")
        if r["account"] == p["account"] and r["request_key"] in p["keys"]
    ]


@runs(statements.STORED)
def stored(t: Transaction, p: Parameters) -> list[Row]:
    answer = t.get("answer", p["release_key"])
    return [] if answer is None else [(answer["answer"], *amounts(answer))]


@runs(statements.REACH_HELD)
def reach_held(t: Transaction, p: Parameters) -> list[Row]:
    return [
        (id,)
        for id in list(t.state.tables["held"])
        if t.insert("mark", id, {"reservation": id, "reached": True})
    ]


@runs(statements.DEAD)
def dead(t: Transaction, p: Parameters) -> list[Row]:
    over = (h for h in t.rows("held") if h["instance"] == p["instance"] or h["lease_until"] < t.now)
    return [(id,) for id in sorted(h["reservation"] for h in over)]


@runs(statements.EPOCH)
def epoch(t: Transaction, p: Parameters) -> list[Row]:
    # A nonce follows from its name: plans, which its keys are part of, serve for many histories.
    nonce = sha256(p["epoch"].encode()).digest()
    t.insert("epoch", p["epoch"], {"name": p["epoch"], "nonce": nonce})
    return [(nonce,)]


@runs(statements.PRUNE)
def prune(t: Transaction, p: Parameters) -> list[Row]:
    last: dict[bytes, tuple[int, bytes]] = {}
    for look in t.rows("look"):
        last[look["stream"]] = max(last.get(look["stream"], (0, b"")), (look["number"], look["release_key"]))
    kept = {key for _, key in last.values()}
    gone = [a["release_key"] for a in t.rows("answer") if a["epoch"] not in p["keep"]]
    gone = [key for key in gone if key not in kept][: p["batch"]]
    for table in ("request", "statement", "choice", "owned", "answer"):
        for key, row in list(t.state.tables[table].items()):
            if row["release_key"] in gone:
                t.put(table, key, None)
    return [(len(gone),)]


@runs(statements_streams.STREAM)
def stream(t: Transaction, p: Parameters) -> list[Row]:
    looks = sorted((o["number"], o["release_key"]) for o in t.rows("look") if o["stream"] == p["stream"])
    number, key = looks[-1] if looks else (None, None)
    answer = t.get("answer", key) or {}
    paid = sum(
        (p["stream"], a["name"], a["period_number"]) in t.state.tables["stream_paid"]
        for a in live(t, p["chain"])
    )
    return [(paid, number, answer.get("answer"))]


# Accounts


@runs(statements_accounts.SEED)
def seed(t: Transaction, p: Parameters) -> list[Row]:
    lost = [datetime.fromisoformat(r["value"]) for r in t.rows("pinned") if r["name"].startswith("lost ")]
    fresh = any(p["period"] not in LENGTHS or t.now < at + LENGTHS[p["period"]] for at in lost)
    row = {
        **{"name": p["account"], "period": p["period"], "mode": p["mode"]},
        **{f"limit_{unit}": p[unit] for unit in AMOUNTS},
        **{f"{kind}_{unit}": 0 for kind in ("used", "reserved") for unit in AMOUNTS},
        **{"period_number": 0, "period_first": 0, "period_started": None, "seen_at": t.now},
        "frozen": p["mode"] == "enforce" and fresh,
    }
    return [(int(t.insert("account", p["account"], row)),)]


@runs(statements_accounts.NOTE_LOSS)
def note_loss(t: Transaction, p: Parameters) -> list[Row]:
    name = f"lost {1 + sum(r['name'].startswith('lost ') for r in t.rows('pinned'))}"
    return [(name,)] if t.insert("pinned", name, {"name": name, "value": str(t.now)}) else []


@runs(statements_accounts.LOCK_SPENDERS)
def lock_spenders(t: Transaction, p: Parameters) -> list[Row]:
    return [(n,) for n in sorted(t.state.tables["account"]) if p["members"] is None or n in p["members"]]


@runs(statements_accounts.CARRY)
def carry(t: Transaction, p: Parameters) -> list[Row]:
    name = p["account"]
    account = t.get("account", name)
    if account is None or any(e["account"] == name for e in t.rows("entry")):
        return []
    now_at = max(account["seen_at"], t.now)
    since = now_at - LENGTHS[account["period"]] if account["period"] in LENGTHS else LONG_AGO
    facts = []
    for opening in t.rows("entry"):
        if (
            not opening["own"]
            or opening["stage"]
            or not (p["members"] is None or opening["account"] in p["members"])
        ):
            continue
        end = t.get("entry", (opening["reservation"], opening["account"], 1))
        if end is not None and end["kind"] == "release":
            continue
        period = 1 if end is not None and end["written_at"] <= since else 2
        facts.append((period, 0, opening["number"], opening, opening["written_at"], "reserve"))
        if end is not None:
            facts.append((period, 1, opening["number"], opening, end["written_at"], end["kind"]))
    if not facts:
        return []
    used, held, started = [0, 0, 0], [0, 0, 0], []
    for period, stage, _, opening, at, kind in sorted(facts, key=lambda fact: fact[:3]):
        most = amounts(opening, "at_most_")
        t.enter(
            **{
                "reservation": opening["reservation"],
                "account": name,
                "own": False,
                "stage": stage,
                "kind": kind,
            },
            **named("at_most_", most),
            **named("", most if stage else (0, 0, 0)),
            **{"opened": 0 if stage else None, "period_number": period, "written_at": at},
        )
        for place, amount in enumerate(most):
            held[place] += -amount if stage else amount
            used[place] += amount if stage and period == 2 else 0
        started += [at] if stage and period == 2 else []
    limits = amounts(account, "limit_")
    beyond = any(used[n] + held[n] > limits[n] for n in (0, 1))
    if account["mode"] == "enforce":
        limits = (max(limits[0], used[0] + held[0]), max(limits[1], used[1] + held[1]), limits[2])
    t.move(
        account,
        **named("used_", used),
        **named("reserved_", held),
        **named("limit_", limits),
        frozen=account["frozen"] or (account["mode"] == "enforce" and beyond),
        period_number=2,
        period_first=2,
        period_started=min(started, default=now_at),
        seen_at=now_at,
    )
    return [(name,)]


_LIMIT = ("limit_information", "limit_calls", "limit_epsilon", "period", "mode", "frozen")


@runs(statements_accounts.NOTE_LIMIT)
def note_limit(t: Transaction, p: Parameters) -> list[Row]:
    account = t.get("account", p["account"])
    had = [c for c in t.rows("limit_change") if c["account"] == p["account"]]
    if account is not None and not (had and all(had[-1][name] == account[name] for name in _LIMIT)):
        number = t.numbers()
        change = {name: account[name] for name in _LIMIT}
        t.put("limit_change", number, {"account": p["account"], "changed_at": account["seen_at"], **change})
    return []


def _covering(t: Transaction, p: Parameters) -> list[Fields]:
    found = []
    for row in live(t, p["chain"]):
        covering = dict(row)
        covering["period_started"] = None
        if ORDER.index(row["period"]) < ORDER.index(p["period"]):
            since = row["seen_at"] - LENGTHS[p["period"]] if p["period"] in LENGTHS else LONG_AGO
            of_it = [e for e in t.rows("entry") if e["account"] == row["name"] and e["stage"] == 1]
            earlier = [e for e in of_it if e["kind"] != "replay" and e["written_at"] > since]
            if earlier:
                first = min(e["period_number"] for e in earlier)
                covering["period_first"] = min(row["period_first"], first)
                covering["period_started"] = min(e["written_at"] for e in earlier)
                for unit in AMOUNTS:
                    spent = sum(e[unit] for e in of_it if e["period_number"] >= first)
                    covering[f"used_{unit}"] = max(row[f"used_{unit}"], spent)
        found.append(covering)
    return found


@runs(statements_accounts.COVERED)
def covered(t: Transaction, p: Parameters) -> list[Row]:
    return [(*amounts(row, "used_"), *amounts(row, "reserved_")) for row in _covering(t, p)]


@runs(statements_accounts.SET_LIMIT)
def set_limit(t: Transaction, p: Parameters) -> list[Row]:
    told: list[Row] = []
    for row in _covering(t, p):
        limits = {f"limit_{unit}": p[unit] for unit in AMOUNTS}
        if p["mode"] == "track" or within({**row, **limits}):
            account = t.get("account", row["name"])
            assert account is not None
            kept = {name: row[name] for name in _KEPT if name != "period_started"}
            started = row["period_started"] or account["period_started"]
            changed = {**limits, "period": p["period"], "mode": p["mode"], "period_started": started}
            t.move(account, **kept, **changed)
            told.append((row["name"],))
    return told


@runs(statements_accounts.LIMIT_IS_SET)
def limit_is_set(t: Transaction, p: Parameters) -> list[Row]:
    account = t.get("account", p["account"])
    wanted = (*(p[unit] for unit in AMOUNTS), p["period"], p["mode"])
    if account is not None and (*amounts(account, "limit_"), account["period"], account["mode"]) != wanted:
        raise Check("account_limit_information_check")
    return []


@runs(statements_accounts.FREEZE)
def freeze(t: Transaction, p: Parameters) -> list[Row]:
    account = t.get("account", p["account"])
    if account is None:
        return []
    t.move(account, frozen=p["frozen"], seen_at=max(account["seen_at"], t.now))
    return [(p["account"],)]


def _balance(row: Fields) -> Row:
    sums = (*amounts(row, "limit_"), *amounts(row, "used_"), *amounts(row, "reserved_"))
    return (row["name"], *sums, row["refreshes_at"], row["period"], row["mode"], row["frozen"])


@runs(statements_accounts.BUDGET)
def budget(t: Transaction, p: Parameters) -> list[Row]:
    return [_balance(row) for row in live(t, p["chain"])]


@runs(statements_accounts.ACCOUNTS)
def accounts(t: Transaction, p: Parameters) -> list[Row]:
    return [_balance(row) for row in live(t, list(t.state.tables["account"]))]


def _limit(change: Fields) -> Row:
    names = ("changed_at", "limit_information", "limit_calls", "period", "mode", "limit_epsilon", "frozen")
    return tuple(change[name] for name in names)


@runs(statements_accounts.LIMITS)
def limits(t: Transaction, p: Parameters) -> list[Row]:
    return [_limit(c) for c in t.rows("limit_change") if c["account"] == p["account"]]


@runs(statements_accounts.ALL_LIMITS)
def all_limits(t: Transaction, p: Parameters) -> list[Row]:
    changes = sorted(t.rows("limit_change"), key=lambda c: c["account"])
    return [(*_limit(c), c["account"]) for c in changes]


# What happened


def _page(t: Transaction, p: Parameters, kinds: tuple[str, ...], newest: bool) -> list[tuple[Fields, Fields]]:
    """Entries of an account with those that opened their reservations."""
    found = [
        e
        for e in t.rows("entry")
        if e["account"] == p["account"] and e["own"] and e["kind"] in kinds
        if p["since"] is None or e["written_at"] >= p["since"]
        if p["until"] is None or e["written_at"] < p["until"]
    ]
    found.sort(key=lambda e: (e["written_at"], e["number"]), reverse=newest)
    return [(e, t.get("entry", (e["reservation"], e["account"], 0)) or {}) for e in found[: p["most"]]]


def _line(entry: Fields, opening: Fields, noise: str) -> Row:
    texts = {name: entry[name] if entry[name] is not None else opening.get(name) for name in _WORDS}
    return (
        *(entry["written_at"], texts["query"] or "", texts["mechanism"] or "", noise),
        *(entry["information"], entry["calls"], entry["replayed"], texts["attributed"] or ""),
    )


_WORDS = ("query", "mechanism", "attributed")


def _bought(t: Transaction, entry: Fields) -> list[Fields]:
    """The settlements of an account under an entry's release key, the first one first."""
    found = [
        e
        for e in t.rows("entry")
        if e["account"] == entry["account"] and e["own"] and e["kind"] == "settle"
        if e["release_key"] == entry["release_key"] and e["release_key"] is not None
    ]
    return sorted(found, key=lambda e: int(e["number"]))


def _history(newest: bool) -> Runs:
    def history(t: Transaction, p: Parameters) -> list[Row]:
        rows = []
        for entry, opening in _page(t, p, ("settle", "spend", "replay"), newest):
            first = _bought(t, entry)[:1] if entry["kind"] == "replay" else []
            asked = [t.get("entry", (e["reservation"], e["account"], 0)) or {} for e in first]
            words = next((o.get("query") for o in [opening, *asked] if o.get("query") is not None), "")
            sealed = (t.get("statement", (entry["account"], entry["release_key"])) or {}).get("sealed")
            rows.append((*_line(entry, opening, entry["noise"] or ""), words, entry["release_key"], sealed))
        return rows

    return history


KNOWN[spelled(statements_accounts.HISTORY)] = _history(False)
KNOWN[spelled(statements_accounts.HISTORY_BACKWARDS)] = _history(True)


@runs(statements_accounts.LATEST)
def latest(t: Transaction, p: Parameters) -> list[Row]:
    rows = []
    for entry, opening in _page(t, p, ("settle", "replay"), True):
        before = (e["noise"] for e in reversed(_bought(t, entry)) if e["number"] < entry["number"])
        noise = entry["noise"] or next(filter(None, before), "")
        rows.append(_line(entry, opening, noise))
    return rows


@runs(statements_accounts.ACTIVITY_BY_ACCOUNT)
def activity_by_account(t: Transaction, p: Parameters) -> list[Row]:
    found: dict[str, list[int]] = {}
    kinds = ("settle", "replay", "spend")
    for entry in t.rows("entry"):
        if entry["own"] and entry["kind"] in kinds and entry["written_at"] >= p["since"]:
            sums = found.setdefault(entry["account"], [0] * 5)
            sums[kinds.index(entry["kind"])] += 1
            for place, unit in enumerate(("information", "calls"), len(kinds)):
                sums[place] += entry[unit] or 0
    charged = sorted(found.items(), key=lambda item: (-item[1][3], -item[1][4], item[0]))
    return [(account, *sums) for account, sums in charged[: p["most"]]]


@runs(statements_accounts.ENTRIES)
def entries(t: Transaction, p: Parameters) -> list[Row]:
    names = (
        *("number", "reservation", "account", "own", "kind"),
        *(f"at_most_{unit}" for unit in AMOUNTS),
        *(*AMOUNTS, "period_number", "written_at", "mechanism", "query", "replayed"),
    )
    found = sorted(t.rows("entry"), key=lambda e: int(e["number"]))
    after = max(p["after"], found[-1]["number"] - p["last"] if found and p["last"] is not None else 0)
    return [
        tuple(e[name] for name in names)
        for e in found
        if e["number"] > after and p["account"] in (None, e["account"])
        if (p["since"] is None or e["written_at"] >= p["since"])
        if (p["until"] is None or e["written_at"] < p["until"])
    ]


@runs(statements_accounts.BALANCES)
def balances(t: Transaction, p: Parameters) -> list[Row]:
    rows = sorted(t.rows("account"), key=lambda a: str(a["name"]))
    return [
        (a["name"], *amounts(a, "used_"), *amounts(a, "reserved_"), a["period_number"], a["period_first"])
        for a in rows
    ]


@runs("SELECT clock_timestamp() - %(settled)s")
def settled_before(t: Transaction, p: Parameters) -> list[Row]:
    return [(t.now - p["settled"],)]


@runs(checkpoint.DIGEST)
def digest(t: Transaction, p: Parameters) -> list[Row]:
    facts = [sorted(e.items()) for e in t.rows("entry") if p["after"] < e["number"] <= p["until"]]
    return [(sha256(repr(facts).encode()).digest() if facts else None,)]


@runs(checkpoint.UNCHARGED)
def uncharged(t: Transaction, p: Parameters) -> list[Row]:
    def whole(e: Fields) -> bool:
        return e["kind"] == "settle" and all(e[unit] == e[f"at_most_{unit}"] for unit in AMOUNTS[:2])

    settled = sorted((e for e in t.rows("entry") if not e["own"]), key=lambda e: int(e["number"]))
    streams = {look["release_key"]: look["stream"] for look in t.rows("look")}
    charged, found = set[Row](), []
    for e in settled:
        key = e["release_key"]
        paid = (streams.get(key, key), e["account"], e["period_number"])
        free = e["kind"] == "settle" and e["replayed"] and not (e["information"] or e["calls"])
        if free and not whole(e) and paid not in charged and e["number"] > p["after"]:
            found.append((e["account"], e["number"]))
        if whole(e) and key is not None and (e["information"] or e["calls"]):
            charged.add(paid)
    return found[:1]


def _fact(entry: Fields) -> Row:
    return tuple(entry[n] for n in ("number", "reservation", "account", "kind", "information", "calls"))


@runs(statements_accounts.AT)
def at(t: Transaction, p: Parameters) -> list[Row]:
    return [_fact(e) for e in t.rows("entry") if e["number"] in p["numbers"]]


@runs(statements_accounts.HIGH_WATER)
def high_water(t: Transaction, p: Parameters) -> list[Row]:
    own = sorted((_fact(e) for e in t.rows("entry") if e["own"]), reverse=True)[: p["last"]]
    return sorted({*own, *at(t, p)})


# What else a proxy keeps there


@runs("SELECT gen_random_uuid() FROM generate_series(1, %(n)s)")
def new_ids(t: Transaction, p: Parameters) -> list[Row]:
    return [(t.random(),) for _ in range(p["n"])]


@runs(origins._PIN)
def pin(t: Transaction, p: Parameters) -> list[Row]:
    return [(p["name"],)] if t.insert("pinned", p["name"], dict(p)) else []


@runs(origins._READ)
def read_origins(t: Transaction, p: Parameters) -> list[Row]:
    return [(n, v) for n, v in pinned(t, p) if n == "data" or n.startswith("accepted ")]


@runs(statements_accounts.PINNED, "SELECT name, value FROM dpproxy_ledger.pinned")
def pinned(t: Transaction, p: Parameters) -> list[Row]:
    return sorted((r["name"], r["value"]) for r in t.rows("pinned"))


@runs(generations._BEGIN)
def begin(t: Transaction, p: Parameters) -> list[Row]:
    number = (t.get("policy", p["deployment"]) or {"generation": 0})["generation"] + 1
    t.put("policy", p["deployment"], {"deployment": p["deployment"], "generation": number, "buying": True})
    return [(number,)]


@runs(generations._NOW)
def bought_under(t: Transaction, p: Parameters) -> list[Row]:
    policy = t.get("policy", p["deployment"])
    return [] if policy is None else [(policy["generation"], policy["buying"])]


def _bought_under(buying: bool) -> Runs:
    def change(t: Transaction, p: Parameters) -> list[Row]:
        policy = t.get("policy", p["deployment"])
        if policy is None:
            return []
        t.put("policy", p["deployment"], {**policy, "generation": p["number"], "buying": buying})
        return [(p["number"],)]

    return change


KNOWN[spelled(generations._SUSPEND)] = _bought_under(False)
KNOWN[spelled(generations._RESUME)] = _bought_under(True)


def _memberships(t: Transaction) -> dict[str, Fields]:
    return {m["analyst"]: m for m in t.rows("membership")}


@runs(memberships._NOTE)
def note_membership(t: Transaction, p: Parameters) -> list[Row]:
    known = _memberships(t).get(p["analyst"])
    if known is not None and (
        p["as_of"] <= known["as_of"] <= t.now + timedelta(minutes=1) or known["teams"] == p["teams"]
    ):
        return []
    number = t.numbers()
    t.put("membership", number, dict(p))
    return [(number,)]


@runs(memberships._TEAMS)
def teams(t: Transaction, p: Parameters) -> list[Row]:
    known = _memberships(t).get(p["analyst"])
    return [] if known is None else [(known["teams"],)]


@runs(memberships._MEMBERS)
def members(t: Transaction, p: Parameters) -> list[Row]:
    return [(name,) for name, row in sorted(_memberships(t).items()) if p["team"] in row["teams"]]


@runs("SELECT current_setting('fsync', true)")
def fsync(t: Transaction, p: Parameters) -> list[Row]:
    return [("on",)]


@runs("SELECT max(version) FROM dpproxy_ledger.migration")
def version(t: Transaction, p: Parameters) -> list[Row]:
    return [(len(schema.MIGRATIONS),)]


@runs("SELECT clock_timestamp()")
def now(t: Transaction, p: Parameters) -> list[Row]:
    return [(t.now,)]


@runs("SELECT DISTINCT epoch FROM dpproxy_ledger.answer")
def stored_epochs(t: Transaction, p: Parameters) -> list[Row]:
    return sorted({(a["epoch"],) for a in t.rows("answer")})


@runs(statements_accounts.MECHANISMS)
def mechanisms(t: Transaction, p: Parameters) -> list[Row]:
    opened = [e for e in t.rows("entry") if e["stage"] == 0]
    own = {e["reservation"]: e["mechanism"] or "" for e in opened if e["own"]}
    return sorted({(e["account"], own[e["reservation"]]) for e in opened if e["reservation"] in own})


@runs("INSERT INTO dpproxy_ledger.analyst (name, verifier) VALUES (%(name)s, %(verifier)s) RETURNING name")
def add_analyst(t: Transaction, p: Parameters) -> list[Row]:
    t.insert_new("analyst", p["name"], dict(p))
    return [(p["name"],)]


@runs("UPDATE dpproxy_ledger.analyst SET verifier = %(verifier)s WHERE name = %(name)s RETURNING name")
def set_verifier(t: Transaction, p: Parameters) -> list[Row]:
    if t.get("analyst", p["name"]) is None:
        return []
    t.put("analyst", p["name"], dict(p))
    return [(p["name"],)]


@runs("DELETE FROM dpproxy_ledger.analyst WHERE name = %(n)s RETURNING name")
def remove_analyst(t: Transaction, p: Parameters) -> list[Row]:
    if t.get("analyst", p["n"]) is None:
        return []
    t.put("analyst", p["n"], None)
    return [(p["n"],)]


@runs("SELECT verifier FROM dpproxy_ledger.analyst WHERE name = %(n)s")
def verifier(t: Transaction, p: Parameters) -> list[Row]:
    row = t.get("analyst", p["n"])
    return [] if row is None else [(row["verifier"],)]


@runs("SELECT name FROM dpproxy_ledger.analyst ORDER BY name")
def analysts(t: Transaction, p: Parameters) -> list[Row]:
    return [(name,) for name in sorted(t.state.tables["analyst"])]
