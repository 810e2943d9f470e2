"""A message being written by hand: the primitives of `hot_produce` and `hot_fetch`.

Small values are joined to one part. As with the writers that are made (see `writer`), stretches of
files are parts of their own, passed through uncopied, and so are record batches above
`COPIED_BYTES_MAX`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from librt.strings import BytesWriter, write_i16_be, write_i32_be
from mypy_extensions import i16, i32, i64, u8

from odradek.model.spans import FileSlice, Span
from odradek.protocol.primitives import COPIED_BYTES_MAX, MAX_STRING_BYTES


class Output:
    """Bytes being written, and the parts that are finished."""

    def __init__(self, flexible: bool) -> None:
        self.flexible = flexible
        self.out = BytesWriter()
        self.parts: list[Any] = []

    def length(self, size: i64, narrow: bool) -> None:
        """The length before a value, -1 for null; `narrow` where the old encoding has 2 bytes."""
        if self.flexible:
            rest: i64 = size + 1
            while rest > 127:
                self.out.append(u8((rest & 0x7F) | 0x80))
                rest >>= 7
            self.out.append(u8(rest))
        elif narrow:
            write_i16_be(self.out, i16(size))
        else:
            write_i32_be(self.out, i32(size))

    def text(self, value: str) -> None:
        data = value.encode()
        if len(data) > MAX_STRING_BYTES:
            raise ValueError(f"a text takes {len(data)} bytes, the protocol allows 32767")
        self.length(len(data), True)
        self.out.write(data)

    def nullable_text(self, value: str | None) -> None:
        if value is None:
            self.length(-1, True)
        else:
            self.text(value)

    def identifier(self, value: UUID) -> None:
        # `UUID.bytes` is a property that does the same, interpreted.
        self.out.write(value.int.to_bytes(16, "big"))

    def no_tags(self) -> None:
        """An empty tag section."""
        if self.flexible:
            self.out.append(0)

    def records(self, records: Any) -> None:
        """Record batches in memory, in a stretch of a file or in several; or null."""
        if records is None:
            self.length(-1, False)
        elif isinstance(records, bytes):
            if len(records) > COPIED_BYTES_MAX:
                self.part(len(records), records)
            else:
                self.length(len(records), False)
                self.out.write(records)
        elif isinstance(records, Span):
            size: i64 = records.end - records.start
            if size > COPIED_BYTES_MAX:
                self.part(size, records.view())
            else:
                self.length(size, False)
                self.out.write(records.data[records.start : records.end])
        elif isinstance(records, FileSlice):
            self.part(records.length, records)
        else:
            self.pieces(records)

    def part(self, size: i64, part: Any) -> None:
        """Bytes that are a part of their own, behind their length."""
        self.length(size, False)
        self.split()
        self.parts.append(part)

    def pieces(self, pieces: Sequence[FileSlice]) -> None:
        """Stretches of files that follow each other, behind the length of all."""
        size: i64 = 0
        for piece in pieces:
            size += piece.length
        self.length(size, False)
        if pieces:
            self.split()
            self.parts.extend(pieces)

    def split(self) -> None:
        """End the part of bytes that is being written."""
        self.parts.append(self.out.getvalue())
        self.out = BytesWriter()

    def finish(self) -> list[Any]:
        """All parts."""
        if len(self.out) > 0:
            self.parts.append(self.out.getvalue())
        return self.parts
