"""Broker settings of transactions: names, meanings and defaults are Kafka's."""

from __future__ import annotations

from odradek.config.setting import HOUR_MS, MIB, at_least, integer, short
from odradek.config.settings import Settings


class TransactionCoordinatorSettings(Settings):
    """Transactional producers, their transactions and the coordinator's topic."""

    transaction_max_timeout_ms = integer(
        "transaction.max.timeout.ms",
        900_000,
        at_least(1),
        doc="The longest transaction.timeout.ms that a producer may ask for. An open transaction "
        "holds up readers of committed records, and what no coordinator knows of is aborted when "
        "it has been open for longer.",
    )
    transactional_id_expiration_ms = integer(
        "transactional.id.expiration.ms",
        7 * 24 * HOUR_MS,
        at_least(1),
        doc="The time for which a transactional id is kept after its last use. An id whose "
        "transaction is open is kept.",
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = integer(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        HOUR_MS,
        at_least(1),
        doc="The time between two searches for expired transactional ids.",
    )
    transaction_state_log_num_partitions = integer(
        "transaction.state.log.num.partitions",
        50,
        at_least(1),
        doc="The number of partitions of __transaction_state, which is created when a client first "
        "looks for a transaction's coordinator. Do not change it afterwards: transactional ids "
        "would be looked up in other partitions.",
    )
    transaction_state_log_replication_factor = short(
        "transaction.state.log.replication.factor",
        3,
        at_least(1),
        doc="The number of replicas of __transaction_state. With fewer brokers, each has one.",
    )
    transaction_state_log_min_isr = integer(
        "transaction.state.log.min.isr",
        2,
        at_least(1),
        doc="The number of in-sync replicas of __transaction_state that must have a record before "
        "it counts. With fewer replicas, all must have it.",
    )
    transaction_state_log_segment_bytes = integer(
        "transaction.state.log.segment.bytes",
        100 * MIB,
        at_least(1),
        doc="The size at which a segment of __transaction_state is closed. Only closed segments "
        "are compacted, and the broker reads all segments when it starts.",
    )
