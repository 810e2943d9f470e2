"""Seeded requests: any API, any version, with values that get past the broker's first checks."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from fuzz.batches import any_batch
from odradek.protocol.api_keys import MESSAGES, ApiMessages
from odradek.protocol.schema import (
    RECORDS,
    TEXT,
    ArrayOf,
    Field,
    Fixed,
    Opaque,
    StructOf,
    WireType,
    fields_of,
)

SMALL = (-2, -1, 0, 0, 0, 1, 1, 2, 3, 100)
LIMITS = {
    "b": (-(2**7), 2**7 - 1),
    "h": (-(2**15), 2**15 - 1),
    "i": (-(2**31), 2**31 - 1),
    "q": (-(2**63), 2**63 - 1),
    "H": (0, 2**16 - 1),
    "I": (0, 2**32 - 1),
}
WORDS = (
    "",
    "a",
    "a.b",
    "a_b",
    "..",
    "a/b",
    "\0",
    "x" * 249,
    "y" * 300,
    "t\u00f6pic",
    "__cluster_metadata",
    "__consumer_offsets",
    "cleanup.policy",
    "compact",
    "retention.ms",
    "segment.bytes",
    "max.message.bytes",
    "-1",
    "1048588",
    "line\nbreak\r\x1b[31m",
    "1",
)


@dataclass
class Vocabulary:
    """Names that the broker knows, so that requests get past the first check."""

    topics: list[str] = field(default_factory=lambda: ["there"])
    ids: list[UUID] = field(default_factory=lambda: [UUID(int=1)])


class Requests:
    """An iterator of valid requests from a seeded `Random`."""

    def __init__(
        self, random: Random, vocabulary: Vocabulary, apis: list[ApiMessages] | None = None
    ) -> None:
        self.random = random
        self.vocabulary = vocabulary
        self.apis = apis or list(MESSAGES.values())

    def next(self) -> tuple[ApiMessages, int, Any]:
        """Return (API, version, message)."""
        api = self.random.choice(self.apis)
        version = self.random.randint(*api.versions)
        return api, version, self.message(api.request, version)

    def message(self, cls: type[Any], version: int) -> Any:
        """Return a message of one class with every field of the version."""
        values = {
            item.name: self.field(item, version) for item in fields_of(cls) if item.present(version)
        }
        return cls(**values)

    def field(self, item: Field, version: int) -> Any:
        absent = item.tag is not None and isinstance(item.type, StructOf)
        if (item.nullable(version) or absent) and self.random.random() < 0.3:
            return None
        if item.name in ("timeout_ms", "max_wait_ms"):
            return self.random.choice((0, 0, 1, 5))
        return self.value(item.type, version)

    def value(self, kind: WireType, version: int) -> Any:
        random = self.random
        if isinstance(kind, ArrayOf):
            size = random.choice((0, 1, 1, 1, 2, 3))
            return [self.value(kind.element, version) for _ in range(size)]
        if isinstance(kind, StructOf):
            return self.message(kind.cls, version)
        if isinstance(kind, Fixed):
            return self.number(kind)
        return self.opaque(kind)

    def number(self, kind: Fixed) -> Any:
        random = self.random
        if kind.code == "?":
            return random.random() < 0.5
        if kind.code == "d":
            return random.uniform(-1e9, 1e9)
        low, high = LIMITS[kind.code]
        if random.random() < 0.8:
            return max(low, random.choice(SMALL))
        return random.choice((low, high, random.randint(low, high)))

    def opaque(self, kind: Opaque) -> Any:
        random = self.random
        if kind.name == "uuid":
            if random.random() < 0.7:
                return random.choice(self.vocabulary.ids)
            return UUID(int=random.getrandbits(128))
        if kind == TEXT:
            if random.random() < 0.6:
                return random.choice(self.vocabulary.topics)
            return random.choice(WORDS)
        if kind == RECORDS:
            return any_batch(random)
        return random.randbytes(random.randrange(20))
