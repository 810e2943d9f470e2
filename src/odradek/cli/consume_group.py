"""`consume -g`: reading as a member of a group, and committing what was written out.

    batch ─► written, flushed ─► commit ─► next batch
                                   │
                                   └► a rebalance is under way: with the next batch; or before the
                                      partition is given up; or at the end, which waits for it

Nothing is committed that was not written out, so a failure repeats records and loses none. Members
that rebalance cooperatively go on reading meanwhile, and cannot commit: that is no error, unless
it stays so. What somebody else has taken over is his: he may read some records again.
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
    """How far partitions were written out, where that is not committed yet."""

    def __init__(self, reader: Consumer[bytes, bytes]) -> None:
        self.reader = reader
        self.offsets: dict[TopicPartition, int] = {}

    def add(self, offsets: Mapping[TopicPartition, int]) -> None:
        """All before these is out."""
        self.offsets.update(offsets)

    def commit(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Of all partitions or some. Between two generations it is left for later."""
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
        """These are somebody else's by now."""
        again = [each for each in partitions if self.offsets.pop(each, None) is not None]
        if again:
            names = ", ".join(str(each) for each in sorted(again))
            print_stderr(f"odradek: {names}: some records will be read again, by who has them now. {why}")

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Somebody else is about to have these: now or never."""
        self.commit(partitions)
        self.lost(partitions)

    def finish(self) -> None:
        """See to it that all is committed. Raises `RebalanceInProgress` if it does not end."""
        self.commit()
        deadline = time.monotonic() + FINISH_S
        while self.offsets:
            if time.monotonic() > deadline:
                raise RebalanceInProgress(
                    "a rebalance does not end, so what was written out last is not committed, and "
                    "will be read again. What to do: look at `odradek group describe`"
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
    """For ever, or `num` records."""
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
