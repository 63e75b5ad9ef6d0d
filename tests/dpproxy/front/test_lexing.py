"""What a text's statements are, PostgreSQL decides: ours are cut as its own scanner cuts them."""

from __future__ import annotations

from itertools import islice
from random import Random

import pytest

from dpproxy.front.front import Front
from tests.dpproxy.wire import admin
from tests.rewriter.lexed import difference, differences, texts

pytestmark = pytest.mark.service


def test_texts_are_cut_as_postgresql_cuts_them(wire_front: Front) -> None:
    with admin(wire_front) as connection:
        looked, otherwise = differences(connection, islice(texts(Random(20261122)), 4000), 30)
    assert not otherwise
    assert looked == 4000


@pytest.mark.parametrize(
    "text",
    [
        "SELECT E'\\'''1.5",
        "SELECT E'a'--x\n'\\'1",
        "SELECT b'1''\\'",
        "SELECT 1 #-- '\n;SELECT 2 -- '",
        "SELECT '\xa0'",
    ],
)
def test_what_was_once_cut_otherwise(wire_front: Front, text: str) -> None:
    with admin(wire_front) as connection:
        assert difference(connection, text) is None
