"""Constructor, equality and representation for the classes of messages.

`dataclasses` would compile three functions per class; over a hundred classes that is a noticeable
part of a broker's start. Only the constructor needs compiling, and at its first use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING
from operator import attrgetter
from typing import Any


def attach(cls: type[Any], names: list[str]) -> None:
    """Give a class its constructor, equality and representation."""

    def __init__(self: Any, **values: Any) -> None:
        cls.__init__ = compile_constructor(cls)
        cls.__init__(self, **values)

    if len(names) > 1:
        values_of: Callable[[Any], Any] = attrgetter(*names)
    elif names:
        values_of = attrgetter(names[0])
    else:
        values_of = type

    def __eq__(self: Any, other: object) -> bool:
        if type(other) is not cls:
            return NotImplemented
        return bool(values_of(self) == values_of(other))

    def __repr__(self: Any) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{cls.__name__}({inside})"

    cls.__init__ = __init__
    cls.__eq__ = __eq__  # type: ignore[assignment]
    cls.__repr__ = __repr__  # type: ignore[assignment]
    cls.__hash__ = None  # type: ignore[assignment]


def compile_constructor(cls: type[Any]) -> Callable[..., None]:
    """`__init__` with keyword-only arguments, one plain assignment each."""
    parameters, body = [], []
    scope: dict[str, Any] = {"MISSING": MISSING}
    for item in dataclasses.fields(cls):
        name = item.name
        if item.default_factory is not MISSING:
            scope[f"make_{name}"] = item.default_factory
            parameters.append(f"{name}=MISSING")
            body.append(f"self.{name} = make_{name}() if {name} is MISSING else {name}")
            continue
        if item.default is not MISSING:
            scope[f"default_{name}"] = item.default
            parameters.append(f"{name}=default_{name}")
        else:
            parameters.append(name)
        body.append(f"self.{name} = {name}")
    arguments = "self, *, " + ", ".join(parameters) if parameters else "self"
    source = f"def __init__({arguments}):\n " + ("\n ".join(body) or "pass")
    exec(source, scope)
    made: Callable[..., None] = scope["__init__"]
    return made
