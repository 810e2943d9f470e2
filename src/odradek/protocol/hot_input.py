"""A frame being read by hand: the primitives of `hot_produce` and `hot_fetch`.

Every read checks that it stays inside the frame before anything is made of it, and every count that
the remaining bytes can hold as many elements, and the message as many objects (see `primitives`).
What cannot be is a `ProtocolError`.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from odradek.model.errors import ProtocolError
from odradek.model.spans import Span
from odradek.protocol.primitives import MAX_STRING_BYTES, read_uvarint, skip_tags, uuid_of


class Input:
    """A frame, the position in it, and how many objects more the message may have."""

    def __init__(self, data: bytes, pos: i64, flexible: bool, objects_max: i64) -> None:
        self.data = data
        self.pos: i64 = pos
        self.end: i64 = len(data)
        self.flexible = flexible
        self.left: i64 = objects_max

    def int8(self) -> i64:
        at: i64 = self.step(1)
        value: i64 = self.data[at]
        return value - 256 if value > 127 else value

    def int16(self) -> i64:
        return i64(read_i16_be(self.data, self.step(2)))

    def int32(self) -> i64:
        return i64(read_i32_be(self.data, self.step(4)))

    def int64(self) -> i64:
        return read_i64_be(self.data, self.step(8))

    def step(self, size: i64) -> i64:
        """Pass over `size` bytes; where they begin."""
        at: i64 = self.pos
        if size > self.end - at:
            raise ProtocolError("a message runs past the end of its frame")
        self.pos = at + size
        return at

    def length(self, narrow: bool) -> i64:
        """The length before a value, -1 for null; `narrow` where the old encoding has 2 bytes."""
        if not self.flexible:
            return self.int16() if narrow else self.int32()
        at: i64 = self.step(1)
        value: i64 = self.data[at]
        if value > 127:
            value, self.pos = read_uvarint(self.data, at)
        return value - 1

    def text(self) -> str:
        """A text that is not null."""
        return self.text_of(self.length(True))

    def nullable_text(self) -> str | None:
        size: i64 = self.length(True)
        return None if size == -1 else self.text_of(size)

    def text_of(self, size: i64) -> str:
        if size < 0 or size > MAX_STRING_BYTES:
            raise ProtocolError(f"a text of {size} bytes")
        at: i64 = self.step(size)
        try:
            return self.data[at : at + size].decode()
        except UnicodeDecodeError:
            raise ProtocolError("a message has text that is not UTF-8") from None

    def identifier(self) -> UUID:
        at: i64 = self.step(16)
        return uuid_of(self.data[at : at + 16])

    def records(self) -> Any:
        """Record batches: a span of the frame, or null."""
        size: i64 = self.length(False)
        if size == -1:
            return None
        if size < 0:
            raise ProtocolError(f"records of {size} bytes")
        at: i64 = self.step(size)
        return Span(self.data, at, at + size)

    def count(self, smallest: i64) -> i64:
        """The number of elements of an array, which the remaining bytes can hold."""
        found: i64 = self.length(False)
        self.left -= found
        if found < 0 or self.left < 0 or found * smallest > self.end - self.pos:
            raise ProtocolError(f"an array of {found} elements, {self.end - self.pos} bytes left")
        return found

    def skip_tags(self) -> None:
        """Pass over a tag section of which no field is known."""
        if self.flexible:
            at: i64 = self.step(1)
            if self.data[at] != 0:
                self.pos, self.left = skip_tags(self.data, at, self.left)

    def has_tags(self) -> bool:
        """Pass over an empty tag section; whether it has fields instead."""
        return self.flexible and self.data[self.step(1)] != 0
