"""Messages written by hand agree with the declarations of their wire forms."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from odradek.protocol.api import fetch, produce
from odradek.protocol.schema import fields_of, form_of, is_written_by_hand

WRITTEN_OUT = [
    cls
    for module in (produce, fetch)
    for cls in vars(module).values()
    if isinstance(cls, type) and is_written_by_hand(cls)
]


def required(cls: type[Any]) -> dict[str, Any]:
    """Return a value for every field without a default."""
    return {item.name: 7 if "list" not in str(item.type) else [] for item in _without_default(cls)}


def _without_default(cls: type[Any]) -> list[dataclasses.Field[Any]]:
    missing = (dataclasses.MISSING, dataclasses.MISSING)
    return [
        item
        for item in dataclasses.fields(form_of(cls))
        if (item.default, item.default_factory) == missing
    ]


@pytest.mark.parametrize("cls", WRITTEN_OUT)
def test_a_constructor_has_the_fields_and_defaults_of_its_form(cls: type[Any]) -> None:
    given = required(cls)
    made, form = cls(**given), form_of(cls)(**given)
    for item in fields_of(cls):
        assert getattr(made, item.name) == getattr(form, item.name)
    with pytest.raises(TypeError):
        cls(**given, another=1)
    for name in given:
        with pytest.raises(TypeError):
            cls(**{other: value for other, value in given.items() if other != name})


@pytest.mark.parametrize("cls", WRITTEN_OUT)
def test_messages_are_equal_if_their_fields_are(cls: type[Any]) -> None:
    given = required(cls)
    assert cls(**given) == cls(**given)
    assert cls(**given) != form_of(cls)(**given)
    number = next((name for name, value in given.items() if value == 7), None)
    if number is not None:
        assert cls(**given) != cls(**{**given, number: 8})
        assert f"{number}=7" in repr(cls(**given))
