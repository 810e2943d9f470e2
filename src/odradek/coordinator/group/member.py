"""One member of a classic group.

Members as records keep them: under the chosen protocol, with what they were assigned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.coordinator.operation import Reply
from odradek.coordinator.records import MemberMetadata
from odradek.model.errors import ErrorCode
from odradek.protocol.api.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from odradek.protocol.api.sync_group import SyncGroupResponse

Protocols = Sequence[JoinGroupRequestProtocol]
SUPERSEDED = ErrorCode.REBALANCE_IN_PROGRESS
"""What the oldest is told if a member asks the same over and over."""


class Caller(NamedTuple):
    """Who sent a request, and in which version: what the broker knows of it besides the request."""

    client_id: str
    client_host: str
    """As Kafka shows it: an address behind a slash."""
    version: int


class Member:
    """`join` and `sync` are the way back to the requests of its that wait for an answer.

    One that asks twice is answered twice. Kafka forgets the older request, and who waits for its
    answer waits for ever: there no connection has two requests in progress, so he is gone.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "id",
        "is_new",
        "join",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        """It has joined and was not answered yet: it cannot send heartbeats, for it has no id."""
        self.join: Reply[JoinGroupResponse] | None = None
        self.sync: Reply[SyncGroupResponse] | None = None

    def await_join(self, reply: Reply[JoinGroupResponse]) -> None:
        """It joins, for the first time or again."""
        self.join = reply if self.join is None else self.join.merge(reply, SUPERSEDED)

    def await_sync(self, reply: Reply[SyncGroupResponse]) -> None:
        """It asks for its assignment, for the first time or again."""
        self.sync = reply if self.sync is None else self.sync.merge(reply, SUPERSEDED)

    @property
    def is_static(self) -> bool:
        """It keeps its place over a restart (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_alive_without_heartbeat(self) -> bool:
        """It waits for the others. Not so a new one: nobody would notice if it had gone."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str) -> bytes:
        """What it said under a protocol that it speaks."""
        return protocol_metadata(self.protocols, protocol)

    @property
    def protocol_names(self) -> set[str]:
        """The names of the protocols that it speaks."""
        return {each.name for each in self.protocols}

    def has_same_protocols(self, protocols: Protocols) -> bool:
        """Whether a member that joins again says what it said before, in the same order."""
        return list(self.protocols) == list(protocols)


def protocol_metadata(protocols: Protocols, name: str) -> bytes:
    """What a member said under the protocol of this name, which is among them."""
    return next(each.metadata for each in protocols if each.name == name)


def member_from_record(
    stored: MemberMetadata, protocol: str | None, known: Member | None
) -> Member:
    """A member as a record has it. One that is known keeps what waits for an answer, and the other
    protocols that it speaks.
    """
    timeout = stored.rebalance_timeout
    rebalance_timeout_ms = stored.session_timeout if timeout == -1 else timeout
    said = [JoinGroupRequestProtocol(name=protocol or "", metadata=stored.subscription)]
    if known is None:
        return Member(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            session_timeout_ms=stored.session_timeout,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocols=said,
            assignment=stored.assignment,
        )
    known.session_timeout_ms = stored.session_timeout
    known.rebalance_timeout_ms = rebalance_timeout_ms
    known.assignment = stored.assignment
    if said[0] not in known.protocols:
        known.protocols = said
    return known


def member_metadata(member: Member, protocol: str, assignment: bytes) -> MemberMetadata:
    """What a record keeps of a member."""
    return MemberMetadata(
        member_id=member.id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=assignment,
    )
