"""The state of one partition of `__transaction_state`: its transactional ids.

Timers, by key:

    ("transaction", id)    the timeout of an open transaction: monotonic, and anew after loading
    ("expire-ids",)        the next look for ids that expired

Ids are kept in the order of their last change (`ids_by_change`), so those that expire are found at
the front, and nothing looks at the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from odradek.coordinator.answered_connection import AnsweredConnection
from odradek.coordinator.operation import OperationResult, TimerKey
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.transaction.end_txn import resume_end, timed_out
from odradek.coordinator.transaction.ids_by_change import IdsByChange
from odradek.coordinator.transaction.transaction_metadata import (
    TransactionMetadata,
    tombstone,
)
from odradek.coordinator.transaction.transaction_record_codec import TransactionRecordCodec
from odradek.coordinator.transaction.transaction_state import (
    DEAD,
    ENDING,
    KEPT,
    ONGOING,
    TIMEOUT,
    Event,
    outcome,
)
from odradek.model.errors import ErrorCode, ProtocolError

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.coordinator.transaction.markers import TransactionEnd

EXPIRE = "expire-ids"
EXPIRED_AT_ONCE = 500
"""Ids that are deleted in one operation; the others follow in the next one."""
SOON_MS = 1


class TransactionEnvironment(Protocol):
    """The coordinator as its shards see it: settings, producer ids, markers and counters."""

    config: BrokerConfig

    def next_producer_id(self) -> int | None:
        """Take a producer id; None if there is none now: one is asked for."""
        ...

    def transaction_version(self) -> int:
        """The finalized level of `transaction.version`."""
        ...

    def write_markers(self, end: TransactionEnd) -> None:
        """Write the markers of a decided transaction, until all are written."""
        ...

    def ended(self, transactional_id: str) -> None:
        """Called when the end of a transaction is complete, or goes on elsewhere."""
        ...

    def shard_unloaded(self, number: int) -> None:
        """Write no markers for a shard that is led elsewhere."""
        ...

    def count_end(self, committed: bool) -> None:
        """Count a transaction that is complete."""
        ...

    def count_timeout(self) -> None:
        """Count a transaction that is aborted because of its timeout."""
        ...


class TransactionShard:
    """The `StateMachine` of a shard. `coordinator_epoch`: the leader epoch of its partition."""

    def __init__(
        self, environment: TransactionEnvironment, number: int, coordinator_epoch: int
    ) -> None:
        self.codec = TransactionRecordCodec()
        self.environment = environment
        self.number = number
        self.coordinator_epoch = coordinator_epoch
        self.newest_connections: dict[str, int] = {}
        """For each open transaction, the newest connection that added to it: see `end_txn`."""
        self.answered_connections: dict[str, AnsweredConnection] = {}
        """For open transactions, an older connection whose EndTxn was to be tried again."""
        self.counts = dict.fromkeys(KEPT, 0)
        """How many ids are in each state."""
        self._ids = IdsByChange()

    def __iter__(self) -> Iterator[TransactionMetadata]:
        """All ids, those that changed last at the end."""
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def get(self, transactional_id: str) -> TransactionMetadata | None:
        """The state of an id; None if there is none."""
        return self._ids.get(transactional_id)

    # -- as a state machine ------------------------------------------------------------------------

    def replay(self, record: CoordinatorRecord) -> None:
        """Apply a record: the only code that changes the state of an id."""
        before = self._ids.remove(record.key)
        if before is not None:
            self.counts[before.state] -= 1
        after = record.value
        if after is not None:
            assert isinstance(after, TransactionMetadata)
            self._ids.put(after)
            self.counts[after.state] += 1

    def replay_transactional(self, record: CoordinatorRecord, producer_id: int) -> None:
        """Raises `ProtocolError`: no transaction writes to this topic."""
        raise ProtocolError(f"a record of a transaction, of producer {producer_id}")

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Raises `ProtocolError`: no transaction writes to this topic."""
        raise ProtocolError(f"the end of a transaction, of producer {producer_id}")

    def loaded(self, result: OperationResult) -> None:
        """Start the timeouts of open transactions, and go on with those that are ending."""
        self._look_later(result)
        for metadata in list(self._ids):  # an end without markers completes at once
            if metadata.state is ONGOING:
                result.schedule((TIMEOUT, metadata.transactional_id), metadata.timeout_ms)
            elif metadata.state in ENDING:
                resume_end(self, metadata)

    def expired(self, key: TimerKey, result: OperationResult) -> None:
        """A timer expired: of a transaction, or of the look for expired ids."""
        if key[0] == EXPIRE:
            self._expire_ids(result)
        else:
            timed_out(self, result, key[1])

    def unloaded(self, error: ErrorCode) -> None:
        """Write no more markers; requests that wait for an end learn that it goes on elsewhere."""
        self.environment.shard_unloaded(self.number)
        for metadata in self._ids:
            if metadata.state in ENDING:
                self.environment.ended(metadata.transactional_id)

    # -- expiration --------------------------------------------------------------------------------

    def _look_later(self, result: OperationResult) -> None:
        config = self.environment.config
        delay_ms = config.transaction_remove_expired_transaction_cleanup_interval_ms
        result.schedule((EXPIRE,), delay_ms)

    def _expire_ids(self, result: OperationResult) -> None:
        self._look_later(result)
        expired = list(islice(self._expired(result.retention_now_ms), EXPIRED_AT_ONCE))
        for metadata in expired:
            result.write(tombstone(metadata.transactional_id))
        if len(expired) == EXPIRED_AT_ONCE:
            result.after_append(lambda: result.schedule((EXPIRE,), SOON_MS))

    def _expired(self, now_ms: int) -> Iterator[TransactionMetadata]:
        before_ms = now_ms - self.environment.config.transactional_id_expiration_ms
        for metadata in self._ids.changed_until(before_ms):
            if outcome(Event.EXPIRED, metadata.state) is DEAD:
                yield metadata
