"""The records of `__transaction_state`: the state of each transactional id.

Keys have type 0. Values are written in version 1, and version 0 is read. The state is a number: see
`transaction_state`. Kafka writes version 0, which has none of the tagged fields, while
`transaction.version` is 0, because its older brokers read no other. None of these reads our log,
and without the last epoch a request that is repeated after a failover would be fenced.

| tag | field                      | since                                                         |
|-----|----------------------------|---------------------------------------------------------------|
| 0   | previous_producer_id       | the id before the last rotation, for repeated requests        |
| 1   | next_producer_id           | the id of the next transaction, while the epochs are used up  |
| 2   | client_transaction_version | of the client that began or ended the transaction             |
| 3   | next_producer_epoch        | the epoch of that id                                          |
| 4   | last_producer_epoch        | the epoch before the last one, for repeated requests          |

Kafka up to 4.3 keeps the last epoch in memory only, so there a request that is repeated after a
failover is fenced (KAFKA-20357). Readers skip tags that they do not know, so Kafka 4.3 reads our
records, and we read its own.
"""

from __future__ import annotations

from odradek.coordinator.records import RecordCodec
from odradek.protocol.schema import field, i8, i16, i32, i64, message, struct

VALUE_VERSION = 1


@message(api=0, versions=(0, 0), flexible=None)
class TransactionLogKey:
    """Key of a transactional id."""

    transactional_id: str


@struct
class TransactionPartitions:
    """Partitions of one topic in a transaction."""

    topic: str
    partition_ids: list[i32]


@message(api=0, versions=(0, 1), flexible=1)
class TransactionLogValue:
    """The state of a transactional id."""

    producer_id: i64
    previous_producer_id: i64 = field(default=-1, since=1, tag=0, ignorable=True)
    next_producer_id: i64 = field(default=-1, since=1, tag=1, ignorable=True)
    producer_epoch: i16
    next_producer_epoch: i16 = field(default=-1, since=1, tag=3, ignorable=True)
    transaction_timeout_ms: i32
    transaction_status: i8
    transaction_partitions: list[TransactionPartitions] | None = field(
        doc="Null in the state Empty."
    )
    transaction_last_update_timestamp_ms: i64
    transaction_start_timestamp_ms: i64
    client_transaction_version: i16 = field(default=0, since=1, tag=2, ignorable=True)
    last_producer_epoch: i16 = field(default=-1, since=1, tag=4, ignorable=True)


TRANSACTION_RECORDS = RecordCodec(
    {0: TransactionLogKey}, {TransactionLogKey: TransactionLogValue}, lambda value: VALUE_VERSION
)
"""The codec of these records."""
