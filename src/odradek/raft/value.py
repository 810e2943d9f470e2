"""The decorator `value`: immutable values with positional arguments, cheap to declare.

A replica has some fifty kinds of events, effects and messages, and a broker imports all of them
when it starts. `dataclasses` compiles several functions for each; here only the constructor is
compiled, when the first value of its kind is made. Type checkers see a frozen dataclass; at run
time nothing prevents a change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Give a class a constructor, equality, a hash and a representation by its annotations."""
    names = tuple(cls.__annotations__)
    made: Any = cls
    made.__match_args__ = names  # type: ignore[misc]  # mypy wants it in the class body.

    def __init__(self: Any, *given: Any, **named: Any) -> None:
        made.__init__ = compiled_constructor(cls, names)
        made.__init__(self, *given, **named)

    def values_of(self: Any) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in names)

    def __eq__(self: Any, other: object) -> bool:
        if type(other) is not cls:
            return NotImplemented
        return values_of(self) == values_of(other)

    def __hash__(self: Any) -> int:
        return hash((cls, values_of(self)))

    def __repr__(self: Any) -> str:
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{cls.__name__}({inside})"

    made.__init__ = __init__
    made.__hash__ = __hash__
    made.__repr__ = __repr__
    if "__eq__" not in vars(cls):
        made.__eq__ = __eq__
    return cls


def compiled_constructor(cls: type[Any], names: tuple[str, ...]) -> Callable[..., None]:
    """Return an `__init__` with one assignment for each name; class attributes are defaults."""
    scope: dict[str, Any] = {}
    parameters = []
    for name in names:
        parameters.append(name)
        if name in vars(cls):
            scope[f"default_{name}"] = vars(cls)[name]
            parameters[-1] = f"{name}=default_{name}"
    body = "".join(f"\n self.{name} = {name}" for name in names) or "\n pass"
    exec(f"def __init__({', '.join(['self', *parameters])}):{body}", scope)
    made: Callable[..., None] = scope["__init__"]
    return made
