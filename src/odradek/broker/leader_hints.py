"""Hints for a client that asks the wrong broker: the error, the leader, its address (KIP-951).

A partition that the metadata has and another broker leads is NOT_LEADER_OR_FOLLOWER, so that the
client looks for the leader; only one that does not exist is UNKNOWN_TOPIC_OR_PARTITION. Produce
from version 10 on and Fetch from version 16 on also name the leader and its address, so that the
client need not ask for metadata first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from odradek.model.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.controller.image import PartitionRegistration

T = TypeVar("T")


def error_if_missing(broker: Broker, topic: str | UUID, index: int) -> ErrorCode:
    """The error for a partition without a replica here that can answer; a topic by name or id.

    A partition that this broker is about to open is unknown until then.
    """
    found = registration_of(broker, topic, index)
    if found is None or found.leader == broker.node_id:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NOT_LEADER_OR_FOLLOWER


def registration_of(broker: Broker, topic: str | UUID, index: int) -> PartitionRegistration | None:
    """The partition as the committed metadata has it; None if it does not."""
    image = broker.image
    found = image.topic_by_id(topic) if isinstance(topic, UUID) else image.topic(topic)
    return None if found is None else found.partitions.get(index)


def is_cut_off(broker: Broker, topic: str | UUID, index: int) -> bool:
    """True of a partition whose leader, this broker, is cut off (`replication.leadership`).

    Its metadata, in which this broker leads, is no hint. The client has to ask another broker, so
    the connection ends with the answer: most clients prefer connected brokers to ask for metadata.
    """
    replicas = broker.replicas
    if isinstance(topic, UUID):
        partition = replicas.by_id.get((topic, index))
    else:
        partition = replicas.by_name.get((topic, index))
    return partition is not None and partition.is_cut_off


CUT_OFF = "this broker is cut off from the others: the client should ask another one"
"""The reason for which the connection of such an answer is ended."""


class LeaderHints:
    """The leaders that one response names."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._leaders: dict[int, None] = {}

    def leader(self, topic: str | UUID, index: int) -> tuple[int, int] | None:
        """The id and epoch of a partition's leader, to be named in the response; None if there is
        no leader."""
        found = registration_of(self._broker, topic, index)
        if found is None or found.leader < 0:
            return None
        self._leaders[found.leader] = None
        return found.leader, found.leader_epoch

    def endpoints(self, kind: Callable[..., T]) -> list[T]:
        """The addresses of the named leaders, as structs of the response (`NodeEndpoint`)."""
        if not self._leaders:
            return []
        return [
            kind(node_id=node_id, host=host, port=port, rack=rack)
            for node_id, host, port, rack in self._broker.alive_brokers()
            if node_id in self._leaders
        ]
