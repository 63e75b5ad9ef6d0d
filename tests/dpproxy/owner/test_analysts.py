"""Analysts: which names and passwords may be, and what is kept of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpproxy.config.sections import Config
from dpproxy.deployment.service import configured, opened_vault
from dpproxy.owner import analysts
from tests.dpproxy import serving


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return configured(Path(serving.make(tmp_path_factory.mktemp("deployment"))))


@pytest.mark.parametrize(
    ("name", "password"),
    [
        ("ann", ""),
        ("ann", "x" * 9),
        *((name, "x" * 10) for name in ("pg_ann", "", "a" * 64, "a\nb", "owner")),
    ],
)
def test_names_and_passwords_that_cannot_be(config: Config, name: str, password: str) -> None:
    with pytest.raises(analysts.UserError):
        analysts.add(config, name, password)


@pytest.mark.service
def test_a_verifier_is_kept_and_no_password(config: Config) -> None:
    analysts.add(config, "ann", "hunter2 and 3")
    assert analysts.names(config) == ("ann",)
    with opened_vault(config) as vault:
        first = vault.ledger.analysts.verifier("ann")
    with pytest.raises(analysts.UserError, match="at least 10 characters"):
        analysts.set_password(config, "ann", "x" * 9)
    analysts.set_password(config, "ann", "hunter2 and 3")
    with opened_vault(config) as vault:
        second = vault.ledger.analysts.verifier("ann")
    assert first != second
    assert "hunter2 and 3" not in f"{first}{second}"
    analysts.remove(config, "ann")
    assert analysts.names(config) == ()
    with pytest.raises(analysts.UserError):
        analysts.set_password(config, "ann", "x" * 10)
    with pytest.raises(analysts.UserError):
        analysts.remove(config, "ann")
