"""Ranges of bytes that are passed on without being decoded or copied.

`ByteRange` is a range of a received frame: the protocol's decoder returns one for record batches.
`FileSlice` is a range of a file: the log returns one for a fetch, and the network sends it with
`sendfile`.

Both are values: never change one. They are neither frozen nor dataclasses because one is made per
partition of every produce and fetch, and written out they compile to native classes.
"""

from __future__ import annotations

from odradek.model.env import File


class ByteRange:
    """Bytes `start..end` (end exclusive) of `data`."""

    __slots__ = ("data", "end", "start")

    def __init__(self, data: bytes, start: int, end: int) -> None:
        self.data = data
        self.start = start
        self.end = end

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ByteRange):
            return NotImplemented
        return (self.data, self.start, self.end) == (other.data, other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.data, self.start, self.end))

    def __repr__(self) -> str:
        return f"ByteRange({self.start}..{self.end} of {len(self.data)} bytes)"

    def __len__(self) -> int:
        return self.end - self.start

    def view(self) -> memoryview:
        """The bytes, not copied."""
        return memoryview(self.data)[self.start : self.end]

    def __bytes__(self) -> bytes:
        return self.data[self.start : self.end]


class FileSlice:
    """`length` bytes of `file` from `offset`. The file is pinned: call `release` exactly once."""

    __slots__ = ("file", "length", "offset")

    def __init__(self, file: File, offset: int, length: int) -> None:
        self.file = file
        self.offset = offset
        self.length = length

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FileSlice):
            return NotImplemented
        return (self.file, self.offset, self.length) == (other.file, other.offset, other.length)

    def __hash__(self) -> int:
        return hash((self.file, self.offset, self.length))

    def __repr__(self) -> str:
        return f"FileSlice({self.file.path}, {self.offset}, {self.length})"

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """Read the bytes, for transports without sendfile and for tests."""
        return self.file.read(self.offset, self.length)

    def release(self) -> None:
        self.file.unpin()
