"""WriteTxnMarkers (key 27, versions 1 to 2): write the ends of transactions into partitions.

A transaction's coordinator sends it to the leaders of its partitions; tools that abort a hanging
transaction send it too. 1: flexible. 2: the transaction version of each marker (KIP-1228).
"""

from __future__ import annotations

from odradek.protocol.schema import field, i8, i16, i32, i64, message, struct


@struct
class WritableTxnMarkerTopic:
    """Partitions of one topic."""

    name: str
    partition_indexes: list[i32]


@struct
class WritableTxnMarker:
    """The end of one producer's transaction."""

    producer_id: i64
    producer_epoch: i16
    transaction_result: bool = field(doc="True for COMMIT, False for ABORT.")
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: i32 = field(doc="The leader epoch of the coordinator's partition.")
    transaction_version: i8 = field(
        default=0, since=2, ignorable=True, doc="From 2 on the epoch is above the producer's."
    )


@message(api=27, versions=(1, 2), flexible=1)
class WriteTxnMarkersRequest:
    """Write these markers."""

    markers: list[WritableTxnMarker]


@struct
class WritableTxnMarkerPartitionResult:
    """The error of one partition, or none."""

    partition_index: i32
    error_code: i16


@struct
class WritableTxnMarkerTopicResult:
    """The results of one topic."""

    name: str
    partitions: list[WritableTxnMarkerPartitionResult]


@struct
class WritableTxnMarkerResult:
    """The results of all markers of one producer."""

    producer_id: i64
    topics: list[WritableTxnMarkerTopicResult]


@message(api=27, versions=(1, 2), flexible=1)
class WriteTxnMarkersResponse:
    """Per producer and partition, the error or none."""

    markers: list[WritableTxnMarkerResult]
