"""TxnPartitionEntry: the sequence numbers of one partition, and what is known of the batches.

Each partition is in one of these states:

    in order     next sequence = last written + what is in flight
    unresolved   a batch was given up, and nobody knows whether it was, or will be, written. Nothing
                 new is drained. That one behind it is written tells that it was. When nothing is in
                 flight any more there is a gap
    gap          something is certainly missing: the broker lost what it had acknowledged, or a
                 batch was refused for good, or is surely unwritten behind one that was given up.
                 Nothing new is drained; what is in flight is sent, and sent again, until each batch
                 is done or known to be unwritten. Then those left get sequences from 0 on in a new
                 epoch (KIP-360)
    stale        the epoch was bumped because of another partition: it goes on in the old epoch
                 until nothing is in flight, then from 0 on in the new one

A broker writes what has an epoch and a sequence once, and sequence 0 in a higher epoch always. So a
batch gets another number only when it is certain that it is not written, *and never will be*, under
the one it has: a request whose answer did not come may lie in some buffer and arrive after what was
sent over the next connection. The broker says that it misses something in front of a batch. If then

- a batch that was in front of it is still to be sent, nothing is known: it is sent again behind it;
- every attempt to send it was answered, it is unwritten, and so is all behind it, which can only be
  written after it;
- an attempt got no answer, but what is missing in front will not arrive (its last answer was a
  refusal, which it would meet again; or it had been acknowledged and was lost): the same;
- an attempt got no answer, and what is missing was given up without one, too: both may arrive yet.
  It keeps its number and is sent again until its time is over; then it fails, and its sender is
  told that nobody knows.

Parts of a batch that may have been written share its sequences: a broker that has it, or gets it,
refuses them, and they keep them as if an attempt of theirs were unanswered. If something behind
them is written, so is that batch: under other numbers they would be there twice, so they fail.

Positions are told by the batches' ordinals, which outlast their sequences.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

from mypy_extensions import i64

from odradek.client.producer.producer_batch import ProducerBatch
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

NOTHING: Final[i64] = -1
NOWHERE: Final[i64] = 1 << 62
"""Behind all ordinals."""


class ProducerIdAndEpoch(NamedTuple):
    """What makes a producer itself."""

    producer_id: int
    epoch: int

    @property
    def is_valid(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


NONE: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@final
class TxnPartitionEntry:
    """Where one partition stands. `written`, `doubtful`, `arriving` and `missing` are ordinals of
    batches of the present epoch."""

    def __init__(self, identity: ProducerIdAndEpoch) -> None:
        self.identity = identity
        self.next_sequence: i64 = 0
        self.drained: i64 = 0
        """Batches that got a sequence number so far."""
        self.in_flight: list[ProducerBatch] = []
        """Drained and not done, in order; those that wait to be sent again too."""
        self.written: i64 = NOTHING
        """The last one that is known to be written."""
        self.doubtful: i64 = NOTHING
        """The last one that was given up, or split, although it may be written."""
        self.arriving: i64 = NOTHING
        """The last of these of which the broker may yet get, or have, a copy, although it said that
        it misses something."""
        self.missing: i64 = NOWHERE
        """The first one that is not written, and will not be."""

    @property
    def is_unresolved(self) -> bool:
        return self.doubtful > self.written

    @property
    def has_gap(self) -> bool:
        return self.missing != NOWHERE

    @property
    def is_settled(self) -> bool:
        """Whether nothing is in flight that may have been written, or under way."""
        return all(batch.is_unwritten and not batch.in_flight for batch in self.in_flight)

    @property
    def next_to_send_again(self) -> ProducerBatch | None:
        """Batches that come back go out again one by one, in order."""
        for batch in self.in_flight:
            if not batch.is_unwritten:
                return batch
        return None

    def has_identity_of(self, batch: ProducerBatch) -> bool:
        """Whether the batch was sent in the present epoch."""
        producer_id, epoch = self.identity
        return producer_id == batch.producer_id and epoch == batch.producer_epoch

    def add_in_flight(self, batch: ProducerBatch) -> None:
        batches = self.in_flight
        place = len(batches)
        while place > 0 and batches[place - 1].ordinal > batch.ordinal:
            place -= 1
        batches.insert(place, batch)

    def remove_in_flight(self, batch: ProducerBatch) -> None:
        if batch in self.in_flight:
            self.in_flight.remove(batch)

    # What became of batches.

    def was_written(self, batch: ProducerBatch) -> None:
        """And so was all that is in front of it."""
        if batch.ordinal > self.written:
            self.written = batch.ordinal

    def gave_up(self, batch: ProducerBatch) -> None:
        """It is done and was not acknowledged."""
        if batch.ordinal > self.missing:
            return  # Nothing behind a gap is written.
        if not batch.in_doubt:
            self.missing = batch.ordinal
            return
        if batch.ordinal > self.doubtful:
            self.doubtful = batch.ordinal
        if (batch.may_arrive or batch.in_flight) and batch.ordinal > self.arriving:
            self.arriving = batch.ordinal

    def has_gone_on(self, batch: ProducerBatch) -> bool:
        """Whether something behind a batch that may be there is written."""
        return batch.may_arrive and batch.ordinal < self.written

    def may_follow(self, batch: ProducerBatch) -> bool:
        """Whether a batch that the broker refused, for something in front of it is missing, may be
        written yet under the number that it has."""
        if self.missing < batch.ordinal:
            return False
        if self.next_to_send_again is not batch:
            return True
        return batch.may_arrive and self.written < self.arriving <= batch.ordinal

    def is_missing_from(self, batch: ProducerBatch) -> None:
        """It will never be written under the number that it has, nor what is behind it."""
        if batch.ordinal < self.missing:
            self.missing = batch.ordinal
        for behind in self.in_flight:
            if behind.ordinal >= batch.ordinal:
                behind.is_unwritten = True

    def start_at_beginning(self, identity: ProducerIdAndEpoch) -> None:
        """All that is in flight, and what comes, belongs to this epoch, from 0 on."""
        sequence: i64 = 0
        for batch in self.in_flight:
            batch.set_producer_state(identity.producer_id, identity.epoch, sequence)
            sequence += batch.count
        self.identity = identity
        self.next_sequence = sequence
        self.written = self.doubtful = self.arriving = NOTHING
        self.missing = NOWHERE
