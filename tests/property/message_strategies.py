"""Hypothesis strategies for every declared message: each field of a version within its type."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from odradek.protocol.schema import (
    ArrayOf,
    Field,
    Fixed,
    Opaque,
    StructOf,
    WireType,
    fields_of,
)

INTEGERS = {
    "b": (-(2**7), 2**7 - 1),
    "h": (-(2**15), 2**15 - 1),
    "i": (-(2**31), 2**31 - 1),
    "q": (-(2**63), 2**63 - 1),
    "H": (0, 2**16 - 1),
    "I": (0, 2**32 - 1),
}
IDENTIFIERS = st.integers(0, 2**128 - 1).map(lambda value: UUID(int=value))


def values(kind: WireType, version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for a wire type, with values as `decode` yields them (records as bytes)."""
    if isinstance(kind, Fixed):
        if kind.code == "?":
            return st.booleans()
        if kind.code == "d":
            return st.floats(allow_nan=False)
        low, high = INTEGERS[kind.code]
        return st.integers(low, high)
    if isinstance(kind, ArrayOf):
        return st.lists(values(kind.element, version), max_size=3)
    if isinstance(kind, StructOf):
        return messages(kind.cls, version)
    assert isinstance(kind, Opaque)
    if kind.name == "text":
        return st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    if kind.name == "uuid":
        return IDENTIFIERS
    return st.binary(max_size=40)


def field_values(item: Field, version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for one field in one version, with null where that is allowed."""
    drawn = values(item.type, version)
    if item.nullable(version) or (item.tag is not None and isinstance(item.type, StructOf)):
        return st.none() | drawn
    return drawn


def messages(cls: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Return a strategy for messages of one class with every field of the version."""
    present = {
        item.name: field_values(item, version) for item in fields_of(cls) if item.present(version)
    }
    return st.fixed_dictionaries(present).map(lambda given: cls(**given))
