"""Which topics a group reads, as far as its members have told in a language the broker knows.

Consumers put their subscription into the metadata of each protocol they speak; what other groups
(Connect, Streams, anybody's own) put there is theirs. Offsets of a topic that a group reads are
neither deleted on request nor let go with time.
"""

from __future__ import annotations

from odradek.coordinator.group.classic_group import CONSUMER, ClassicGroup
from odradek.model.errors import ProtocolError
from odradek.protocol.consumer_protocol import decode_subscription


def subscribed_topics(group: ClassicGroup) -> set[str] | None:
    """The topics of all members; None: that is not known."""
    if group.protocol_type != CONSUMER:
        return None
    if not group.members:
        return set()
    topics: set[str] = set()
    for member in group.members.values():
        metadata = next((p.metadata for p in member.protocols if p.name == group.protocol), None)
        if metadata is None:
            return None
        try:
            topics.update(decode_subscription(metadata).topics)
        except ProtocolError:
            return None
    return topics


def reads(group: ClassicGroup, topic: str) -> bool:
    """Whether the group reads a topic; of consumers of whom that is not known it is assumed."""
    topics = subscribed_topics(group)
    return group.protocol_type == CONSUMER if topics is None else topic in topics
