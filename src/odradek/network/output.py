"""What waits to be sent to one client: bytes and stretches of files, in order.

Bytes that stand together leave with one system call; small ones are joined first, which is cheaper
than an array of them. A stretch of a file leaves with `sendfile`, the bytes before it marked so
that the kernel sends them in the same packet. A stretch too small for that to pay is read and
joined with its neighbours.

Every `FileSlice` put in is released exactly once: when its last byte was taken, or by `discard`.

It does not know when to send, nor what to do with a client that does not read: that is
`connection`'s.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final

from odradek.model.byte_ranges import FileSlice
from odradek.model.env import Buffer, Transport

Part = Buffer | FileSlice

JOIN_BYTES: Final = 32 * 1024
"""Up to this, parts are joined to one buffer before they are sent."""

RUN_PARTS: Final = 512
"""Parts given to one system call: below the least IOV_MAX of the systems we run on."""

INLINE_BYTES: Final = 16 * 1024
"""File slices up to this are read: measured, `pread` and a join cost less than a `sendfile` of
their own.
"""


DONE: Final = 0
"""How sending ended: all is sent."""
BLOCKED: Final = 1
"""The peer does not take more now."""
YIELDED: Final = 2
"""The turn's share is sent; the peer may take more."""


class OutputQueue:
    """The parts, and how far the first one has been sent."""

    __slots__ = ("_parts", "_slice_sent", "_slices", "queued_bytes")

    def __init__(self) -> None:
        self.queued_bytes = 0
        """Not yet taken by the transport, stretches of files included."""
        self._parts: list[Part] | None = None
        """None when there are none: a list kept for every connection would be one more thing to
        fetch into the processor's caches for each answer, while a new one is there already.
        """
        self._slices = 0
        self._slice_sent = 0

    def append(self, parts: Sequence[Part]) -> None:
        if not parts:
            return
        queue = self._parts
        if queue is None:
            queue = self._parts = []
        for part in parts if isinstance(parts, list) else list(parts):
            size = len(part)
            if type(part) is FileSlice:
                if not size:
                    part.release()
                    continue
                self._slices += 1
            queue.append(part)
            self.queued_bytes += size

    def flush(self, transport: Transport, share: int) -> int:
        """Send until all is sent, the transport is full, or about `share` bytes are: one of
        `DONE`, `BLOCKED` and `YIELDED`. Raises
        `OSError`.
        """
        parts = self._parts
        if parts is None:
            return DONE
        if self._slices or self.queued_bytes > JOIN_BYTES:
            return self._flush_long(transport, parts, share)
        data = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type]
        assert not isinstance(data, FileSlice)
        self._parts = None
        taken = transport.send((data,))
        if taken == self.queued_bytes:
            self.queued_bytes = 0
            return DONE
        self.queued_bytes -= taken
        self._parts = [memoryview(data)[taken:]]
        return BLOCKED

    def _flush_long(self, transport: Transport, parts: list[Part], share: int) -> int:
        while parts:
            if share <= 0:
                return YIELDED
            head = parts[0]
            if isinstance(head, FileSlice) and head.length > INLINE_BYTES:
                taken, whole = self._send_slice(transport, parts, share)
            else:
                taken, whole = self._send_run(transport, parts)
            self.queued_bytes -= taken
            share -= taken
            if not whole:
                return BLOCKED
        self._parts = None
        return DONE

    def _send_slice(self, transport: Transport, parts: list[Part], share: int) -> tuple[int, bool]:
        head = parts[0]
        assert isinstance(head, FileSlice)
        offered = min(head.length - self._slice_sent, share)
        taken = transport.send_file(head.file, head.offset + self._slice_sent, offered)
        self._slice_sent += taken
        if self._slice_sent == head.length:
            self._slice_sent = 0
            self._slices -= 1
            del parts[0]
            head.release()
        return taken, taken == offered

    def _send_run(self, transport: Transport, parts: list[Part]) -> tuple[int, bool]:
        """One system call for the bytes up to the next long slice: (bytes taken, whether that is
        all offered).
        """
        run: list[Buffer] = []
        offered = 0
        more = False
        for index in range(min(len(parts), RUN_PARTS)):
            part = parts[index]
            if isinstance(part, FileSlice):
                if part.length > INLINE_BYTES:
                    more = True
                    break
                part = self._read(parts, index, part)
            run.append(part)
            offered += len(part)
            if offered >= JOIN_BYTES:
                break
        data = run if offered > JOIN_BYTES else [b"".join(run)]
        taken = transport.send(data, more=True) if more else transport.send(data)
        drop_bytes(parts, taken)
        return taken, taken == offered

    def _read(self, parts: list[Part], index: int, part: FileSlice) -> bytes:
        """Put the bytes of a small slice in its place."""
        data = part.read()
        if len(data) != part.length:
            end = part.offset + part.length
            raise OSError(errno.EIO, f"the file ends before byte {end}", part.file.path)
        parts[index] = data
        self._slices -= 1
        part.release()
        return data

    def discard(self) -> None:
        """Drop everything and release the files."""
        parts, self._parts = self._parts, None
        self.queued_bytes = self._slices = self._slice_sent = 0
        release_all(parts or ())


def drop_bytes(parts: list[Part], taken: int) -> None:
    """Forget that many bytes at the front; they are bytes, not files."""
    whole = 0
    for part in parts:
        if isinstance(part, FileSlice) or len(part) > taken:
            break
        taken -= len(part)
        whole += 1
    if taken:
        head = parts[whole]
        assert not isinstance(head, FileSlice)
        parts[whole] = memoryview(head)[taken:]
    del parts[:whole]


def release_all(parts: Sequence[Part]) -> None:
    """Release the file slices among parts that will not be sent."""
    for part in parts:
        if isinstance(part, FileSlice):
            part.release()
