"""TransactionManager: who this producer is to the brokers, and the sequence numbers of its batches.

With a producer id, an epoch and gapless sequence numbers per partition a broker recognizes a batch
it has already, and one that is missing: each record is written exactly once and in order, whatever
is sent again.

A sequence number is given to a batch when it is drained, not before, and stays with it through
retries. Each partition is in one of these states:

    in order     next sequence = last acknowledged + what is in flight
    unresolved   a batch was given up after it had been sent: nobody knows whether it was written.
                 Nothing new is drained. When nothing is in flight any more, either what succeeded
                 behind it shows that it was written, or there is a gap
    gap          the broker misses a batch or has lost the producer's state, or a batch failed for
                 good. Nothing new is drained; what is in flight is sent, and sent again, until each
                 batch is done or known to be unwritten. Then the epoch is bumped, here, without
                 asking anybody, and those left get sequences from 0 on in the new epoch (KIP-360)
    stale        the epoch was bumped because of another partition: it goes on in the old epoch
                 until nothing is in flight, then from 0 on in the new one

A broker knows a batch again if it is among the last five it has written for the producer. So no
more than five of a partition are drained, counted from the oldest whose outcome is open. That there
are no more in flight to a node is not enough: leaders move.

A broker that knows nothing of a producer takes any sequence, as if nothing were missing. So the
first batch of an epoch goes alone; what comes when it is written cannot get ahead of anything.

A broker takes sequence 0 in a higher epoch always. Waiting in a gap until all is known is what
keeps a batch from being written in the old epoch and in the new one, when its answer got lost.

A batch is known to be unwritten when the broker answered OUT_OF_ORDER_SEQUENCE_NUMBER or
UNKNOWN_PRODUCER_ID to it, for one that had been written would be a duplicate; and with it all that
come after it.

Transactions are not here; their states would join these. Owner thread only.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

from mypy_extensions import i64

from odradek.client.errors import KafkaError
from odradek.client.producer.producer_batch import SEQUENCE_MASK, ProducerBatch
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

EPOCH_MAX: Final = 32767
REMEMBERED_BATCHES: Final[i64] = 5
"""How many batches of a producer a broker knows again."""
NO_SEQUENCE: Final = -1
UNWRITTEN: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
)


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
    """Where one partition stands."""

    def __init__(self, identity: ProducerIdAndEpoch) -> None:
        self.identity = identity
        self.next_sequence: i64 = 0
        self.last_acked_sequence: i64 = NO_SEQUENCE
        self.drained: i64 = 0
        """Batches that got a sequence number so far."""
        self.in_flight: list[ProducerBatch] = []
        """Drained and not done, in order; those that wait to be sent again too."""
        self.unresolved_after: i64 = NO_SEQUENCE
        """The sequence behind the last batch that was given up, while that is unresolved."""
        self.has_gap = False

    @property
    def is_unresolved(self) -> bool:
        return self.unresolved_after != NO_SEQUENCE

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

    def is_next_sequence(self, sequence: i64) -> bool:
        """Whether it follows what the broker has acknowledged."""
        if self.last_acked_sequence == NO_SEQUENCE:
            return sequence == 0
        return sequence == (self.last_acked_sequence + 1) & SEQUENCE_MASK

    def start_at_beginning(self, identity: ProducerIdAndEpoch) -> None:
        """All that is in flight, and what comes, belongs to this epoch, from 0 on."""
        sequence: i64 = 0
        for batch in self.in_flight:
            batch.set_producer_state(identity.producer_id, identity.epoch, sequence)
            sequence += batch.count
        self.identity = identity
        self.next_sequence = sequence
        self.last_acked_sequence = NO_SEQUENCE
        self.unresolved_after = NO_SEQUENCE
        self.has_gap = False


@final
class TransactionManager:
    """Of one idempotent producer."""

    def __init__(self) -> None:
        self.identity: ProducerIdAndEpoch = NONE
        self.fatal_error: KafkaError | None = None
        self.epoch_bumps = 0
        """How often the epoch was bumped or the id given up."""
        self._partitions: dict[TopicPartition, TxnPartitionEntry] = {}
        self._troubled: dict[TopicPartition, None] = {}
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
        if entry.identity != self.identity or entry.last_acked_sequence == NO_SEQUENCE:
            return False
        return entry.drained - entry.in_flight[0].drained_as < REMEMBERED_BATCHES

    def drained(self, batch: ProducerBatch) -> None:
        """It will be sent: give it its sequence number, unless it has one."""
        if batch.has_sequence:
            return
        entry = self.entry(batch.topic_partition)
        if entry.identity != self.identity:
            entry.start_at_beginning(self.identity)
        batch.set_producer_state(
            entry.identity.producer_id, entry.identity.epoch, entry.next_sequence
        )
        entry.next_sequence = (entry.next_sequence + batch.count) & SEQUENCE_MASK
        batch.drained_as = entry.drained
        entry.drained += 1
        entry.add_in_flight(batch)

    # What became of it.

    def handle_completed_batch(self, batch: ProducerBatch) -> None:
        """It was written, perhaps after it had been given up."""
        entry = self.entry(batch.topic_partition)
        entry.remove_in_flight(batch)
        if entry.has_identity_of(batch):
            ahead = (batch.last_sequence - entry.last_acked_sequence) & SEQUENCE_MASK
            if entry.last_acked_sequence == NO_SEQUENCE or ahead <= SEQUENCE_MASK >> 1:
                entry.last_acked_sequence = batch.last_sequence

    def handle_failed_batch(self, batch: ProducerBatch, *, sent: bool) -> None:
        """It failed for good. `sent`: nobody knows whether it was written; otherwise it was not,
        and what was sent behind it misses it."""
        entry = self.entry(batch.topic_partition)
        entry.remove_in_flight(batch)
        if not batch.has_sequence or not entry.has_identity_of(batch):
            return
        if not sent:
            entry.has_gap = True
        elif not entry.has_gap:
            entry.unresolved_after = (batch.last_sequence + 1) & SEQUENCE_MASK
        self._troubled[batch.topic_partition] = None

    def replace_by_parts(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """It was too large: these go out in its place, with its sequence numbers."""
        if not batch.has_sequence:
            return
        entry = self.entry(batch.topic_partition)
        entry.remove_in_flight(batch)
        sequence = batch.base_sequence
        for part in parts:
            part.set_producer_state(batch.producer_id, batch.producer_epoch, sequence)
            part.drained_as = batch.drained_as
            sequence = (sequence + part.count) & SEQUENCE_MASK
            entry.add_in_flight(part)

    def can_retry(self, batch: ProducerBatch, error: ErrorCode, log_start_offset: int) -> bool:
        """Whether the batch may succeed when it is sent again; takes note of what the error
        tells."""
        if error not in UNWRITTEN:
            return error.retriable
        if error == ErrorCode.UNKNOWN_PRODUCER_ID and log_start_offset == -1:
            return True  # An old broker: too little is known.
        entry = self.entry(batch.topic_partition)
        if error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not entry.has_gap:
            if entry.is_unresolved:
                missing = batch.base_sequence == entry.unresolved_after
            else:
                missing = entry.is_next_sequence(batch.base_sequence)
            if not missing:
                return True  # It is behind others that will be sent again before it.
        entry.has_gap = True
        for behind in entry.in_flight:
            if behind.ordinal >= batch.ordinal:
                behind.is_unwritten = True
        self._troubled[batch.topic_partition] = None
        return True

    def resolve(self) -> None:
        """Get partitions out of trouble where all is known, bumping the epoch if there is a gap."""
        if not self._troubled or not self.identity.is_valid:
            return
        gaps: list[TopicPartition] = []
        for partition in list(self._troubled):
            entry = self.entry(partition)
            if not entry.has_gap and not entry.in_flight:
                if entry.is_next_sequence(entry.next_sequence):
                    entry.unresolved_after = NO_SEQUENCE
                    del self._troubled[partition]
                else:
                    entry.has_gap = True
            if entry.has_gap and entry.is_settled:
                gaps.append(partition)
        identity = self.identity
        if any(self.entry(partition).identity == identity for partition in gaps):
            self.identity = identity = self._bumped()
        if not identity.is_valid:
            return  # They go on when there is a new id.
        for partition in gaps:
            self.entry(partition).start_at_beginning(identity)
            del self._troubled[partition]

    def _bumped(self) -> ProducerIdAndEpoch:
        self.epoch_bumps += 1
        producer_id, epoch = self.identity
        return NONE if epoch >= EPOCH_MAX else ProducerIdAndEpoch(producer_id, epoch + 1)
