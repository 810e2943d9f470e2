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

TransactionManager: who this producer is to the brokers, and the sequence numbers of its batches.

With a producer id, an epoch and gapless sequence numbers per partition a broker recognizes a batch
it has already, and one that is missing: each record is written exactly once and in order, whatever
is sent again.

A sequence number is given to a batch when it is drained, not before, and stays with it through
retries. Another one it gets when its epoch has ended, if it cannot be written any more under the
first: `TxnPartitionEntry` has the states of a partition, and what is known when. Here an epoch is
bumped, without asking anybody, as soon as one partition needs it.

    what happens                         to the batch                       to those sent behind it
    OUT_OF_ORDER_SEQUENCE_NUMBER,        sent again in its place, or, if    unwritten with it
    UNKNOWN_PRODUCER_ID                  it is unwritten for certain, in
                                         a new epoch; see the entry
    delivery.timeout.ms, `retries`       fails, in doubt if it was sent     tell by success that it
                                                                            was written, or go on
                                                                            in a new epoch; without
                                                                            an answer: stay, or fail
    refused: INVALID_RECORD,             fails; in doubt if an earlier      in a new epoch, when the
    TOPIC_AUTHORIZATION_FAILED …,        attempt may be written (brokers    broker has missed it
    INVALID_PRODUCER_EPOCH,              refuse before they look for
    INVALID_PRODUCER_ID_MAPPING          duplicates)
    UNKNOWN_SERVER_ERROR                 fails, in doubt                    the same
    MESSAGE_TOO_LARGE                    its parts share its sequences      sent again behind them
    another leader, a lost connection    sent again as it is                the same, in order
    the broker has forgotten the         taken, whatever its sequence; one  the same
    producer (producer.id.expiration.ms, that had been written, twice: keep
    a day)                               delivery.timeout.ms far below

A broker knows a batch again if it is among the last five it has written for the producer. So no
more than five of a partition are drained, counted from the oldest whose outcome is open. That there
are no more in flight to a node is not enough: leaders move.

A broker that knows nothing of a producer takes any sequence, as if nothing were missing. So the
first batch of an epoch goes alone; what comes when it is written cannot get ahead of anything. And
once it is written no request of an older epoch is carried out there any more.

Two things no numbering can prevent. When the epochs run out (after 32767 bumps) there is a new
producer id, and nothing keeps requests of the old one from being carried out late. And a broker
that loses what it had acknowledged may then take an older, unanswered copy of it that comes late,
beside the one that was sent again.

Transactions are not here; their states would join these. Owner thread only.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

from mypy_extensions import i64

from odradek.client.errors import KafkaError
from odradek.client.producer.producer_batch import SEQUENCE_MASK, ProducerBatch
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

NO_ORDINAL: Final[i64] = -1
AFTER_ALL: Final[i64] = 1 << 62
"""Behind all ordinals."""


class ProducerIdAndEpoch(NamedTuple):
    """What makes a producer itself."""

    producer_id: int
    epoch: int

    @property
    def is_valid(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


NO_PRODUCER: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@final
class TxnPartitionEntry:
    """Where one partition stands. `last_written`, `last_doubtful`, `last_arriving` and `first_missing` are ordinals of
    batches of the present epoch."""

    def __init__(self, identity: ProducerIdAndEpoch) -> None:
        self.identity = identity
        self.next_sequence: i64 = 0
        self.drained_batches: i64 = 0
        """Batches that got a sequence number so far."""
        self.in_flight: list[ProducerBatch] = []
        """Drained and not done, in order; those that wait to be sent again too."""
        self.last_written: i64 = NO_ORDINAL
        """The last one that is known to be written."""
        self.last_doubtful: i64 = NO_ORDINAL
        """The last one that was given up, or split, although it may be written."""
        self.last_arriving: i64 = NO_ORDINAL
        """The last of these of which the broker may yet get, or have, a copy, although it said that
        it misses something."""
        self.first_missing: i64 = AFTER_ALL
        """The first one that is not written, and will not be."""

    @property
    def is_unresolved(self) -> bool:
        return self.last_doubtful > self.last_written

    @property
    def has_gap(self) -> bool:
        return self.first_missing != AFTER_ALL

    @property
    def cannot_be_written(self) -> bool:
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

    def batch_written(self, batch: ProducerBatch) -> None:
        """And so was all that is in front of it."""
        if batch.ordinal > self.last_written:
            self.last_written = batch.ordinal

    def batch_failed(self, batch: ProducerBatch) -> None:
        """It is done and was not acknowledged."""
        if batch.ordinal > self.first_missing:
            return  # Nothing behind a gap is written.
        if not batch.in_doubt:
            self.first_missing = batch.ordinal
            return
        if batch.ordinal > self.last_doubtful:
            self.last_doubtful = batch.ordinal
        if (batch.may_arrive or batch.in_flight) and batch.ordinal > self.last_arriving:
            self.last_arriving = batch.ordinal

    def written_past(self, batch: ProducerBatch) -> bool:
        """Whether something behind a batch that may be there is written."""
        return batch.may_arrive and batch.ordinal < self.last_written

    def may_still_be_written(self, batch: ProducerBatch) -> bool:
        """Whether a batch that the broker refused, for something in front of it is missing, may be
        written yet under the number that it has."""
        if self.first_missing < batch.ordinal:
            return False
        if self.next_to_send_again is not batch:
            return True
        return batch.may_arrive and self.last_written < self.last_arriving <= batch.ordinal

    def mark_unwritten_from(self, batch: ProducerBatch) -> None:
        """It will never be written under the number that it has, nor what is behind it."""
        if batch.ordinal < self.first_missing:
            self.first_missing = batch.ordinal
        for behind in self.in_flight:
            if behind.ordinal >= batch.ordinal:
                behind.is_unwritten = True

    def start_sequences_at_beginning(self, identity: ProducerIdAndEpoch) -> None:
        """All that is in flight, and what comes, belongs to this epoch, from 0 on."""
        sequence: i64 = 0
        for batch in self.in_flight:
            batch.set_producer_state(identity.producer_id, identity.epoch, sequence)
            sequence += batch.count
        self.identity = identity
        self.next_sequence = sequence
        self.last_written = self.last_doubtful = self.last_arriving = NO_ORDINAL
        self.first_missing = AFTER_ALL


EPOCH_MAX: Final = 32767
REMEMBERED_BATCHES: Final[i64] = 5
"""How many batches of a producer a broker knows again."""
SEQUENCE_ERRORS: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
)
"""The broker misses something in front of a batch. It does not have that either: one that had been
written would be a duplicate."""


@final
class TransactionManager:
    """Of one idempotent producer."""

    def __init__(self) -> None:
        self.identity: ProducerIdAndEpoch = NO_PRODUCER
        self.fatal_error: KafkaError | None = None
        self.epoch_bumps = 0
        """How often the epoch was bumped or the id given up."""
        self._partitions: dict[TopicPartition, TxnPartitionEntry] = {}
        self._unresolved: dict[TopicPartition, None] = {}
        """Those unresolved or with a gap."""

    # The producer id.

    @property
    def needs_producer_id(self) -> bool:
        return not self.identity.is_valid and self.fatal_error is None

    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        """InitProducerId was answered."""
        self.identity = ProducerIdAndEpoch(producer_id, epoch)

    def transition_to_fatal_error(self, error: KafkaError) -> None:
        """Nothing can be sent any more."""
        self.fatal_error = error

    # Draining.

    def entry(self, partition: TopicPartition) -> TxnPartitionEntry:
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = TxnPartitionEntry(self.identity)
        return found

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether the first batch of a queue may be sent now."""
        if not self.identity.is_valid or self.fatal_error is not None:
            return False
        entry = self.entry(batch.topic_partition)
        if batch.has_sequence:
            return entry.next_to_send_again is batch
        if entry.is_unresolved or entry.has_gap:
            return False
        if not entry.in_flight:
            return True
        if entry.identity != self.identity or entry.last_written == NO_ORDINAL:
            return False
        return entry.drained_batches - entry.in_flight[0].drain_index < REMEMBERED_BATCHES

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """It will be sent: give it its sequence number, unless it has one."""
        if batch.has_sequence:
            return
        entry = self.entry(batch.topic_partition)
        if entry.identity != self.identity:
            entry.start_sequences_at_beginning(self.identity)
        batch.set_producer_state(
            entry.identity.producer_id, entry.identity.epoch, entry.next_sequence
        )
        entry.next_sequence = (entry.next_sequence + batch.count) & SEQUENCE_MASK
        batch.drain_index = entry.drained_batches
        entry.drained_batches += 1
        entry.add_in_flight(batch)

    # What became of it.

    def handle_completed_batch(self, batch: ProducerBatch) -> None:
        """It was written, perhaps after it had been given up."""
        entry = self.entry(batch.topic_partition)
        entry.remove_in_flight(batch)
        if entry.has_identity_of(batch):
            entry.batch_written(batch)

    def handle_failed_batch(self, batch: ProducerBatch) -> None:
        """It failed for good. Perhaps it was written (`in_doubt`); otherwise it was not, and what
        was sent behind it misses it."""
        entry = self.entry(batch.topic_partition)
        entry.remove_in_flight(batch)
        if batch.has_sequence and entry.has_identity_of(batch):
            entry.batch_failed(batch)
            self._unresolved[batch.topic_partition] = None

    def replace_by_parts(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """It was too large: these go out in its place, with its sequence numbers."""
        if not batch.has_sequence:
            return
        entry = self.entry(batch.topic_partition)
        entry.remove_in_flight(batch)
        batch.may_arrive = batch.in_doubt  # As the parts see it, who share its sequences.
        sequence = batch.base_sequence
        for part in parts:
            part.set_producer_state(batch.producer_id, batch.producer_epoch, sequence)
            part.drain_index = batch.drain_index
            part.may_arrive = part.may_be_written = batch.may_arrive
            sequence = (sequence + part.count) & SEQUENCE_MASK
            entry.add_in_flight(part)
        if batch.may_arrive:
            entry.batch_failed(batch)
            self._unresolved[batch.topic_partition] = None

    def can_retry(self, batch: ProducerBatch, error: ErrorCode, log_start_offset: int) -> bool:
        """Whether the batch may succeed when it is sent again; takes note of what the error
        tells."""
        if error not in SEQUENCE_ERRORS:
            return error.retriable
        if error == ErrorCode.UNKNOWN_PRODUCER_ID and log_start_offset == -1:
            return True  # An old broker: too little is known.
        entry = self.entry(batch.topic_partition)
        if entry.written_past(batch):
            return False
        if not batch.is_unwritten and not entry.may_still_be_written(batch):
            entry.mark_unwritten_from(batch)
            self._unresolved[batch.topic_partition] = None
        return True

    def maybe_resolve_sequences(self) -> None:
        """Get partitions out of trouble where all is known, bumping the epoch if there is a gap."""
        if not self._unresolved or not self.identity.is_valid:
            return
        gaps: list[TopicPartition] = []
        for partition in list(self._unresolved):
            entry = self.entry(partition)
            if not entry.has_gap and not entry.is_unresolved:
                del self._unresolved[partition]
                continue
            if not entry.has_gap and not entry.in_flight:
                entry.first_missing = entry.last_doubtful  # Nothing is left that could tell.
            if entry.has_gap and entry.cannot_be_written:
                gaps.append(partition)
        identity = self.identity
        if any(self.entry(partition).identity == identity for partition in gaps):
            self.identity = identity = self._bump_epoch()
        if not identity.is_valid:
            return  # They go on when there is a new id.
        for partition in gaps:
            self.entry(partition).start_sequences_at_beginning(identity)
            del self._unresolved[partition]

    def _bump_epoch(self) -> ProducerIdAndEpoch:
        self.epoch_bumps += 1
        producer_id, epoch = self.identity
        return NO_PRODUCER if epoch >= EPOCH_MAX else ProducerIdAndEpoch(producer_id, epoch + 1)
