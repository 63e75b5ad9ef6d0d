"""Names that mean people, and columns that lead to people other than those who are protected."""

from __future__ import annotations

import re
from collections.abc import Collection

from dpproxy.backends.base import BackendColumn, BackendTable
from rewriter.policy import TableName

PERSONS = {
    *("account", "applicant", "borrower", "cardholder", "citizen", "client", "contact", "customer", "donor"),
    *("driver", "employee", "guest", "household", "member", "participant", "passenger", "patient", "people"),
    *("person", "player", "policyholder", "profile", "resident", "student", "subject", "subscriber"),
    *("taxpayer", "tenant", "user", "visitor", "voter", "worker"),
}
"""Whom data are about: the last word of the table of the privacy unit."""
_OTHERS = {
    *(
        "admin",
        "advisor",
        "agent",
        "assignee",
        "attendee",
        "author",
        "broker",
        "candidate",
        "caregiver",
        "carer",
    ),
    *(
        "clinician",
        "colleague",
        "gp",
        "courier",
        "creator",
        "doctor",
        "editor",
        "father",
        "guardian",
        "inspector",
    ),
    *(
        "instructor",
        "interviewer",
        "landlord",
        "lawyer",
        "lecturer",
        "manager",
        "midwife",
        "moderator",
        "mother",
    ),
    *(
        "nurse",
        "officer",
        "operator",
        "owner",
        "parent",
        "pharmacist",
        "physician",
        "practitioner",
        "professor",
    ),
    *(
        "provider",
        "receiver",
        "recipient",
        "relative",
        "reporter",
        "representative",
        "reviewer",
        "salesperson",
    ),
    *("seller", "sender", "sibling", "spouse", "staff", "supervisor", "surgeon", "teacher", "technician"),
    *("therapist", "tutor", "witness"),
}
KEY_WORDS = {"code", "guid", "id", "key", "no", "nr", "number", "oid", "pk", "ref", "sk", "uuid"}
"""Words that make a key of a name, and no name of their own."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_NO_NAMES = ("boolean", "date", "time", "interval", "real", "double")


def words(name: str) -> list[str]:
    """The words of an identifier, in lower case.

    >>> words("HomeAddress"), words("e_mail2"), words("userID")
    (['home', 'address'], ['e', 'mail', '2'], ['user', 'id'])
    """
    return [word.lower() for word in _WORD.findall(name)]


def singular(word: str) -> str:
    """The word without its plural.

    >>> [singular(word) for word in ("users", "people", "categories", "address")]
    ['user', 'person', 'category', 'address']
    """
    if word == "people":
        return "person"
    if word.endswith("ies"):
        return f"{word[:-3]}y"
    return word if word.endswith("ss") else word.removesuffix("s")


def called_after_persons(name: str) -> bool:
    """Whether a table is called after whom data are about.

    >>> called_after_persons("dim_customer"), called_after_persons("doctors")
    (True, False)
    """
    return singular((words(name) or [""])[-1]) in PERSONS


def called_after_people(name: str) -> bool:
    """Whether any word of a name means people of whatever kind.

    >>> called_after_people("doctor_shifts"), called_after_people("wards")
    (True, False)
    """
    return any(singular(word) in PERSONS | _OTHERS for word in words(name))


def other_people(
    table: BackendTable, column: BackendColumn, unit: TableName, of_others: Collection[TableName] = ()
) -> str | None:
    """How a column leads to people other than those whom the table `unit` holds, by foreign key or name; None if not.

    `of_others`: tables whose rows the owner has said to be other people's.

    >>> doctor = BackendColumn("attending_doctor_id", "bigint", "bigint")
    >>> other_people(BackendTable("public", "stays", ("stays",), (doctor,)), doctor, ("public", "patients"))
    'is called after a doctor'
    """
    for key in table.foreign_keys:
        others = key.target in of_others or (key.target != unit and called_after_people(key.target[1]))
        if column.name in key.columns and others:
            return f"leads to {key.target[1]}"
    found = words(column.name)
    if len(found) > 1 and found[-1] == "by":
        return "says by whom"
    is_key = len(found) > 1 and found[-1] in KEY_WORDS
    last = singular(found[-2] if is_key else found[-1]) if found else ""
    could_name = is_key or not str(column.type).startswith((*_NO_NAMES, "numeric", "smallint"))
    if last not in PERSONS | _OTHERS or not could_name or last == singular((words(unit[1]) or [""])[-1]):
        return None
    return f"is called after {'an' if last[0] in 'aeiou' else 'a'} {last}"
