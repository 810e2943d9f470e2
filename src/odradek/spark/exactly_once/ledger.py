"""The ledger: a compacted topic that keeps, for each prefix, the last micro-batch decided.

    key      prefix               part 0
             prefix NUL number    part 1, 2, ...: a decision of many ranges has several records
    value    JSON: {"version": 1, "batch": 57, "part": 0, "parts": 1, "query": "the stream's id",
              "topics": {"orders": "the topic's id"},
              "transactions": [[task, attempt, producer id, epoch, transaction version, copied,
                                [[topic, partition, records, first offset, last offset],
                                 ...]], ...]}

All parts of a decision are written in one transaction, into one partition. A part has
`RANGES_IN_PART` ranges or little more, so its record stays below a broker's `max.message.bytes`;
a task that writes to tens of thousands of partitions would need a larger one.

A `LedgerEntry` reads batches of the log as they are, with those of open and aborted transactions,
and counts a record when it meets the marker that commits it. So another query's open transaction
in the same partition does not hide what is decided, as the last stable offset would. Compaction
keeps a marker as long as a record of its transaction.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from odradek.client.producer.futures import DeliveredRange
from odradek.protocol.control_records import ControlRecordType, read_control_record
from odradek.protocol.record_batch import batches, records_of
from odradek.spark.exactly_once.errors import LedgerDamaged

VERSION = 1
RANGES_IN_PART = 5_000
NUL = "\0"
UNREAD = "What is in: all that was decided before; nothing was decided now"


@dataclass(frozen=True, slots=True)
class TaskTransaction:
    """The transaction of one attempt of a task, with what it wrote. `copied`: it was aborted after
    it was decided, and its records were written again."""

    task: int
    attempt: int
    producer_id: int
    producer_epoch: int
    transaction_version: int
    ranges: tuple[DeliveredRange, ...]
    copied: bool = False

    def transactional_id(self, prefix: str) -> str:
        return f"{prefix}.{self.task}.{self.attempt}"

    @property
    def records(self) -> int:
        return sum(each.records for each in self.ranges)

    def has_written_to(self, topics: Collection[str]) -> bool:
        """True if some of its records are in one of these topics."""
        return any(each.topic in topics for each in self.ranges)

    def __str__(self) -> str:
        places = ", ".join(
            f"{each.topic}-{each.partition} offsets {each.first_offset} to {each.last_offset}"
            for each in self.ranges[:3]
        )
        more = f" and {len(self.ranges) - 3} more" if len(self.ranges) > 3 else ""
        return f"task {self.task} ({self.records} records, {places}{more})"


@dataclass(frozen=True, slots=True)
class Decision:
    """The transactions that make up a micro-batch, and the ids of the topics that they wrote to.
    `query` is the id of the streaming query; empty for a batch write."""

    batch_id: int
    transactions: tuple[TaskTransaction, ...]
    topic_ids: Mapping[str, str]
    query: str = ""

    def has(self, transaction: TaskTransaction) -> bool:
        """True if it is one of them: the same producer in the same epoch."""
        return any(
            (transaction.producer_id, transaction.producer_epoch)
            == (each.producer_id, each.producer_epoch)
            for each in self.transactions
        )

    def with_copied(self, copied: TaskTransaction) -> Decision:
        """Return the decision with one transaction marked as copied."""
        marked = (
            replace(each, copied=True) if each == copied else each for each in self.transactions
        )
        return replace(self, transactions=tuple(marked))

    def parts(self) -> list[tuple[TaskTransaction, ...]]:
        """Return the transactions of each record of this decision: one at least."""
        found: list[tuple[TaskTransaction, ...]] = []
        part: list[TaskTransaction] = []
        ranges = 0
        for each in self.transactions:
            part.append(each)
            ranges += len(each.ranges)
            if ranges >= RANGES_IN_PART:
                found.append(tuple(part))
                part, ranges = [], 0
        if part or not found:
            found.append(tuple(part))
        return found

    def records(
        self, prefix: str, only: TaskTransaction | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys and values of the decision's records; `only` that with the transaction of
        this task."""
        parts = self.parts()
        for number, transactions in enumerate(parts):
            if only is not None and only.task not in {each.task for each in transactions}:
                continue
            topics = sorted({each.topic for one in transactions for each in one.ranges})
            value = {
                "version": VERSION,
                "batch": self.batch_id,
                "part": number,
                "parts": len(parts),
                "query": self.query,
                "topics": {name: self.topic_ids.get(name, "") for name in topics},
                "transactions": [fields_of(each) for each in transactions],
            }
            yield key_of(prefix, number), json.dumps(value, separators=(",", ":")).encode()


def fields_of(transaction: TaskTransaction) -> list[Any]:
    return [
        transaction.task,
        transaction.attempt,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.transaction_version,
        int(transaction.copied),
        [list(each) for each in transaction.ranges],
    ]


def key_of(prefix: str, part: int) -> bytes:
    return (f"{prefix}{NUL}{part}" if part else prefix).encode()


class Part(NamedTuple):
    """The content of one record."""

    batch_id: int
    part: int
    parts: int
    topic_ids: dict[str, str]
    transactions: tuple[TaskTransaction, ...]
    query: str


def decode_part(prefix: str, value: bytes) -> Part:
    """Return a record's content. Raises `LedgerDamaged`, also for a newer version."""
    try:
        given = json.loads(value)
        version = given["version"]
        if version != VERSION:
            raise LedgerDamaged(
                f"the ledger's entry of {prefix} has version {version!r}, this Odradek knows "
                f"{VERSION}. {UNREAD}. What to do: run the version of Odradek that wrote it, or a "
                "newer one"
            )
        return Part(
            int(given["batch"]),
            int(given["part"]),
            int(given["parts"]),
            {str(name): str(each) for name, each in given["topics"].items()},
            tuple(transaction_of(fields) for fields in given["transactions"]),
            str(given.get("query", "")),  # Older entries have none.
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LedgerDamaged(
            f"the ledger's entry of {prefix} cannot be read ({type(error).__name__}: {error}). "
            f"{UNREAD}. What to do: see what else writes to the ledger topic, and which batch is "
            "the last in the topics; begin a new entry with another transactionalIdPrefix, and "
            "ledgerStartsAt set to the batch after it"
        ) from None


def transaction_of(fields: list[Any]) -> TaskTransaction:
    task, attempt, producer_id, epoch, version, copied, ranges = fields
    return TaskTransaction(
        int(task),
        int(attempt),
        int(producer_id),
        int(epoch),
        int(version),
        tuple(DeliveredRange(str(topic), *map(int, rest)) for topic, *rest in ranges),
        bool(copied),
    )


def decision_of(prefix: str, parts: Mapping[int, Part]) -> Decision | None:
    """Join the parts of an entry; None if there is none. Raises `LedgerDamaged` if one is
    missing."""
    head = parts.get(0)
    if head is None:
        return None
    joined = [parts.get(number) for number in range(head.parts)]
    topic_ids: dict[str, str] = {}
    transactions: list[TaskTransaction] = []
    for number, each in enumerate(joined):
        if each is None or (each.batch_id, each.parts) != (head.batch_id, head.parts):
            raise LedgerDamaged(
                f"the ledger's entry of {prefix} lacks part {number} of micro-batch "
                f"{head.batch_id}. What is in: all batches before it, and what was ended of its "
                "transactions; nothing was decided now. What to do: see whether the ledger topic "
                "lost records (its cleanup.policy has to be compact), and what is missing in the "
                "topics; then begin a new entry with another transactionalIdPrefix, and "
                f"ledgerStartsAt set to {head.batch_id + 1}"
            )
        topic_ids.update(each.topic_ids)
        transactions.extend(each.transactions)
    return Decision(head.batch_id, tuple(transactions), topic_ids, head.query)


def newest(read: Decision | None, written: Decision | None) -> Decision | None:
    """Return the last decision, of what was read and what this process wrote itself since it shut
    out all others. The marker of the latter comes a moment after the answer to EndTxn: until then
    reading finds the decision before."""
    if read is None or written is None:
        return read or written
    return written if written.batch_id >= read.batch_id else read


class LedgerEntry:
    """The entry of one prefix, as far as the ledger's partition was read."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.position = 0
        """The offset to read from."""
        self._parts: dict[int, Part] = {}
        self._open: dict[int, dict[int, Part | None]] = {}
        """By producer id, what its open transaction wrote: part by number, None for a deletion."""

    def replay(self, data: bytes) -> None:
        """Take in batches of the log, from `position` on."""
        for header in batches(data):
            if header.last_offset < self.position:
                continue
            if header.is_control and header.count == 0:
                pass  # Compaction has removed the marker, as it had all records of its transaction.
            elif header.is_control:
                self._end(header.producer_id, read_control_record(data, header).type)
            elif header.is_transactional:
                for record in records_of(data, header):
                    if record.offset >= self.position:
                        self._add(header.producer_id, record.key, record.value)
            self.position = header.next_offset

    def skip_to(self, position: int) -> None:
        """Go on from there: everything before was compacted away."""
        self.position = max(self.position, position)

    def _add(self, producer_id: int, key: bytes | None, value: bytes | None) -> None:
        number = part_number(self.prefix, key)
        if number is not None:
            part = None if value is None else decode_part(self.prefix, value)
            self._open.setdefault(producer_id, {})[number] = part

    def _end(self, producer_id: int, marker: ControlRecordType) -> None:
        written = self._open.pop(producer_id, {})
        if marker is ControlRecordType.COMMIT:
            self.apply(written.items())

    def apply(self, written: Iterable[tuple[int, Part | None]]) -> None:
        """Take in the parts of a transaction that was committed."""
        for number, part in written:
            if part is None:
                self._parts.pop(number, None)
            else:
                self._parts[number] = part

    @property
    def has_open(self) -> bool:
        """True if there are records of the prefix without a marker yet."""
        return bool(self._open)

    @property
    def decision(self) -> Decision | None:
        """The last decision; None if there is none. Raises `LedgerDamaged`."""
        return decision_of(self.prefix, self._parts)


def part_number(prefix: str, key: bytes | None) -> int | None:
    """Return the number of the part that a key is of; None for another prefix."""
    if key is None:
        return None
    text = key.decode(errors="replace")
    if text == prefix:
        return 0
    own, _, number = text.partition(NUL)
    return int(number) if own == prefix and number.isdecimal() else None
