"""Which topics the members of a group read, as far as they tell in a language the broker knows.

Consumers put their subscription into the metadata of each protocol they speak; what other groups
(Connect, Streams, anybody's own) put there is theirs. Offsets of a topic that a group reads are
neither deleted on request nor let go with time.

A group reads what the members of its generation said when that began, as in Kafka: whoever has left
since, or says something else now, changes that with the next generation. Of a generation that was
loaded it is what is kept of its members.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.coordinator.group.member import Member
from odradek.model.errors import ProtocolError
from odradek.protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription


def topics_read(
    protocol_type: str | None, protocol: str | None, members: Iterable[Member]
) -> set[str] | None:
    """The topics of all members; None: that is not known."""
    if protocol_type != PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    for member in members:
        metadata = next((p.metadata for p in member.protocols if p.name == protocol), None)
        if metadata is None:
            return None
        try:
            topics.update(decode_subscription(metadata).topics)
        except ProtocolError:
            return None
    return topics
