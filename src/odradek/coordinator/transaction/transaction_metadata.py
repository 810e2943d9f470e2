"""TransactionMetadata: the state of one transactional id, and the states that may follow it.

    epochs                      producer_epoch, last_producer_epoch (the one before it, if the same
                                producer bumped it: a repeated request has that one)
    InitProducerId              the epoch goes up by one; at `LAST_EPOCH` the id is replaced
    EndTxn 5, TIMEOUT, fencing  the epoch goes up by one with the decision, for the markers; the
                                next transaction has that epoch. At `LAST_EPOCH` the markers get
                                32767, which no client ever has, and the next transaction a new id

No client gets the epoch 32767, so there is always one to fence a producer with. Two abbreviations
of Kafka: TV is the transaction version. From TV 2 on (KIP-890) each transaction has an epoch of its
own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.transaction.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    TransactionState,
)
from odradek.model.topics import TopicPartition

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIME: Final = -1
MAX_EPOCH: Final = 32_767
LAST_EPOCH: Final = MAX_EPOCH - 1
"""The last epoch that a client gets."""
EPOCH_BUMP_VERSION: Final = 2
"""The first transaction version whose transactions have an epoch of their own."""
NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()


class TransactionMetadata(NamedTuple):
    """See the module. Times are in ms since the epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    """The id before the last change of state; differs only after a rotation."""
    next_producer_id: int = NO_PRODUCER_ID
    """The id after the end that is under way, if it rotates."""
    timeout_ms: int = 0
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    start_ms: int = NO_TIME
    last_update_ms: int = NO_TIME
    transaction_version: int = 0
    """The transaction version of the client which began or ended the transaction."""

    @property
    def is_exhausted(self) -> bool:
        """True if the producer id has no epoch left for another client."""
        return self.producer_epoch >= LAST_EPOCH

    # -- what follows ------------------------------------------------------------------------------
    #
    # The three states of every transaction are made whole: `_replace` costs more.

    def initialized(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionMetadata:
        """The state without a transaction, for a producer with this id and epoch."""
        return self._replace(
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            previous_producer_id=self.producer_id,
            timeout_ms=timeout_ms,
            state=EMPTY,
            partitions=NO_PARTITIONS,
            start_ms=NO_TIME,
            last_update_ms=now_ms,
        )

    def with_partitions(
        self, added: Iterable[TopicPartition], transaction_version: int, now_ms: int
    ) -> TransactionMetadata:
        """The state with more partitions in the transaction, which begins now if none is open."""
        return TransactionMetadata(
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            self.last_producer_epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=self.next_producer_id,
            timeout_ms=self.timeout_ms,
            state=ONGOING,
            partitions=self.partitions.union(added),
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            transaction_version=transaction_version,
        )

    def ending(
        self, state: TransactionState, transaction_version: int, next_producer_id: int, now_ms: int
    ) -> TransactionMetadata:
        """The state of a transaction that is decided now: PREPARE_COMMIT or PREPARE_ABORT."""
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if transaction_version >= EPOCH_BUMP_VERSION:
            epoch, last_epoch = min(epoch + 1, MAX_EPOCH), epoch
        return TransactionMetadata(
            self.transactional_id,
            self.producer_id,
            epoch,
            last_epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            timeout_ms=self.timeout_ms,
            state=state,
            partitions=self.partitions,
            start_ms=self.start_ms if self.state is ONGOING else now_ms,
            last_update_ms=now_ms,
            transaction_version=transaction_version,
        )

    def fenced(self) -> TransactionMetadata:
        """The state with the next epoch, which fences the producer, for an abort without a bump."""
        epoch = min(self.producer_epoch + 1, MAX_EPOCH)
        return self._replace(producer_epoch=epoch, last_producer_epoch=NO_EPOCH)

    def completed(self, now_ms: int) -> TransactionMetadata:
        """The state after the markers, with the producer id and epoch of the next transaction."""
        rotates = (
            self.transaction_version >= EPOCH_BUMP_VERSION
            and self.next_producer_id != NO_PRODUCER_ID
        )
        return TransactionMetadata(
            self.transactional_id,
            self.next_producer_id if rotates else self.producer_id,
            0 if rotates else self.producer_epoch,
            self.last_producer_epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            timeout_ms=self.timeout_ms,
            state=COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            partitions=NO_PARTITIONS,
            start_ms=self.start_ms,
            last_update_ms=now_ms,
            transaction_version=self.transaction_version,
        )

    def record(self) -> CoordinatorRecord:
        """The record that makes this state."""
        return CoordinatorRecord(self.transactional_id, self)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that deletes an id."""
    return CoordinatorRecord(transactional_id, None)
