"""Refusals: what the proxy says instead of an answer, never with data in it."""

from __future__ import annotations


class Refusal(Exception):
    """A statement that gets an error instead of an answer.

    `code` is an SQLSTATE, `position` the 1-based character of the client's text that it is about.
    No text of it may depend on private data: it is decided from the statement and the policy alone.

    >>> Refusal("PV010", "no rows", hint="aggregate").code
    'PV010'
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position
