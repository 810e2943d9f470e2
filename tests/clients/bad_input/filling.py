"""Requests of any API and version with every element given once, twice, or not at all."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass
from typing import Any
from uuid import UUID

from clients.asking import BATCH
from fuzz.tokens import Tokens
from odradek.protocol.frame import request_is_flexible
from odradek.protocol.schema import (
    RECORDS,
    TEXT,
    ArrayOf,
    Field,
    Fixed,
    StructOf,
    WireType,
    fields_of,
)

APT: dict[str, object] = {
    "acks": 1,
    "timeout_ms": 10_000,
    "session_timeout_ms": 10_000,
    "endpoint_type": 1,
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "replica_id": -1,
    "replica_epoch": -1,
    "client_software_name": "a",
    "client_software_version": "1",
    "transactional_id": None,
}
"""Fields where a 0, or the name of a topic, would be refused before any other check."""


def frame(key: int, version: int, rest: bytes = b"") -> bytes:
    """Return a frame with an empty client id and the given rest.

    In a flexible version the rest is the tag section of the header, then the body.
    """
    body = struct.pack(">hhih", key, version, 1, 0) + rest
    return struct.pack(">i", len(body)) + body


def request_frame(key: int, version: int, body: bytes) -> bytes:
    """Return a frame with the header of the version."""
    return frame(key, version, (b"\0" if request_is_flexible(key, version) else b"") + body)


class Filling:
    """Makes messages whose arrays have `times` equal elements and whose texts are `text`."""

    def __init__(self, version: int, times: int, text: str, topic_id: UUID) -> None:
        self.version = version
        self.times = times
        self.text = text
        self.topic_id = topic_id

    def message(self, cls: type[Any]) -> Any:
        present = [item for item in fields_of(cls) if item.present(self.version)]
        return cls(**{item.name: self.field(item) for item in present})

    def field(self, item: Field) -> object:
        apt = APT.get(item.name, item)
        is_apt = apt is not item and (apt is not None or item.nullable(self.version))
        return apt if is_apt else self.value(item.type)

    def value(self, kind: WireType) -> object:
        if isinstance(kind, ArrayOf):
            return [self.value(kind.element) for _ in range(self.times)]
        if isinstance(kind, StructOf):
            return self.message(kind.cls)
        if isinstance(kind, Fixed):
            return False if kind.code == "?" else 0
        if kind.name == "uuid":
            return self.topic_id
        if kind == TEXT:
            return self.text
        return BATCH if kind == RECORDS else b""


class Sized(Tokens):
    """A writer that records the positions of sizes that may not be null."""

    def __init__(self, cls: type[Any], version: int) -> None:
        super().__init__(cls, version)
        self.not_nullable: list[int] = []

    def value(self, kind: WireType, value: Any, nullable: bool) -> None:
        fixed = isinstance(kind, Fixed | StructOf) or (
            not isinstance(kind, ArrayOf) and kind.name == "uuid"
        )
        if not nullable and not fixed:
            self.not_nullable.append(len(self.found))
        super().value(kind, value, nullable)


def error_codes(answer: object) -> set[int]:
    """Return all error codes anywhere in a message."""
    if isinstance(answer, list):
        return {code for element in answer for code in error_codes(element)}
    if not is_dataclass(answer):
        return set()
    found: set[int] = set()
    for item in fields(answer):
        value = getattr(answer, item.name)
        found |= {value} if item.name == "error_code" else error_codes(value)
    return found
