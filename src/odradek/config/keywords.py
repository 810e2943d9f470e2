"""The settings of the clients as keyword arguments, for editors and type checkers.

Rendered from the tables of settings: `make reference` writes this module again. Constructors take
the keywords as `**settings: Unpack[ProducerKeywords]`, and accept every other name in
`client_names` as well. A value of None counts as not given; the type allows it where kafka-python
or aiokafka have None as the default.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypedDict

PartitionerLike = Callable[[str, bytes | None, bytes | None, int], int | None]
"""A function from topic, serialized key and value, and the number of partitions to one of these, or
to None for the partition that the producer would choose without the function."""


class ClientKeywords(TypedDict, total=False):
    """The settings of all clients."""

    metadata_max_age_ms: int
    metadata_recovery_strategy: Literal["none", "rebootstrap"]
    metadata_recovery_rebootstrap_trigger_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    bootstrap_servers: str | Sequence[str]
    client_id: str
    security_protocol: Literal["PLAINTEXT"]
    send_buffer_bytes: int
    receive_buffer_bytes: int
    request_timeout_ms: int
    connections_max_idle_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int


class ProducerKeywords(ClientKeywords, total=False):
    """The settings of a producer."""

    partitioner: Literal["murmur2_random"] | PartitionerLike
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    metadata_max_idle_ms: int
    transactional_id: str | None
    transaction_timeout_ms: int
    acks: Literal["all", "1", "0"] | int
    enable_idempotence: bool
    retries: int
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    batch_size: int
    linger_ms: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int


class ConsumerKeywords(ClientKeywords, total=False):
    """The settings of a consumer."""

    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    prefetch_max_bytes: int
    check_crcs: bool
    default_api_timeout_ms: int
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    exclude_internal_topics: bool
    allow_auto_create_topics: bool
    group_id: str | None
    group_instance_id: str | None
    group_protocol: Literal["classic"]
    partition_assignment_strategy: str | Sequence[str]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    client_rack: str


class AdminKeywords(ClientKeywords, total=False):
    """The settings of an admin client."""

    default_api_timeout_ms: int
