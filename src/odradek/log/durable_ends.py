"""How far every log of a data directory is known to be durable, and where it starts: the file
`durable-ends`.

One slot of 128 bytes per partition, two halves of 64 so that none crosses a sector; big-endian:

    offset  size
         0    16  topic id             zero: the half is empty
        16     4  partition
        20     8  serial               the half with the higher one counts
        28     8  durable end          the bytes before this offset have been synced
        36     8  recovery point       so have indexes, leader epochs and a producer snapshot
        44     8  log start            what deletions raised it to, at least
        52     4  crc                  CRC-32C of the 52 bytes before it

A worker that has synced a log writes the half that does not count, and only then is anything
acknowledged. The write itself is not synced, and need not be: what it says is true whenever it is
read. After the death of the process, the page cache lives on and the slot is exact: damage to a
single acknowledged byte is told from a torn tail. After a power loss the slot may be as old as the
last `sync` of this file (called by the directory's checkpoint), never newer than the truth. A half
that was torn does not check, and the other, which is older, counts. Truncation of durable bytes is
the one step back, so `lower` syncs before it returns.

A log start that DeleteRecords or retention raised is noted by the owner at once, so that what was
deleted does not come back with the next process. It is synced before DeleteRecords is answered
(`sync`), and by the checkpoint of a retention pass before the files go.

A log without a half that checks has no slot; recovery then goes by
`recovery-point-offset-checkpoint`.
"""

from __future__ import annotations

import threading
from struct import Struct
from uuid import UUID

import google_crc32c

from odradek.model.env import Disk, File
from odradek.model.topics import ZERO_UUID, TopicIdPartition

DURABLE_ENDS_FILE = "durable-ends"
HALF_BYTES = 64
SLOT_BYTES = 2 * HALF_BYTES
HALF = Struct(">16siqqqq")
CRC = Struct(">I")
FREE = bytes(SLOT_BYTES)


class DurableEnd:
    """The slot of one log."""

    __slots__ = (
        "_ends",
        "_serial",
        "generation",
        "key",
        "log_start",
        "offset",
        "position",
        "recovery_point",
    )

    def __init__(self, ends: DurableEnds, position: int, key: TopicIdPartition) -> None:
        self._ends = ends
        self._serial = 0
        self.position = position
        self.key = key
        self.offset = 0
        self.recovery_point = 0
        self.log_start = 0
        self.generation = 0

    @property
    def is_written(self) -> bool:
        """Whether a half of it was read, or written by this process."""
        return self._serial > 0

    def update(self, serial: int, offset: int, recovery_point: int, log_start: int) -> None:
        """Become what a half says, if it is newer."""
        if serial > self._serial:
            self._serial, self.log_start = serial, log_start
            self.offset, self.recovery_point = offset, recovery_point

    def write(self, offset: int, recovery_point: int, generation: int) -> None:
        """The log is durable up to `offset`. From any thread, one at a time per log.

        `generation` is the one in which that work began; after a truncation it says nothing.
        """
        with self._ends.lock:
            if generation == self.generation:
                self._write(offset, recovery_point)

    def write_log_start(self, log_start: int) -> None:
        """The log starts here. Owner thread; `sync` makes it durable."""
        with self._ends.lock:
            before, self.log_start = self.log_start, log_start
            try:
                self._write(self.offset, self.recovery_point)
            except OSError:
                self.log_start = before
                raise

    def sync(self) -> None:
        """Blocks until it is durable, and what was noted for all other logs of the directory."""
        self._ends.sync()

    def _write(self, offset: int, recovery_point: int) -> None:
        self.update(self._serial + 1, offset, recovery_point, self.log_start)
        body = HALF.pack(
            self.key.topic_id.bytes,
            self.key.partition,
            self._serial,
            offset,
            recovery_point,
            self.log_start,
        )
        position = self.position + self._serial % 2 * HALF_BYTES
        self._ends.file.write(position, body + CRC.pack(google_crc32c.value(body)))

    def lower(self, offset: int) -> None:
        """The log is about to be truncated to `offset`. Blocks until that is durable."""
        with self._ends.lock:
            self.generation += 1
            if offset >= self.offset:
                return
            self._write(offset, min(offset, self.recovery_point))
        self._ends.file.sync()


class DurableEnds:
    """The slots of a data directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Open or create the file. The owner thread; `OSError` if that fails."""
        self.file: File = disk.open(f"{directory}/{DURABLE_ENDS_FILE}", create=True)
        self.file.pin()
        self.lock = threading.Lock()
        self._slots: dict[TopicIdPartition, DurableEnd] = {}
        self._free: list[int] = []
        self._load()

    def _load(self) -> None:
        data = self.file.read(0, self.file.size())
        self._end = len(data) - len(data) % SLOT_BYTES
        for position in range(0, self._end, SLOT_BYTES):
            first = self._load_half(data, position, 0)
            second = self._load_half(data, position, HALF_BYTES)
            if not (first or second):
                self._free.append(position)

    def _load_half(self, data: bytes, position: int, half: int) -> bool:
        body = data[position + half : position + half + HALF.size]
        (crc,) = CRC.unpack_from(data, position + half + HALF.size)
        topic, partition, serial, offset, recovery_point, log_start = HALF.unpack(body)
        key = TopicIdPartition(UUID(bytes=topic), partition)
        if key.topic_id == ZERO_UUID or google_crc32c.value(body) != crc:
            return False
        end = self._slots.setdefault(key, DurableEnd(self, position, key))
        if end.position != position:
            return False
        end.update(serial, offset, recovery_point, log_start)
        return True

    def get(self, key: TopicIdPartition) -> DurableEnd | None:
        """The slot of a log; None if it has none that can be believed."""
        end = self._slots.get(key)
        return end if end is not None and end.is_written else None

    def slot(self, key: TopicIdPartition) -> DurableEnd:
        """The slot of a log, made if it has none. Owner thread."""
        end = self._slots.get(key)
        if end is None:
            if self._free:
                position = self._free.pop()
            else:
                position, self._end = self._end, self._end + SLOT_BYTES
                self.file.write(position, FREE)
            end = self._slots[key] = DurableEnd(self, position, key)
        return end

    def forget(self, key: TopicIdPartition) -> None:
        """The log is gone; its slot is free. Owner thread."""
        end = self._slots.pop(key, None)
        if end is not None:
            with self.lock:
                end.generation += 1  # a flush under way must not note its end in another's slot
                self.file.write(end.position, FREE)
            self._free.append(end.position)

    def partitions(self) -> list[TopicIdPartition]:
        """Whose slots there are."""
        return list(self._slots)

    def sync(self) -> None:
        """Blocks until all notes are durable. Worker."""
        self.file.sync()

    def close(self) -> None:
        self.file.unpin()
        self.file.close()
