"""The output queue of one connection: bytes and byte ranges of files, in order.

Adjacent bytes are sent with one system call; small parts are joined first, which is cheaper than an
array of buffers. A range of a file is sent with `sendfile`, and the bytes before it are marked so
that the kernel sends them in the same packet. A small range, for which `sendfile` costs more than
it saves, is read and joined with its neighbours.

Every `FileSlice` added is released exactly once: when its last byte was taken, or by `discard`.

The connection decides when to send, and when to close because a client does not read.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final

from odradek.model.byte_ranges import FileSlice
from odradek.model.env import Buffer, Transport

Part = Buffer | FileSlice

JOIN_BYTES: Final = 32 * 1024
"""Parts are joined to one buffer up to this size before they are sent."""

RUN_PARTS: Final = 512
"""Parts per system call: below the lowest IOV_MAX of the supported systems."""

INLINE_BYTES: Final = 16 * 1024
"""File slices up to this size are read: `pread` and a join cost less than a separate `sendfile`
(measured).
"""


DONE: Final = 0
"""Result of `flush`: everything is sent."""
BLOCKED: Final = 1
"""Result of `flush`: the peer takes no more now."""
YIELDED: Final = 2
"""Result of `flush`: the round's share is sent; the peer may take more."""


class OutputQueue:
    """The parts, and how many bytes of the first one are sent."""

    __slots__ = ("_parts", "_slice_sent", "_slices", "queued_bytes")

    def __init__(self) -> None:
        self.queued_bytes = 0
        """Bytes not yet taken by the transport, ranges of files included."""
        self._parts: list[Part] | None = None
        """None when there are none: a kept list would have to be fetched into the processor's
        caches for each response, while a new one is already there.
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
        """Send until everything is sent, the transport is full, or about `share` bytes are sent.

        Returns `DONE`, `BLOCKED` or `YIELDED`. Raises `OSError`.
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
        """Send the bytes up to the next long slice with one system call.

        Return the number of bytes taken, and True if these are all.
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
        """Replace a small slice by its bytes."""
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
    """Remove `taken` bytes, of parts that are not file slices, from the front."""
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
    """Release the file slices among parts that are not sent."""
    for part in parts:
        if isinstance(part, FileSlice):
            part.release()
