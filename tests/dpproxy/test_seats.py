"""Seats that several processes count together, and a waiting room that nobody can keep to themselves."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from dpproxy.seats import Seats, empty_seats
from dpproxy.waiting_room import Guest, WaitingRoom
from rewriter.refusal import Refusal


def test_seats_are_counted_over_all_workers(tmp_path: Path) -> None:
    place = tmp_path / "seats"
    Seats.make(place, 5)
    with closing(Seats(5, 3, place, 0)) as first, closing(Seats(5, 3, place, 1)) as second:
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


def arrived(room: WaitingRoom, peer: str, count: int, *, named: bool = False) -> list[Guest]:
    guests = [Guest(peer) for _ in range(count)]
    for guest in guests:
        room.enter(guest)
        if named:
            room.named(guest)
    return guests


def test_the_oldest_silent_guest_makes_way() -> None:
    room = WaitingRoom(4, 3)
    (talking,) = arrived(room, "a", 1, named=True)
    silent = arrived(room, "b", 3)
    arrived(room, "c", 1)
    assert [guest.sent_away for guest in (talking, *silent)] == [False, True, False, False]
    assert len(room) == 4
    named = arrived(room, "d", 3, named=True)
    assert [guest.sent_away for guest in (talking, *silent)] == [False, True, True, True]
    (late,) = arrived(room, "e", 1)
    assert talking.sent_away, "where nobody is silent, the oldest"
    arrived(room, "f", 1)
    assert late.sent_away
    assert not any(guest.sent_away for guest in named)


def test_a_peer_beyond_its_share_makes_way_for_itself() -> None:
    room = WaitingRoom(100, 3)
    others = arrived(room, "b", 3)
    first = arrived(room, "a", 2, named=True)
    arrived(room, "a", 50)
    assert len(room) == 6
    assert not any(guest.sent_away for guest in (*first, *others))
    arrived(room, "a", 2, named=True)
    assert [guest.sent_away for guest in first] == [True, False], "where nobody is silent, the oldest"


def test_who_has_gone_leaves_nothing_behind() -> None:
    room = WaitingRoom(2, 1)
    for number in range(10):
        (guest,) = arrived(room, f"peer {number}", 1)
        room.leave(guest)
        room.leave(guest)
    assert len(room) == 0
    assert not room._of_peer
