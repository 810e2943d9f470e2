"""One member of a classic group, and its form in the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from odradek.coordinator.group.group_records import MemberMetadata
from odradek.coordinator.operation import Reply
from odradek.model.errors import ErrorCode
from odradek.protocol.api.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from odradek.protocol.api.sync_group import SyncGroupResponse

Protocols = Sequence[JoinGroupRequestProtocol]
SUPERSEDED = ErrorCode.REBALANCE_IN_PROGRESS
"""The error for the oldest request when a member repeats the same one too often."""


class Caller(NamedTuple):
    """The client that sent a request, and the version of the request."""

    client_id: str
    client_host: str
    """In Kafka's form: a slash and the address."""
    version: int


class Member:
    """A member. `join` and `sync` are the replies of its requests that wait.

    A repeated request is answered together with the first one. Kafka drops the older one without an
    answer: there a connection has one request in progress, so a second one means that the first
    connection is gone.
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
        """True until its first join is answered: without an id it cannot send heartbeats."""
        self.join: Reply[JoinGroupResponse] | None = None
        self.sync: Reply[SyncGroupResponse] | None = None

    def await_join(self, reply: Reply[JoinGroupResponse]) -> None:
        """Keep the reply of a join until the generation begins."""
        self.join = reply if self.join is None else self.join.merge(reply, SUPERSEDED)

    def await_sync(self, reply: Reply[SyncGroupResponse]) -> None:
        """Keep the reply of a sync until the leader has assigned."""
        self.sync = reply if self.sync is None else self.sync.merge(reply, SUPERSEDED)

    @property
    def is_static(self) -> bool:
        """True if it keeps its assignment over a restart (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_alive_without_heartbeat(self) -> bool:
        """True while a request of it waits; not if it is new, since its client may be gone."""
        return not self.is_new and (self.join is not None or self.sync is not None)

    def metadata(self, protocol: str) -> bytes:
        """Its metadata under one of its protocols."""
        return protocol_metadata(self.protocols, protocol)

    @property
    def protocol_names(self) -> set[str]:
        """The names of the protocols that it supports."""
        return {each.name for each in self.protocols}

    def has_same_protocols(self, protocols: Protocols) -> bool:
        """True if these are its protocols, in the same order with the same metadata."""
        return list(self.protocols) == list(protocols)


def protocol_metadata(protocols: Protocols, name: str) -> bytes:
    """The metadata of the protocol of this name, which is among them."""
    return next(each.metadata for each in protocols if each.name == name)


def member_from_record(
    stored: MemberMetadata, protocol: str | None, known: Member | None
) -> Member:
    """The member of a record. A `known` one is updated: it keeps its waiting requests and its
    other protocols.
    """
    timeout = stored.rebalance_timeout
    rebalance_timeout_ms = stored.session_timeout if timeout == -1 else timeout
    protocols = [JoinGroupRequestProtocol(name=protocol or "", metadata=stored.subscription)]
    if known is None:
        return Member(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            session_timeout_ms=stored.session_timeout,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocols=protocols,
            assignment=stored.assignment,
        )
    known.session_timeout_ms = stored.session_timeout
    known.rebalance_timeout_ms = rebalance_timeout_ms
    known.assignment = stored.assignment
    if protocols[0] not in known.protocols:
        known.protocols = protocols
    return known


def member_metadata(member: Member, protocol: str, assignment: bytes) -> MemberMetadata:
    """The form of a member in a record: under the chosen protocol, with its assignment."""
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
