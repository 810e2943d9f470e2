"""TransactionManager: the producer id and epoch, and the sequence numbers of batches (KIP-98).

With a producer id, an epoch and gapless sequence numbers per partition, a broker recognizes a batch
that it has already, and a batch that is missing: each record is written exactly once and in order,
whatever is sent again.

A batch gets its sequence number when it is drained, and keeps it through retries. It gets another
one only when its epoch has ended and it can no longer be written under the first. The client bumps
the epoch by itself, as soon as one partition needs it.

    what happens                         to the batch                       to later batches
    OUT_OF_ORDER_SEQUENCE_NUMBER,        sent again in its place, or, if    unwritten with it
    UNKNOWN_PRODUCER_ID                  certainly unwritten, in a new
                                         epoch
    delivery.timeout.ms, `retries`       fails; in doubt if it was sent     success proves it was
                                                                            written; else in a new
                                                                            epoch, or, without a
                                                                            response, stay or fail
    refused: INVALID_RECORD,             fails; in doubt if an earlier      in a new epoch, when the
    TOPIC_AUTHORIZATION_FAILED …,        attempt may be written (brokers    broker has missed it
    INVALID_PRODUCER_EPOCH,              refuse before they look for
    INVALID_PRODUCER_ID_MAPPING          duplicates)
    UNKNOWN_SERVER_ERROR                 fails, in doubt                    the same
    MESSAGE_TOO_LARGE                    its parts share its sequences      sent again after them
    another leader, a lost connection    sent again as it is                the same, in order
    the broker has forgotten the         written, whatever its sequence;    the same
    producer (producer.id.expiration.ms, twice if it was written before:
    a day)                               keep delivery.timeout.ms far below

A broker recognizes a batch among the last five that it has written for the producer. So at most
five batches of a partition are drained, counted from the oldest without an outcome. A limit per
node would not be enough, because leaders move.

Nothing new goes to a new leader while a request to the former one carries a batch of the partition:
the new leader may have that batch and acknowledge later ones first, and callbacks run in order. If
the former leader is gone, its connection is closed soon (`NodeConnection.leave`).

A broker that does not know the producer accepts any sequence as if nothing were missing. So the
first batch of an epoch goes alone; a batch sent after it is written cannot get ahead of anything.
Once it is written, that broker processes no request of an older epoch any more.

A partition (`TxnPartitionEntry`) is in one of these states:

    in order     next sequence = last written + what is in flight
    unresolved   a batch was given up, and it may or may not be written, now or later. Nothing new
                 is drained. A later batch that is written proves that it was written. When nothing
                 is in flight any more, this is a gap
    gap          a batch is certainly missing: the broker lost what it had acknowledged, or a batch
                 was refused for good, or is certainly unwritten behind one that was given up.
                 Nothing new is drained; batches in flight are sent, and sent again, until each is
                 done or known to be unwritten. The rest get sequences from 0 on in a new epoch
                 (KIP-360)
    stale        the epoch was bumped because of another partition: this one goes on in the old
                 epoch until nothing is in flight, then from 0 on in the new one

A broker writes a batch of a given epoch and sequence once, and sequence 0 in a higher epoch always.
So a batch gets another number only when it is certain that it is not written, *and never will be*,
under its present number: a request without a response may lie in some buffer and arrive after
requests of the next connection. Suppose the broker says that it misses a batch in front. If then

- a batch in front of it is still to be sent, nothing is known: it is sent again behind that one;
- every attempt to send it got a response, it is unwritten, and so are all batches behind it, which
  can only be written after it;
- an attempt got no response, but the missing batch in front will not arrive (its last response was
  a refusal, which it would get again; or it had been acknowledged and was lost): the same;
- an attempt got no response, and the missing batch was given up without one, too: both may arrive
  yet. It keeps its number and is sent again until its time is over; then it fails, with an error
  that says that it may be written.

The parts of a batch that may have been written share its sequences: a broker that has it, or gets
it, refuses them, and they keep their sequences as if an attempt of theirs had no response. If a
batch behind them is written, so is the whole batch: under other numbers the parts would be
duplicates, so they fail.

Batches are compared by their ordinals, which outlast their sequences.

Two cases remain that numbers cannot prevent. When the epochs run out (after 32767 bumps) there is a
new producer id, and requests of the old one may still be processed late. And a broker that loses an
acknowledged batch may later accept an older copy without a response, beside the one that was sent
again.

In a transaction nothing is renumbered. A batch that fails, or that would get another number, fails
the transaction (`transaction_phases`); after the end of a transaction there is a new epoch, in
which all partitions begin anew. Only version 1 of transactions keeps the epoch, after a commit and
after an abort with nothing in doubt. Owner thread only.
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

from mypy_extensions import i64

from odradek.client.errors import KafkaError
from odradek.client.producer.producer_batch import SEQUENCE_MASK, ProducerBatch
from odradek.client.producer.transaction_phases import ProducerTransaction, TxnRequest
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

NO_ORDINAL: Final[i64] = -1
AFTER_ALL: Final[i64] = 1 << 62
"""Greater than all ordinals."""


class ProducerIdAndEpoch(NamedTuple):
    """The identity of a producer: its id and epoch."""

    producer_id: int
    epoch: int

    @property
    def is_valid(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


NO_PRODUCER: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


@final
class TxnPartitionEntry:
    """The state of one partition. `last_written`, `last_doubtful`, `last_arriving` and
    `first_missing` are ordinals of batches of the present epoch."""

    def __init__(self, identity: ProducerIdAndEpoch) -> None:
        self.identity = identity
        self.next_sequence: i64 = 0
        self.drained_batches: i64 = 0
        """The number of batches that got a sequence number so far."""
        self.in_flight: list[ProducerBatch] = []
        """Batches drained and not done, in order, with those that wait to be sent again."""
        self.last_written: i64 = NO_ORDINAL
        """The last batch that is known to be written."""
        self.last_doubtful: i64 = NO_ORDINAL
        """The last batch that was given up, or split, although it may be written."""
        self.last_arriving: i64 = NO_ORDINAL
        """The last of these batches of which the broker may have, or get, a copy, although it said
        that it misses a batch."""
        self.first_missing: i64 = AFTER_ALL
        """The first batch that is not written, and will not be."""

    @property
    def is_unresolved(self) -> bool:
        return self.last_doubtful > self.last_written

    @property
    def has_gap(self) -> bool:
        return self.first_missing != AFTER_ALL

    @property
    def cannot_be_written(self) -> bool:
        """True if no batch in flight may be written, and no request carries one."""
        return all(batch.is_unwritten and not batch.in_flight for batch in self.in_flight)

    @property
    def next_to_send_again(self) -> ProducerBatch | None:
        """The batch to send again next: they are sent one by one, in order."""
        for batch in self.in_flight:
            if not batch.is_unwritten:
                return batch
        return None

    def has_identity_of(self, batch: ProducerBatch) -> bool:
        """True if the batch was sent in the present epoch."""
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

    # Outcomes.

    def batch_written(self, batch: ProducerBatch) -> None:
        """Note that a batch is written, and with it all batches in front of it."""
        if batch.ordinal > self.last_written:
            self.last_written = batch.ordinal

    def batch_failed(self, batch: ProducerBatch) -> None:
        """Note that a batch is done without being acknowledged."""
        if batch.ordinal > self.first_missing:
            return  # No batch behind a gap is written.
        if not batch.in_doubt:
            self.first_missing = batch.ordinal
            return
        if batch.ordinal > self.last_doubtful:
            self.last_doubtful = batch.ordinal
        if (batch.may_arrive or batch.in_flight) and batch.ordinal > self.last_arriving:
            self.last_arriving = batch.ordinal

    def written_past(self, batch: ProducerBatch) -> bool:
        """True if the batch may be written, and one behind it is."""
        return batch.may_arrive and batch.ordinal < self.last_written

    def may_still_be_written(self, batch: ProducerBatch) -> bool:
        """True if a batch that the broker refused, because one in front of it is missing, may still
        be written under its present number."""
        if self.first_missing < batch.ordinal:
            return False
        if self.next_to_send_again is not batch:
            return True
        return batch.may_arrive and self.last_written < self.last_arriving <= batch.ordinal

    def mark_unwritten_from(self, batch: ProducerBatch) -> None:
        """Note that neither the batch nor those behind it will be written under their numbers."""
        if batch.ordinal < self.first_missing:
            self.first_missing = batch.ordinal
        for behind in self.in_flight:
            if behind.ordinal >= batch.ordinal:
                behind.is_unwritten = True

    def start_sequences_at_beginning(self, identity: ProducerIdAndEpoch) -> None:
        """Give all batches in flight, and all later ones, sequences of this epoch from 0 on."""
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
"""The number of last batches of a producer that a broker recognizes."""
SEQUENCE_ERRORS: Final = frozenset(
    {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID}
)
"""Errors that say that the broker misses a batch in front of this one. The broker does not have
this one either: it would answer that it is a duplicate."""


@final
class TransactionManager:
    """The identity and the sequence numbers of one producer: an idempotent one, or, with a
    `transaction`, a transactional one."""

    def __init__(self, transaction: ProducerTransaction | None = None) -> None:
        self.transaction = transaction
        self.identity: ProducerIdAndEpoch = NO_PRODUCER
        self.fatal_error: KafkaError | None = None
        self.epoch_bumps = 0
        """How often the epoch was bumped or a new id was needed."""
        self._partitions: dict[TopicPartition, TxnPartitionEntry] = {}
        self._unresolved: dict[TopicPartition, None] = {}
        """The partitions that are unresolved or have a gap."""

    # The producer id.

    @property
    def needs_producer_id(self) -> bool:
        """True if an idempotent producer needs an id; a transactional one asks when it is told."""
        return not self.identity.is_valid and self.fatal_error is None and self.transaction is None

    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        """Set the identity, from a response to InitProducerId."""
        self.identity = ProducerIdAndEpoch(producer_id, epoch)

    def begin_anew(self, identity: ProducerIdAndEpoch) -> None:
        """Set the identity between two transactions. No batch waits for its outcome, or the outcome
        does not matter any more."""
        self.identity = identity
        self._partitions.clear()
        self._unresolved.clear()

    @property
    def is_in_doubt(self) -> bool:
        """True if a batch of this epoch is missing, or may or may not be written."""
        return any(
            self.entry(each).has_gap or self.entry(each).is_unresolved for each in self._unresolved
        )

    def transition_to_fatal_error(self, error: KafkaError) -> None:
        """Send nothing any more."""
        self.fatal_error = error
        if self.transaction is not None:
            self.transaction.fail_for_good(error)

    def fail_transaction(self, error: KafkaError) -> None:
        """Note that a record of the open transaction failed, if there is one."""
        if self.transaction is not None:
            self.transaction.fail(TxnRequest.PRODUCE, error)

    # Draining.

    def entry(self, partition: TopicPartition) -> TxnPartitionEntry:
        found = self._partitions.get(partition)
        if found is None:
            found = self._partitions[partition] = TxnPartitionEntry(self.identity)
        return found

    def may_drain(self, batch: ProducerBatch, node_id: i64) -> bool:
        """True if the first batch of a queue may be sent to this node now."""
        if not self.identity.is_valid or self.fatal_error is not None:
            return False
        if not self._is_next(batch, node_id):
            return False
        return self.transaction is None or self.transaction.may_send(batch.topic_partition)

    def _is_next(self, batch: ProducerBatch, node_id: i64) -> bool:
        """True if no other batch of the partition has to be done first."""
        entry = self.entry(batch.topic_partition)
        if batch.has_sequence:
            return entry.next_to_send_again is batch
        if entry.is_unresolved or entry.has_gap:
            return False
        if not entry.in_flight:
            return True
        oldest = entry.in_flight[0]
        if oldest.in_flight and oldest.node_id != node_id:
            return False  # The former leader may answer later than this one.
        if entry.identity != self.identity or entry.last_written == NO_ORDINAL:
            return False
        return entry.drained_batches - oldest.drain_index < REMEMBERED_BATCHES

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Give a drained batch its sequence number, unless it has one."""
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

    # Outcomes of batches.

    def handle_completed_batch(self, batch: ProducerBatch) -> None:
        """Note that a batch was written, perhaps after it had been given up."""
        entry = self.entry(batch.topic_partition)
        entry.remove_in_flight(batch)
        if entry.has_identity_of(batch):
            entry.batch_written(batch)

    def handle_failed_batch(self, batch: ProducerBatch) -> None:
        """Note that a batch failed for good. If it is not `in_doubt` it was not written, and the
        broker misses it in front of later batches."""
        entry = self.entry(batch.topic_partition)
        entry.remove_in_flight(batch)
        if batch.has_sequence and entry.has_identity_of(batch):
            entry.batch_failed(batch)
            self._unresolved[batch.topic_partition] = None

    def replace_by_parts(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Replace a batch that is too large by its parts, which share its sequence numbers."""
        if not batch.has_sequence:
            return
        entry = self.entry(batch.topic_partition)
        entry.remove_in_flight(batch)
        # The parts share its sequences, and so its doubt.
        batch.may_arrive = batch.in_doubt
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
        """Note what the error says of the batch; return True if the batch may succeed when it is
        sent again."""
        if self.transaction is not None and self.transaction.has_failed:
            return False
        if error not in SEQUENCE_ERRORS:
            return error.retriable
        if error == ErrorCode.UNKNOWN_PRODUCER_ID and log_start_offset == -1:
            return True  # An old broker, without the log start: too little is known.
        entry = self.entry(batch.topic_partition)
        if entry.written_past(batch):
            return False
        if not batch.is_unwritten and not entry.may_still_be_written(batch):
            entry.mark_unwritten_from(batch)
            self._unresolved[batch.topic_partition] = None
        return self.transaction is None or not batch.is_unwritten

    def maybe_resolve_sequences(self) -> None:
        """Resolve the partitions of which all is known, bumping the epoch if there is a gap."""
        if not self._unresolved or not self.identity.is_valid or self.transaction is not None:
            return
        gaps: list[TopicPartition] = []
        for partition in list(self._unresolved):
            entry = self.entry(partition)
            if not entry.has_gap and not entry.is_unresolved:
                del self._unresolved[partition]
                continue
            if not entry.has_gap and not entry.in_flight:
                # No batch is left that could prove it written.
                entry.first_missing = entry.last_doubtful
            if entry.has_gap and entry.cannot_be_written:
                gaps.append(partition)
        identity = self.identity
        if any(self.entry(partition).identity == identity for partition in gaps):
            self.identity = identity = self._bump_epoch()
        if not identity.is_valid:
            return  # They continue when there is a new id.
        for partition in gaps:
            self.entry(partition).start_sequences_at_beginning(identity)
            del self._unresolved[partition]

    def _bump_epoch(self) -> ProducerIdAndEpoch:
        self.epoch_bumps += 1
        producer_id, epoch = self.identity
        return NO_PRODUCER if epoch >= EPOCH_MAX else ProducerIdAndEpoch(producer_id, epoch + 1)
