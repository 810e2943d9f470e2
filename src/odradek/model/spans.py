"""Stretches of bytes that are passed on without being looked at or copied.

`Span` is a stretch of a received frame: what the protocol's decoder yields for record batches.
`FileSlice` is a stretch of a file: what the log yields for a fetch, and what the network sends with
`sendfile`.

Both are values: never change one. They are not frozen because one is made per partition of every
produce and fetch, and a frozen dataclass takes three times as long to make.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.model.env import File


@dataclass(slots=True, unsafe_hash=True)
class Span:
    """Bytes `start..end` (end exclusive) of `data`."""

    data: bytes
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def view(self) -> memoryview:
        """The bytes without a copy."""
        return memoryview(self.data)[self.start : self.end]

    def __bytes__(self) -> bytes:
        return self.data[self.start : self.end]


@dataclass(slots=True, unsafe_hash=True)
class FileSlice:
    """`length` bytes of `file` from `offset`. Its maker has pinned the file; `release` it exactly
    once.
    """

    file: File
    offset: int
    length: int

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """The bytes themselves, for the paths that need them (`Transport`s without sendfile,
        tests).
        """
        return self.file.read(self.offset, self.length)

    def release(self) -> None:
        self.file.unpin()
