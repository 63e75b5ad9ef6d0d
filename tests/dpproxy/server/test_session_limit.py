"""Seats that several processes count together, and a waiting room that nobody can keep to themselves."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dpproxy.server.login_queue import SPEAKING_SECONDS, PendingLogin, WaitingRoom
from dpproxy.server.session_limit import SessionLimit, empty_seats
from rewriter.refusal import Refusal


def test_seats_are_counted_over_all_workers(tmp_path: Path) -> None:
    place = tmp_path / "seats"
    SessionLimit.make(place, 5)
    with closing(SessionLimit(5, 3, place, 0)) as first, closing(SessionLimit(5, 3, place, 1)) as second:
        taken = [first.take("ann"), second.take("ann"), first.take("ann")]
        with pytest.raises(Refusal, match='too many connections for role "ann"') as caught:
            second.take("ann")
        assert caught.value.code == "53300"
        assert "max_sessions_per_login" in str(caught.value.hint)
        second.take("bob")
        second.take("bob")
        with pytest.raises(Refusal, match="too many clients") as caught:
            first.take("cem")
        assert caught.value.code == "53300"
        assert "max_sessions " in str(caught.value.hint)
        first.leave(taken[0])
        assert second.take("ann") == taken[0]
        empty_seats(place, 1)
        assert [first.take(login) for login in ("bob", "bob", "bob")] == [0, 1, 3], (
            "a worker's seats are free again"
        )


def arrived(
    room: WaitingRoom, peer: str, count: int, *, at: float = 0.0, named: bool = False
) -> list[PendingLogin]:
    guests = [PendingLogin(peer, at) for _ in range(count)]
    for guest in guests:
        room.enter(guest)
        if named:
            room.named(guest)
    return guests


def test_the_oldest_silent_guest_makes_way() -> None:
    room = WaitingRoom(4, 3)
    (talking,) = arrived(room, "a", 1, named=True)
    silent = arrived(room, "b", 3)
    arrived(room, "c", 1, at=SPEAKING_SECONDS)
    assert [guest.sent_away for guest in (talking, *silent)] == [False, True, False, False]
    assert len(room) == 4
    arrived(room, "d", 2, at=2 * SPEAKING_SECONDS, named=True)
    assert [guest.sent_away for guest in (talking, *silent)] == [False, True, True, True]


def test_a_room_full_of_names_lets_newcomers_speak() -> None:
    room = WaitingRoom(4, 3)
    named = [*arrived(room, "a", 2, named=True), *arrived(room, "b", 2, named=True)]
    newcomers = arrived(room, "c", 3, at=1.0)
    assert [guest.sent_away for guest in named] == [True, True, True, False]
    assert not any(guest.sent_away for guest in newcomers)


def test_a_flood_of_newcomers_lets_a_login_go_on() -> None:
    room = WaitingRoom(4, 4)
    flood = arrived(room, "a", 4, at=0.0)
    (talking,) = arrived(room, "a", 1, at=0.1, named=True)
    flood += arrived(room, "a", 3, at=0.2)
    assert not talking.sent_away
    assert [guest.sent_away for guest in flood] == [True] * 4 + [False] * 3


def test_a_peer_beyond_its_share_makes_way_for_itself() -> None:
    room = WaitingRoom(100, 3)
    others = arrived(room, "b", 3)
    first = arrived(room, "a", 2, named=True)
    for second in range(50):
        arrived(room, "a", 1, at=second * SPEAKING_SECONDS)
    assert len(room) == 6
    assert not any(guest.sent_away for guest in (*first, *others))
    arrived(room, "a", 2, at=50 * SPEAKING_SECONDS, named=True)
    assert [guest.sent_away for guest in first] == [True, False], "where nobody keeps silent, the oldest"


def test_who_has_gone_leaves_nothing_behind() -> None:
    room = WaitingRoom(2, 1)
    for number in range(10):
        (guest,) = arrived(room, f"peer {number}", 1)
        room.leave(guest)
        room.leave(guest)
    assert len(room) == 0
    assert not room._of_peer
