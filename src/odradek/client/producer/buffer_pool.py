"""BufferPool: the memory for records that wait to be sent, at most `buffer.memory` bytes.

    total = free list + available + charged

    allocate(size) ──► Buffer ─ records are encoded into it ─► keep(buffer, n): the batch is sealed
       │ no room                                                    │ the buffer is free again; the
       ▼                                                            ▼ n sealed bytes stay charged
    wait(size) ─► MemoryWaiter, served in order  ◄──────────── deallocate(n): the batch is done

Nearly all batches have one size, `batch.size`. Buffers of that size go to a free list when no
records are written to them any more, so that a busy producer neither allocates nor grows memory.
Other sizes (a record larger than a batch) come from the rest and go back to it; where the rest is
too small, free buffers are given up for it.

A buffer itself is never sent. Sealing a batch copies its bytes out once; requests, retries and
expiry use only that copy, which nobody can write to. A buffer is free as soon as the copy is made.
So it may be filled for another topic while the first batch is still being written to a socket, or
has expired there, without any effect on it.

Without room a caller may wait. Waiters are served strictly in order: the first one as soon as there
is room for it, and nobody passes it. A waiter may give up; memory granted to it in the meantime
goes back. `close` fails all waiters.

`allocate` may be called on any thread; all that serves waiters runs on the owner thread only.
"""

from __future__ import annotations

from collections import deque
from typing import final

from librt.strings import BytesWriter
from librt.threading import Lock
from mypy_extensions import i64

from odradek.client.errors import ClientClosed
from odradek.client.waiter import Waiter
from odradek.model.sampled_stat import SampledStat


@final
class Buffer:
    """Memory for the records of one batch. `size` bytes are charged for it."""

    def __init__(self, size: i64) -> None:
        self.writer = BytesWriter()
        self.size = size


@final
class MemoryWaiter:
    """A place in the queue for `size` bytes. `waiter` completes with the buffer, or fails."""

    def __init__(self, size: i64) -> None:
        self.size = size
        self.waiter: Waiter[Buffer] = Waiter()


@final
class BufferPool:
    """A pool of `total_bytes`, with a free list of buffers of `poolable_bytes`."""

    def __init__(self, total_bytes: i64, poolable_bytes: i64, lock: Lock) -> None:
        self.total_bytes = total_bytes
        self.poolable_bytes = poolable_bytes
        self.available: i64 = total_bytes
        """Neither charged nor in the free list."""
        self.free: list[Buffer] = []
        self.waiters: deque[MemoryWaiter] = deque()
        self.closed: Exception | None = None
        self.exhausted = SampledStat()
        """Records that were refused for want of room."""
        self._lock = lock

    @property
    def unallocated_bytes(self) -> int:
        """Bytes that are not charged to anybody."""
        return self.available + len(self.free) * self.poolable_bytes

    @property
    def charged_bytes(self) -> int:
        return self.total_bytes - self.unallocated_bytes

    def allocate(self, size: i64) -> Buffer | None:
        """Return a buffer for `size` bytes; None if there is no room, or others wait already.

        Raises `ClientClosed`, and `ValueError` for a size that will never fit.
        """
        if size > self.total_bytes:
            raise ValueError(f"{size} bytes do not fit a pool of {self.total_bytes}")
        with self._lock:
            if self.closed is not None:
                raise self.closed
            if self.waiters:
                return None
            return self._take(size)

    def _take(self, size: i64) -> Buffer | None:
        free = self.free
        if size == self.poolable_bytes and free:
            return free.pop()
        while self.available < size and free:
            free.pop()
            self.available += self.poolable_bytes
        if self.available < size:
            return None
        self.available -= size
        return Buffer(size)

    def wait(self, size: i64) -> MemoryWaiter:
        """Join the queue for `size` bytes; may be served at once."""
        found = MemoryWaiter(size)
        with self._lock:
            closed = self.closed
            if closed is None:
                self.waiters.append(found)
        if closed is not None:
            found.waiter.fail(closed)
        else:
            self.serve()
        return found

    def give_up(self, memory: MemoryWaiter, reason: Exception) -> None:
        """Leave the queue: the waiter fails with `reason`, unless it is done already."""
        with self._lock:
            if memory in self.waiters:
                self.waiters.remove(memory)
        memory.waiter.fail(reason)
        # The waiters behind it may need less.
        self.serve()

    def serve(self) -> None:
        """Serve the first waiters, as far as there is room."""
        waiters = self.waiters
        while waiters:
            with self._lock:
                if not waiters:
                    return
                buffer = self._take(waiters[0].size)
                if buffer is None:
                    return
                first = waiters.popleft()
            # Outside of the lock: the callback may ask for more memory.
            if not first.waiter.complete(buffer):
                self.put_back(buffer)

    def record_refused(self, now_ms: i64) -> None:
        """Record that a record was refused for want of room. Any thread."""
        with self._lock:
            self.exhausted.record(1, now_ms)

    def put_back(self, buffer: Buffer) -> None:
        """Take back a buffer that was not needed, without serving waiters."""
        with self._lock:
            self._reuse(buffer, 0)

    def keep(self, buffer: Buffer, kept: i64) -> i64:
        """Take back a buffer whose records were copied out. `kept` bytes stay charged for the copy,
        but at most the size of the buffer; return how many."""
        with self._lock:
            if kept > buffer.size:
                kept = buffer.size
            self._reuse(buffer, kept)
        self.serve()
        return kept

    def _reuse(self, buffer: Buffer, kept: i64) -> None:
        spare = self.available + buffer.size - kept
        poolable = buffer.size == self.poolable_bytes
        if poolable and spare >= buffer.size and not self.waiters and self.closed is None:
            buffer.writer.truncate(0)
            self.free.append(buffer)
            spare -= buffer.size
        self.available = spare

    def deallocate(self, size: i64) -> None:
        """Take back the bytes charged for a batch that is done."""
        with self._lock:
            self.available += size
        self.serve()

    def close(self, reason: Exception | None = None) -> None:
        """Grant no more memory, and fail all waiters with `reason`."""
        closed = reason or ClientClosed("the producer is closed")
        with self._lock:
            self.closed = closed
            waiters = list(self.waiters)
            self.waiters.clear()
        for memory in waiters:
            memory.waiter.fail(closed)
