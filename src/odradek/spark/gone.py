"""What to say of partitions that a stream should go on with, and that are not there to be read.

    not asked for   the checkpoint has them, the options do not: another query's, or changed options
    topics gone     deleted, or on another cluster
    partitions gone the topic has fewer than it had

Everything here is pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Set
from typing import NamedTuple

from odradek.model.topics import TopicPartition
from odradek.spark.offsets import Offsets
from odradek.spark.options import Subscription


class Gone(NamedTuple):
    """One sentence on what is missing, one on why, and one on what to do."""

    what: str
    why: str
    way_out: str


def gone(begin: Offsets, read: Set[TopicPartition], wanted: Subscription) -> Iterator[Gone]:
    """For each of the cases above that there is; `begin` is where the stream stands, `read` what
    the options name and the cluster has."""
    missing = sorted(set(begin) - read)
    strange = [p for p in missing if not wanted.wants(p)]
    topics = {p.topic for p in read}
    without = [p for p in missing if p not in strange and p.topic not in topics]
    fewer = [p for p in missing if p not in strange and p.topic in topics]
    if strange:
        yield Gone(
            f"the checkpoint has {text_of(strange)}, which this query does not read "
            f"({wanted.describe()})",
            "Either it is the checkpoint of another query, or what to read was changed",
            "give each query a checkpointLocation of its own, or read these again; set "
            "failOnDataLoss to false to go on without them",
        )
    if without:
        names = ", ".join(sorted({p.topic for p in without}))
        places = ", ".join(f"{p} to offset {begin[p]}" for p in without[:5])
        yield Gone(
            f"topics are gone: {names} (read: {places})",
            "Either they were deleted, or kafka.bootstrap.servers names another cluster now",
            "set failOnDataLoss to false to go on without them (if they are made again, they are "
            "read from their beginning), or begin with a new checkpoint",
        )
    if fewer:
        yield Gone(
            f"partitions are gone: {text_of(fewer)}",
            "The topic was deleted and made again with fewer partitions",
            "set failOnDataLoss to false to read what is there, or begin with a new checkpoint",
        )


def text_of(partitions: Collection[TopicPartition]) -> str:
    """Partitions for an error message, the first few of them."""
    shown = ", ".join(str(p) for p in sorted(partitions)[:5])
    return shown if len(partitions) <= 5 else f"{shown} and {len(partitions) - 5} more"
