"""The papers' numbers on their data; `make reproduce` shows them all."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pytest

from mechanisms.distinct_count import PersonLevelDistinctCount
from mechanisms.item_sets import ItemSets, encoded
from mechanisms.matching import matching_counts
from mechanisms.partition_selection import DPSips, WeightedGaussian
from tests.mechanisms.goodness import stream


def sets(shared: Path, name: str, item: str) -> ItemSets:
    with duckdb.connect() as connection:
        query = f"SELECT user_id, {item} FROM '{shared}/data/{name}.parquet'"
        persons, items = (np.ma.getdata(column) for column in connection.execute(query).fetchnumpy().values())
    return encoded(bytes(32), persons, items)[0]


def test_amazon_fashion(shared: Path) -> None:
    """DC(17) = 1,428, DC(9) = 1,317; l = 17 is best at eps 1, beta 0.05; the private median is near 1,319."""
    mechanism = PersonLevelDistinctCount(Fraction(1), 100, Fraction(1, 20), "matching")
    counts = mechanism.counts(sets(shared, "amazon_fashion_words", "item"))
    assert (counts[16], counts[8], counts[-1]) == (1428, 1317, 1450)
    assert 1 + np.argmax(counts - 2 * math.log(10) * np.arange(1, 101)) == 17
    releases = [mechanism.release_counts(counts, stream("fashion", i)) for i in range(100)]
    assert 1270 < np.median([r.lower_bound + r.offset for r in releases]) < 1370
    assert np.mean([r.lower_bound <= 1450 for r in releases]) > 0.95


@pytest.mark.slow
def test_imdb(shared: Path) -> None:
    """7,352,149 pairs at rho 0.1, delta 1e-5, delta0 100: DP-SIPS 7,300 to 8,300, Weighted Gaussian 3,500 to 4,300;
    DP-SIPS under 5 s, all DC(D; l) up to 100 under 10 s."""
    imdb = sets(shared, "imdb50k_words", "item_id")
    started = time.process_time()
    for kind, least, most in ((DPSips, 7300, 8300), (WeightedGaussian, 3500, 4300)):
        mechanism = kind(Fraction(1), Fraction(1, 10**5), Fraction(4, 5), Fraction(1), 100)
        assert least <= len(mechanism.release(imdb, stream("imdb", kind.__name__)).indices) <= most
    selected = time.process_time()
    counts = matching_counts(imdb, 100)
    assert (counts[0], counts[-1]) == (49_999, 158_935)
    assert selected - started < 5
    assert time.process_time() - selected < 10
