"""A message as a list of tokens, for structure-aware fuzzing.

    [count 2] [length 5] [text b"topic"] [fixed i 7] [count 0] [tags 0] ...

This is a second encoder that walks the declarations instead of compiling them. The joined tokens of
a message are the bytes of `encode`, as a test checks. A mutation changes, removes or repeats
tokens, and the rest of the message stays well-formed around it.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from struct import pack
from typing import Any

from odradek.protocol.schema import (
    TEXT,
    ArrayOf,
    Field,
    Fixed,
    Opaque,
    StructOf,
    WireType,
    declaration,
    fields_of,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token.

    `kind` is `count`, `length`, `marker`, `fixed`, `text`, `bytes`, `tags` or `tag`; `wide` the
    encoding of a length (`h`, `i`, or `v` for a varint); `depth` the number of arrays around it.
    """

    kind: str
    data: bytes
    wide: str = ""
    depth: int = 0


def varint(value: int) -> bytes:
    """Return an unsigned varint of any size; negative values as 64 bits."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sized(value: int, wide: str) -> bytes:
    """Return an encoded length or count, -1 for null; values that do not fit wrap."""
    if wide == "v":
        return varint(value + 1)
    bits = 16 if wide == "h" else 32
    return (value & (2**bits - 1)).to_bytes(bits // 8, "big")


class Tokens:
    """Collects the tokens of one message in one version."""

    def __init__(self, cls: type[Any], version: int) -> None:
        self.version = version
        self.flexible = declaration(cls).is_flexible(version)
        self.found: list[Token] = []
        self.depth = 0

    def put(self, kind: str, data: bytes, wide: str = "") -> None:
        self.found.append(Token(kind, data, wide, self.depth))

    def put_size(self, kind: str, size: int, narrow: bool) -> None:
        wide = "v" if self.flexible else "h" if narrow else "i"
        self.put(kind, sized(size, wide), wide)

    def struct(self, value: Any) -> None:
        present = [item for item in fields_of(type(value)) if item.present(self.version)]
        for item in present:
            if item.tag is None:
                self.value(item.type, getattr(value, item.name), item.nullable(self.version))
        if self.flexible:
            self.tags(value, [item for item in present if item.tag is not None])

    def tags(self, value: Any, tagged: list[Field]) -> None:
        told = [item for item in tagged if getattr(value, item.name) != default_of(item)]
        self.put("tags", varint(len(told)), "v")
        for item in sorted(told, key=lambda item: item.tag or 0):
            inner = Tokens.__new__(Tokens)
            inner.version, inner.flexible = self.version, self.flexible
            inner.found, inner.depth = [], self.depth + 1
            content = getattr(value, item.name)
            if isinstance(item.type, StructOf) and not item.optional:
                inner.struct(content)
            else:
                inner.value(item.type, content, item.nullable(self.version))
            assert item.tag is not None
            self.put("tag", varint(item.tag), "v")
            self.put("length", varint(sum(len(token.data) for token in inner.found)), "v")
            self.found += inner.found

    def value(self, kind: WireType, value: Any, nullable: bool) -> None:
        if isinstance(kind, Fixed):
            self.put("fixed", pack(f">{kind.code}", value))
        elif isinstance(kind, StructOf):
            if nullable:
                self.put("marker", b"\xff" if value is None else b"\x01")
            if value is not None:
                self.struct(value)
        elif isinstance(kind, ArrayOf):
            self.array(kind, value)
        else:
            self.opaque(kind, value)

    def array(self, kind: ArrayOf, value: list[Any] | None) -> None:
        self.put_size("count", -1 if value is None else len(value), narrow=False)
        self.depth += 1
        for element in value or ():
            self.value(kind.element, element, nullable=False)
        self.depth -= 1

    def opaque(self, kind: Opaque, value: Any) -> None:
        if kind.name == "uuid":
            self.put("fixed", value.bytes)
            return
        data = None if value is None else value.encode() if kind == TEXT else bytes(value)
        self.put_size("length", -1 if data is None else len(data), narrow=kind == TEXT)
        if data:
            self.put("text" if kind == TEXT else "bytes", data)


def default_of(item: Field) -> Any:
    return None if item.default is MISSING else item.default


def tokens_of(message: Any, version: int) -> list[Token]:
    """Return the tokens of a message's body."""
    tokens = Tokens(type(message), version)
    tokens.struct(message)
    return tokens.found


def joined(tokens: list[Token]) -> bytes:
    return b"".join(token.data for token in tokens)
