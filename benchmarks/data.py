"""The data sets of the papers, read from the folder `data` of $DPPROXY_SHARED."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import duckdb
import numpy as np

from mechanisms.histogram import Counts
from mechanisms.item_sets import ItemSets, Labels, encoded
from mechanisms.noise import Integers

KEY = bytes(32)
"""Of the keyed hashes: fixed, so that a run can be repeated."""
ITEM = {"imdb50k_words": "item_id"}


class DataMissing(Exception):
    """The data sets are not part of the project."""


def folder() -> Path:
    """Give the folder with the data sets; DataMissing where there is none."""
    shared = os.environ.get("DPPROXY_SHARED")
    if not shared:
        raise DataMissing("DPPROXY_SHARED does not name the folder with the data sets")
    path = Path(shared) / "data"
    if not path.is_dir():
        raise DataMissing(f"{path} is missing")
    return path


def table(name: str) -> str:
    """Give a data set as a table of a query."""
    return f"'{folder() / name}.parquet'"


def columns(query: str) -> list[Labels]:
    """Give the columns of a query as arrays."""
    with duckdb.connect() as connection:
        return [np.ma.getdata(column) for column in connection.execute(query).fetchnumpy().values()]


@lru_cache(maxsize=1)
def item_sets(name: str) -> ItemSets:
    """Give the items of each person of a data set with the columns user_id and item (or item_id)."""
    persons, items = columns(f"SELECT user_id, {ITEM.get(name, 'item')} FROM {table(name)}")
    return encoded(KEY, persons, items)[0]


def frequent_first() -> ItemSets:
    """Give the words of each IMDb review, the most frequent ones first."""
    name = table("imdb50k_words")
    persons, items = columns(f"SELECT user_id, item_id FROM {name} ORDER BY user_id, n DESC, hash(item_id)")
    heads = np.flatnonzero(np.diff(persons, prepend=-1))
    offsets = np.append(heads, len(persons)).astype(np.int64)
    return ItemSets(offsets, items.astype(np.int64), int(items.max()) + 1)


def item_counts(sets: ItemSets) -> Counts:
    """Give the number of persons of each item."""
    return np.bincount(sets.items, minlength=sets.size).astype(np.int64)


def descending(counts: Counts) -> Integers:
    """Give the positions of counts by count, largest first, ties by position."""
    return np.argsort(-counts, kind="stable")
