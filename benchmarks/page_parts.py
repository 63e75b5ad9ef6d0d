"""docs/benchmarks.md has two parts: the figures of `make bench`, and those of `make bench-peers`."""

from __future__ import annotations

PEERS = "<!-- peers -->"
"""Where the part of `make bench-peers` begins."""


def rewritten(old: str, own: str | None = None, peers: str | None = None) -> str:
    """The page with one of its two parts written anew; the other stays as it is.

    >>> print(rewritten(rewritten("", peers="new peers"), own="new figures"))
    new figures
    <BLANKLINE>
    <!-- peers -->
    <BLANKLINE>
    new peers
    <BLANKLINE>
    """
    before, _, after = old.partition(PEERS)
    first, second = before if own is None else own, after if peers is None else peers
    return "\n\n".join(part.strip() for part in (first, PEERS, second) if part.strip()) + "\n"
