"""The file `durable-ends`: the durable end and the log start of every log of a data directory.

One slot of 128 bytes per partition, two halves of 64 so that none crosses a sector; big-endian:

    offset  size
         0    16  topic id             zero: the half is empty
        16     4  partition
        20     8  serial               the half with the higher serial is current
        28     8  durable end          the records before this offset are synced
        36     8  recovery point       indexes, leader epochs and a producer snapshot are, too
        44     8  log start            the log start after the last deletion, at least, or where
                                       the log was restarted; 0: none was written, -1: it is 0
        52     4  crc                  CRC-32C of the 52 bytes before it

A worker that has synced a log writes the half that is not current, and only then is anything
acknowledged. The write is not synced and need not be, because the slot is true whenever it is read.
If only the process dies, the page cache survives and the slot is exact: recovery can tell damage to
one acknowledged byte from a torn tail. After a power loss the slot may be as old as the last `sync`
of this file, which the directory's checkpoint calls, but it never claims too much. A torn half has
a wrong checksum, and the other half, which is older, is used. Only truncation lowers a durable end,
so `lower` and `restart` sync before they return. A log that is restarted at an offset has nothing
durable and its log start is that offset: only such a slot lowers a log start.

When DeleteRecords or retention raises a log start, the owner writes it at once, so that deleted
records do not come back with the next process. It is synced before DeleteRecords is answered
(`sync`), and by the checkpoint of a retention pass before the files are removed.

A log without a half that has a correct checksum has no slot; recovery then uses
`recovery-point-offset-checkpoint`.
"""

from __future__ import annotations

import threading
from struct import Struct
from uuid import UUID

from fastcrc.crc32 import iscsi as crc32c

from odradek.model.env import Disk, File
from odradek.model.topics import ZERO_UUID, TopicIdPartition

DURABLE_ENDS_FILE = "durable-ends"
HALF_BYTES = 64
SLOT_BYTES = 2 * HALF_BYTES
HALF = Struct(">16siqqqq")
CRC = Struct(">I")
FREE = bytes(SLOT_BYTES)
SLOTS_AT_ONCE = 64
"""Free slots that are appended to the file when none is left."""
STARTS_AT_ZERO = -1
"""A log start of 0 that was written, unlike 0, which says that none was."""


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
        """True if a half was read from the file or written by this process."""
        return self._serial > 0

    def update(self, serial: int, offset: int, recovery_point: int, log_start: int) -> None:
        """Take the values of a half, if it is newer."""
        if serial > self._serial:
            self._serial, self.log_start = serial, log_start
            self.offset, self.recovery_point = offset, recovery_point

    def write(self, offset: int, recovery_point: int, generation: int) -> None:
        """Write that the log is durable up to `offset`. From any thread, one at a time per log.

        `generation` is that of the beginning of the flush; after a truncation the call is ignored.
        """
        with self._ends.lock:
            if generation == self.generation:
                self._write(offset, recovery_point)

    def write_log_start(self, log_start: int) -> None:
        """Write the log start. Owner thread; `sync` makes it durable."""
        with self._ends.lock:
            before, self.log_start = self.log_start, log_start
            try:
                self._write(self.offset, self.recovery_point)
            except OSError:
                self.log_start = before
                raise

    def sync(self) -> None:
        """Make the slots of all logs of the directory durable. Blocks."""
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
        self._ends.file.write(position, body + CRC.pack(crc32c(body)))

    def lower(self, offset: int) -> None:
        """Lower the durable end before a truncation to `offset`. Blocks until that is durable."""
        with self._ends.lock:
            self.generation += 1
            if offset >= self.offset:
                return
            self._write(offset, min(offset, self.recovery_point))
        self._ends.file.sync()

    def restart(self, log_start: int) -> None:
        """Write that nothing is durable and the log starts at `log_start`. Blocks until that is
        durable.
        """
        with self._ends.lock:
            self.generation += 1
            self.log_start = log_start if log_start > 0 else STARTS_AT_ZERO
            self._write(0, 0)
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
        if key.topic_id == ZERO_UUID or crc32c(body) != crc:
            return False
        end = self._slots.setdefault(key, DurableEnd(self, position, key))
        if end.position != position:
            return False
        end.update(serial, offset, recovery_point, log_start)
        return True

    def get(self, key: TopicIdPartition) -> DurableEnd | None:
        """Return the slot of a log, or None if it has none with a correct checksum."""
        end = self._slots.get(key)
        return end if end is not None and end.is_written else None

    def slot(self, key: TopicIdPartition) -> DurableEnd:
        """Return the slot of a log, created if it has none. Owner thread."""
        end = self._slots.get(key)
        if end is None:
            if not self._free:
                self._add_free_slots()
            position = self._free.pop()
            end = self._slots[key] = DurableEnd(self, position, key)
        return end

    def _add_free_slots(self) -> None:
        added = range(self._end, self._end + SLOTS_AT_ONCE * SLOT_BYTES, SLOT_BYTES)
        self.file.write(self._end, bytes(SLOTS_AT_ONCE * SLOT_BYTES))
        self._free.extend(reversed(added))
        self._end = added.stop

    def forget(self, key: TopicIdPartition) -> None:
        """Free the slot of a deleted log. Owner thread."""
        end = self._slots.pop(key, None)
        if end is not None:
            with self.lock:
                end.generation += 1  # a flush under way must not write to another log's slot
                self.file.write(end.position, FREE)
            self._free.append(end.position)

    def partitions(self) -> list[TopicIdPartition]:
        """Return the partitions that have a slot."""
        return list(self._slots)

    def sync(self) -> None:
        """Make all slots durable. Blocks; for a worker."""
        self.file.sync()

    def close(self) -> None:
        self.file.unpin()
        self.file.close()
