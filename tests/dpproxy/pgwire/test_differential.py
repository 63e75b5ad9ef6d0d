"""Any sequence of messages gets through the proxy what PostgreSQL itself answers to the same sequence.

On the proxy's side the statements read `people`; on PostgreSQL's side they are public ones with the same
result, so that also portals, formats, failed transactions and skipped messages of private statements compare.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dpproxy.pgwire import messages as m
from dpproxy.pgwire.relay import Relay
from tests.dpproxy.wire import (
    BY_COUNTRY,
    EXHAUSTED,
    FAILING,
    FLUSH,
    OLDER,
    ROWS,
    SYNC,
    Raw,
    Served,
    bound,
    query,
    rows,
)

pytestmark = pytest.mark.service

_VALUES = "(VALUES ('US', 500::bigint), ('DE', 400), ('FR', 300), ('IN', 200), (NULL, 100)) AS v(country, n)"
# A refused Bind is one that cannot be planned, a refused Execute one that cannot be run.
STATEMENTS = {
    BY_COUNTRY: f"SELECT country, n FROM {_VALUES} ORDER BY n DESC",
    OLDER: f"SELECT country, n + $1::int AS n FROM {_VALUES} WHERE $1 IS NOT NULL ORDER BY n DESC",
    FAILING: f"SELECT country, n / (n - n) AS n FROM {_VALUES}",
    EXHAUSTED: f"SELECT country, n / (n - n) AS dear FROM {_VALUES}",
    ROWS: "SELECT (1/0)::bigint AS id, ''::text AS country, 1 AS age",
    "SELECT nothing FROM people": "SELECT nothing",
    "SELECT $1::int + 1 AS one": "SELECT $1::int + 1 AS one",
    f"DECLARE c CURSOR FOR {BY_COUNTRY}": f"DECLARE c CURSOR FOR SELECT country, n FROM {_VALUES} ORDER BY n DESC",
    "FETCH 2 FROM c": "FETCH 2 FROM c",
    f"COPY ({BY_COUNTRY}) TO STDOUT": f"COPY (SELECT country, n FROM {_VALUES} ORDER BY n DESC) TO STDOUT",
    f"PREPARE q AS {OLDER}": f"PREPARE q AS SELECT country, n + $1::int AS n FROM {_VALUES} ORDER BY n DESC",
    "EXECUTE q(3)": "EXECUTE q(3)",
    f"SELECT 5; {BY_COUNTRY}; SELECT 'x'": f"SELECT 5; SELECT country, n FROM {_VALUES} ORDER BY n DESC; SELECT 'x'",
    f"BEGIN; {BY_COUNTRY}; SELECT 1/0": f"BEGIN; SELECT country, n FROM {_VALUES} ORDER BY n DESC; SELECT 1/0",
    f"ROLLBACK; {BY_COUNTRY}": f"ROLLBACK; SELECT country, n FROM {_VALUES} ORDER BY n DESC",
    "SELECT 1/0": "SELECT 1/0",
    "BEGIN": "BEGIN",
    "COMMIT": "COMMIT",
    "ROLLBACK": "ROLLBACK",
    "SAVEPOINT a": "SAVEPOINT a",
    "ROLLBACK TO a": "ROLLBACK TO a",
    "DEALLOCATE ALL": "DEALLOCATE ALL",
    "": "",
}


_WEIGHTS = (6, 6, 1, 1, 1, 1, 4, 2, 3, 2, 1, 2, 1, 1, 1, 1, 3, 2, 2, 1, 1, 1, 1)


def one(chance: random.Random) -> tuple[bytes, bytes]:
    """A message (or two) for the proxy, and for PostgreSQL."""
    name, portal = chance.choice(["", "s"]), chance.choice(["", "p"])
    text = chance.choices(list(STATEMENTS), _WEIGHTS)[0]
    value = chance.choice([(), (b"7",), (b"7",), (b"seven",), (None,)])
    kind = chance.choices("PBDECSHQR", [4, 5, 3, 8, 2, 7, 1, 4, 10])[0]
    if kind == "R":
        values = () if "$1" not in text else (b"3",)
        rest = bound(portal, name, values) + m.execute(portal, chance.choice([0, 0, 2]))
        return m.parse(name, text) + rest, m.parse(name, STATEMENTS[text]) + rest
    if kind == "P":
        return m.parse(name, text), m.parse(name, STATEMENTS[text])
    if kind == "Q":
        # A step that is refused comes before the description of its rows. Without Sync a simple query would be
        # in the transaction of the messages before it, which no driver does: the proxy ends that transaction.
        before = SYNC + chance.choice([b"", m.close("S", name)])
        return before + query(text), before + query(STATEMENTS[ROWS if text == EXHAUSTED else text])
    same = {
        "B": bound(portal, name, value, chance.choice([(), (0,)])),
        "D": chance.choice([m.describe("S", name), m.describe("P", portal)]),
        "E": m.execute(portal, chance.choice([0, 0, 1, 3])),
        "C": chance.choice([m.close("S", name), m.close("P", portal)]),
        "S": SYNC,
        "H": FLUSH,
    }[kind]
    return same, same


def columns(raw: bytes) -> bytes:
    """A RowDescription without the tables that its columns are from."""
    found, rest = b"", raw[7:]
    while rest:
        name, _, rest = rest.partition(b"\0")
        found += name + rest[6:18]
        rest = rest[18:]
    return found


_COMPARED: dict[str, Callable[[bytes], bytes]] = {"E": lambda raw: b"", "T": columns}


def told(raw: Raw) -> list[tuple[str, bytes]]:
    """What comes up to the end; errors without their texts, columns without their tables."""
    seen: list[tuple[str, bytes]] = []
    while rows(seen[-3:-2]) != [("the end",)]:
        message = raw.receive()
        assert message is not None
        seen.append((message[0], _COMPARED.get(message[0], bytes)(message[1])))
    return seen


@pytest.mark.parametrize("seed", range(15))
def test_the_same_messages_get_the_same_answers(proxy: Served, direct: Raw, seed: int) -> None:
    chance = random.Random(seed)
    end = SYNC + query("ROLLBACK") + query("DEALLOCATE ALL") + query("SELECT 'the end'")
    private = 0
    with proxy.raw() as raw, direct:
        for _ in range(40):
            sequence = [one(chance) for _ in range(chance.randrange(1, 15))]
            whole = b"".join(part for part, _ in sequence) + end
            cut = chance.randrange(len(whole))
            raw.send(whole[:cut])
            raw.send(whole[cut:])
            direct.send(*(part for _, part in sequence), end)
            ours, theirs = told(raw), told(direct)
            assert ours == theirs, [part for part, _ in sequence]
            private += sum(kind == "D" for kind, _ in ours)
        assert rows(raw.query("SELECT count(*) FROM pg_prepared_statements")) == [("0",)]
    assert private > 20
    assert len(proxy.answering.steps) > 4


def a_round(chance: random.Random) -> tuple[bytes, bytes]:
    """Messages up to the one that is answered with ReadyForQuery, for the proxy, and for PostgreSQL.

    A simple query that is refused leaves the unnamed statement where PostgreSQL drops it: here all have names.
    """
    name, portal = chance.choice(["r", "s", "s"]), chance.choice(["", "", "", "p"])
    text = chance.choices(list(STATEMENTS), _WEIGHTS)[0]
    kind = chance.choices("QPBCR", [6, 4, 10, 1, 4])[0]
    if kind == "Q":
        return query(text), query(STATEMENTS[ROWS if text == EXHAUSTED else text])
    if kind == "P":
        before = m.close("S", name)
        return before + m.parse(name, text) + SYNC, before + m.parse(name, STATEMENTS[text]) + SYNC
    same = m.close("P", portal) + SYNC
    if kind == "R":
        parsed, source = chance.choice([("", ""), ("", ""), ("", name), (name, name)])
        values = () if "$1" not in text else (b"3",)
        rest = bound("", source, values) + m.describe("P", "") + m.execute("") + SYNC
        return m.parse(parsed, text) + rest, m.parse(parsed, STATEMENTS[text]) + rest
    if kind == "B":
        described = chance.choice([b"", m.describe("P", portal)])
        executed = m.execute(chance.choice([portal, portal, "p"]), chance.choice([0, 0, 0, 2]))
        value = chance.choice([(), (), (b"7",), (b"seven",)])
        same = bound(portal, name, value) + described + executed + chance.choice([b"", b"", executed]) + SYNC
    return same, same


@pytest.mark.parametrize("seed", range(8))
def test_the_same_rounds_one_by_one_get_the_same_answers(
    proxy: Served, direct: Raw, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, again, answer = random.Random(seed), Relay.again, Relay.answer
    passed: list[bytes] = []
    repeats: Counter[bytes] = Counter()

    def counted(relay: Relay, data: bytes) -> bool:
        found = again(relay, data)
        passed.extend([data] * found)
        return found

    def repeat(relay: Relay, *answered: Any) -> None:
        assert relay._answered is not None
        repeats[relay._answered.raw[:1]] += 1
        answer(relay, *answered)

    monkeypatch.setattr(Relay, "again", counted)
    monkeypatch.setattr(Relay, "answer", repeat)
    with proxy.raw() as raw, direct:
        for _ in range(600):
            (ours, theirs), repeated = a_round(chance), chance.choice([1, 1, 4])
            for _ in range(repeated):
                raw.send(ours)
                direct.send(theirs)
                seen, wanted = raw.until("Z"), direct.until("Z")
                assert [(kind, _COMPARED.get(kind, bytes)(one)) for kind, one in seen] == [
                    (kind, _COMPARED.get(kind, bytes)(one)) for kind, one in wanted
                ], ours
    assert {data[:1] for data in passed} == {b"Q", b"B"}
    assert len(passed) > 10
    assert len(proxy.answering.steps) > 4
    assert repeats
