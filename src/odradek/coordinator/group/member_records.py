"""Members as records keep them: under the chosen protocol, with what they were assigned."""

from __future__ import annotations

from odradek.coordinator.group.member import Member
from odradek.coordinator.records import MemberMetadata
from odradek.protocol.api.join_group import JoinGroupRequestProtocol


def loaded_member(stored: MemberMetadata, protocol: str | None, known: Member | None) -> Member:
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


def stored_member(member: Member, protocol: str, assignment: bytes) -> MemberMetadata:
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
