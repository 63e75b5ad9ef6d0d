"""The keyed stream: determined by seed and labels, never twice the same word, separated keys."""

from __future__ import annotations

import hashlib
import hmac
from itertools import combinations

import numpy as np
import pytest

from mechanisms import randomness
from mechanisms.randomness import Stream, derive, random_bytes, release_key, seed


def test_same_seed_and_labels_give_the_same_words() -> None:
    first, second = (Stream(b"s" * 32).child("gumbel", 0, "count").words(1000) for _ in range(2))
    assert first.dtype == np.uint64
    assert first.tolist() == second.tolist()


def test_words_in_pieces_are_the_words_at_once() -> None:
    pieces = Stream(b"s" * 32)
    joined = np.concatenate([pieces.words(n) for n in (0, 1, 7, 500)])
    assert joined.tolist() == Stream(b"s" * 32).words(508).tolist()
    assert len(set(joined.tolist())) == 508


@pytest.mark.parametrize(
    ("one", "other"), [(("a", "b"), ("ab",)), ((1,), ("1",)), (("a",), ("a", "")), ((0, 1), (1, 0))]
)
def test_labels_are_kept_apart(one: tuple[str | int, ...], other: tuple[str | int, ...]) -> None:
    root = Stream(bytes(32))
    assert root.child(*one).words(4).tolist() != root.child(*other).words(4).tolist()


def test_different_parameters_give_unrelated_streams() -> None:
    """n = 64,000 bits a pair, alpha = 1e-8 a pair: equal bits are within 5.7 standard deviations of half."""
    key = derive(bytes(32), "noise")
    names = [release_key(key, [b"node", text]) for text in (b"sigma=10", b"sigma=11", b"sigma=1")]
    streams = [seed(key, name, reservation) for name in names for reservation in (b"1", b"2")]
    words = [stream.words(1000) for stream in streams]
    words += [Stream(bytes(32)).words(1000), Stream(bytes(32)).child("a").words(1000)]
    for one, other in combinations(words, 2):
        different = int(np.bitwise_count(one ^ other).sum())
        assert abs(different - 32_000) < 5.7 * 126.5


def test_no_stream_is_taken_twice() -> None:
    root = Stream(bytes(32))
    root.child("gumbel", 0)
    with pytest.raises(ValueError, match="already taken"):
        root.child("gumbel", 0)


def test_a_stream_ends_before_its_counter_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "MOST_WORDS", 10)
    stream = Stream(bytes(32))
    stream.words(10)
    with pytest.raises(OverflowError):
        stream.words(1)


def test_short_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Stream(bytes(31))
    with pytest.raises(ValueError, match="at least 32 bytes"):
        derive(bytes(31), "noise")
    with pytest.raises(ValueError, match="purpose"):
        derive(bytes(32), "")


def test_a_stream_does_not_print_its_key() -> None:
    assert "115" not in repr(Stream(b"s" * 32))
    assert repr(Stream(b"s" * 32)) == repr(Stream(b"t" * 32))


def test_derived_keys_are_hkdf_sha256() -> None:
    """RFC 5869 with an empty salt, one block, written out."""
    extracted = hmac.digest(bytes(32), b"m" * 32, hashlib.sha256)
    assert derive(b"m" * 32, "rank-hash") == hmac.digest(extracted, b"dpproxy rank-hash\x01", hashlib.sha256)


def test_release_key_frames_its_parts() -> None:
    key = bytes(32)
    names = [release_key(key, parts) for parts in ([b"ab", b"c"], [b"a", b"bc"], [b"abc"], [b"abc", b""])]
    assert len(set(names)) == 4
    assert {len(name) for name in names} == {32}
    assert release_key(b"k" * 32, [b"abc"]) != names[2]


def test_seed_covers_key_release_and_reservation() -> None:
    parts = [
        (b"k" * 32, b"r", b"1"),
        (b"l" * 32, b"r", b"1"),
        (b"k" * 32, b"s", b"1"),
        (b"k" * 32, b"r", b"2"),
    ]
    assert len({seed(*part).words(1)[0] for part in parts}) == 4


def test_entropy() -> None:
    assert len(random_bytes(16)) == 16
    assert random_bytes(32) != random_bytes(32)
