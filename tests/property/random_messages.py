"""Random values for every declared message, each field of a version within its type.

Values are limits and defaults as often as anything in between. A message is chosen by its class,
its version and a number alone, so that a test names the same examples in each run. They are made
without Hypothesis, which takes milliseconds to choose one message and would shrink it, for messages
that are small anyway.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

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
CHARACTERS = "az09.-_ \x00\x7f\x80éß\u07ff\u0800√\ud7ff\ue000\uffff\U00010000𐍈\U0010ffff"
"""Characters of one to four bytes in UTF-8, the first and the last of each length too."""
LENGTHS = (0, 0, 1, 2, 3, 5, 12)
LONG = (40, 126, 127, 128, 300)
"""The length of a compact text or array of 127 bytes has two bytes."""
FLOATS = (0.0, -0.0, 1.0, -1.5, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"))

Drawn = Callable[[Random], Any]
FIELDS: dict[tuple[type[Any], int], list[tuple[str, Drawn]]] = {}


def random_messages(cls: type[Any], version: int, count: int) -> Iterator[tuple[Random, Any]]:
    """Yield `count` messages of a version, each with a generator of random numbers for what its
    test chooses besides."""
    for number in range(count):
        random = Random(f"{cls.__name__}-{version}-{number}")
        yield random, random_message(cls, version, random)


def random_message(cls: type[Any], version: int, random: Random) -> Any:
    """A message with every field of the version."""
    return cls(**{name: drawn(random) for name, drawn in drawn_fields(cls, version)})


def drawn_fields(cls: type[Any], version: int) -> list[tuple[str, Drawn]]:
    key = cls, version
    if key not in FIELDS:
        FIELDS[key] = [
            (item.name, drawn_field(item, version))
            for item in fields_of(cls)
            if item.present(version)
        ]
    return FIELDS[key]


def drawn_field(item: Field, version: int) -> Drawn:
    """What draws values of one field in one version: null and defaults too."""
    drawn = drawn_value(item.type, version)
    others: list[Any] = []
    if item.nullable(version) or (item.tag is not None and isinstance(item.type, StructOf)):
        others.append(None)
    if item.default is not dataclasses.MISSING and item.default is not None:
        others.append(item.default)
    if not others:
        return drawn

    def draw(random: Random) -> Any:
        if random.random() < 0.3:
            chosen = random.choice(others)
            return list(chosen) if isinstance(chosen, list) else chosen
        return drawn(random)

    return draw


def drawn_value(kind: WireType, version: int) -> Drawn:
    """What draws values of a wire type, as `decode` yields them (records as bytes)."""
    if isinstance(kind, Fixed):
        return drawn_number(kind.code)
    if isinstance(kind, ArrayOf):
        element = drawn_value(kind.element, version)
        return lambda random: [element(random) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    if isinstance(kind, StructOf):
        cls = kind.cls
        return lambda random: random_message(cls, version, random)
    assert isinstance(kind, Opaque)
    if kind.name == "text":
        return lambda random: "".join(random.choices(CHARACTERS, k=length(random)))
    if kind.name == "uuid":
        return lambda random: UUID(int=random.choice((0, 1, random.getrandbits(128))))
    return lambda random: random.randbytes(length(random))


def length(random: Random) -> int:
    return random.choice(LONG if random.random() < 0.05 else LENGTHS)


def drawn_number(code: str) -> Drawn:
    if code == "?":
        return lambda random: random.random() < 0.5
    if code == "d":
        return lambda random: random.choice((*FLOATS, random.uniform(-1e9, 1e9)))
    low, high = INTEGERS[code]
    limits = (low, high, max(-1, low), 0, 1)

    def draw(random: Random) -> int:
        if random.random() < 0.4:
            return random.choice(limits)
        return random.randint(low, high) >> random.choice((0, 0, 8, 16, 32))

    return draw
