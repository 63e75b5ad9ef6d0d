"""[identity] of dpproxy.toml: who may ask on behalf of whom."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from dpproxy.config_values import SECTION
from dpproxy.front_setup import possible_name


def is_pattern(name: str) -> bool:
    """Whether a name stands for others: * for any characters, ? for one.

    >>> is_pattern("bi_*"), is_pattern("ann")
    (True, False)
    """
    return "*" in name or "?" in name


def _name(value: object) -> object:
    if isinstance(value, str) and not (possible_name(value) and value.isprintable()):
        raise ValueError(f'"{value}" cannot be the name of an analyst')
    return value


Name = Annotated[str, BeforeValidator(_name)]


class _Section(BaseModel):
    model_config = SECTION


class ServiceLogin(_Section):
    """[identity.services.NAME]: a tool's login, which may act for these analysts, by name or by pattern."""

    analysts: Annotated[list[Name], Field(min_length=1)]


class Identity(_Section):
    """[identity]: who may ask on behalf of whom."""

    services: dict[Name, ServiceLogin] = {}

    def patterns(self) -> dict[str, str]:
        """Where names are given by a pattern, by key: accounts appear there as they are asked for."""
        named = {f"services.{name}.analysts": one.analysts for name, one in self.services.items()}
        return {key: one for key, names in named.items() for one in names if is_pattern(one)}
