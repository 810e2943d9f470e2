"""`consume -g`: reads as a member of a group and commits the records that were printed.

    batch ─► printed, flushed ─► commit ─► next batch
                                   │
                                   └► during a rebalance: with the next batch, or before the
                                      partition is revoked, or at the end, which waits for it

Only flushed records are committed, so a failure repeats records and loses none. Members that
rebalance cooperatively go on reading meanwhile and cannot commit: that is an error only if the
rebalance does not end. Partitions that another member has taken over are not committed here: their
new owner may read some records again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence

from odradek import Consumer
from odradek.cli.output import Progress, print_stderr
from odradek.cli.record_output import RecordWriter
from odradek.client.errors import CommitFailed, RebalanceInProgress
from odradek.model.topics import TopicPartition

AT_ONCE = 1000
WAIT_S = 0.5
FINISH_S, TRY_AGAIN_S = 30.0, 0.1


class UncommittedOffsets:
    """The offsets of printed records that are not committed yet."""

    def __init__(self, reader: Consumer[bytes, bytes]) -> None:
        self.reader = reader
        self.offsets: dict[TopicPartition, int] = {}

    def add(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Add offsets; all records before them were printed and flushed."""
        self.offsets.update(offsets)

    def commit(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Commit the offsets of all partitions or some; during a rebalance, keep them."""
        chosen = self.offsets if partitions is None else self.offsets.keys() & set(partitions)
        offsets = {each: self.offsets[each] for each in chosen}
        if not offsets:
            return
        try:
            self.reader.commit(offsets)
        except RebalanceInProgress:
            return
        except CommitFailed as error:
            self.lost(offsets, str(error))
        for each in offsets:
            self.offsets.pop(each, None)

    def lost(self, partitions: Iterable[TopicPartition], why: str = "") -> None:
        """Drop the offsets of partitions that another member owns, and tell the user."""
        again = [each for each in partitions if self.offsets.pop(each, None) is not None]
        if again:
            names = ", ".join(str(each) for each in sorted(again))
            print_stderr(
                f"odradek: {names}: some records will be read again by their new owner. {why}"
            )

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Commit partitions that are being revoked, or drop their offsets."""
        self.commit(partitions)
        self.lost(partitions)

    def finish(self) -> None:
        """Commit everything. Raises `RebalanceInProgress` if the rebalance does not end."""
        self.commit()
        deadline = time.monotonic() + FINISH_S
        while self.offsets:
            if time.monotonic() > deadline:
                raise RebalanceInProgress(
                    f"the rebalance did not end within {FINISH_S:.0f} s, so the last records are "
                    "not committed and will be read again. What to do: see `odradek group describe`"
                )
            self.reader.pause(*self.reader.assignment())
            self.reader.poll(TRY_AGAIN_S)
            self.commit()


def read_as_member(
    reader: Consumer[bytes, bytes],
    topics: Sequence[str] | re.Pattern[str],
    writer: RecordWriter,
    num: int | None,
    progress: Progress,
) -> None:
    """Read for ever, or `num` records."""
    written = UncommittedOffsets(reader)
    reader.subscribe(
        topics,
        on_revoke=lambda _, partitions: written.give_up(partitions),
        on_lost=lambda _, partitions: written.lost(partitions),
    )
    for batch in reader.batches(AT_ONCE if num is None else min(AT_ONCE, num), WAIT_S):
        reached: dict[TopicPartition, int] = {}
        for record in batch:
            writer.write(record)
            reached[TopicPartition(record.topic, record.partition)] = record.offset + 1
            progress.advance()
            if progress.count == num:
                break
        writer.flush()
        written.add(reached)
        if progress.count == num:
            written.finish()
            return
        written.commit()
