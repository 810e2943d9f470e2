"""Classes whose wire form is declared by another class.

A declaration makes its own class, a dataclass (see `schema`). The few messages whose objects have
to be native ones are written out as plain classes (see `hot_messages`), and a declaration is given
to each:

    @wire_form(PartitionProduceData)
    @struct
    class PartitionProduceDataForm:
        index: i32
        records: Records | None

From then on `PartitionProduceData` is what is read, written and named in other declarations; the
form itself is never made. Its fields are the arguments of the constructor, with the same defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_forms: dict[type[Any], type[Any]] = {}


def wire_form(of: type[Any]) -> Callable[[type[T]], type[T]]:
    """Let the decorated declaration be that of a class that is written out."""

    def declare(declared: type[T]) -> type[T]:
        _forms[of] = declared
        return declared

    return declare


def form_of(cls: type[Any]) -> type[Any]:
    """The declaration of a class: its form, or itself."""
    return _forms.get(cls, cls)


def is_written_out(cls: type[Any]) -> bool:
    """Whether its declaration is another class: then only its constructor makes one."""
    return cls in _forms
