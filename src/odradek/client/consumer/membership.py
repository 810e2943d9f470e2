"""Membership: heartbeating and leaving, as the coordinator wants to hear it.

    heartbeats, while syncing or stable:
        REBALANCE_IN_PROGRESS          join again when the application polls
        UNKNOWN_MEMBER_ID, FENCED      the generation is lost, with all that was assigned
        ILLEGAL_GENERATION             so too, but the member id may still be good
        silence for the session        look for the coordinator again
        no poll for max.poll.interval  leave: others shall have the partitions

A static member (KIP-345) leaves silently: the coordinator keeps its place for a session, in which
it may come back. Joining is `joining`'s.
"""

from __future__ import annotations

import logging

from odradek.client.alarm import NEVER_MS
from odradek.client.consumer import group_requests
from odradek.client.consumer.coordinator_lookup import CoordinatorLookup
from odradek.client.consumer.group_effects import GroupCall
from odradek.client.consumer.group_member import COORDINATOR_MOVED, GroupMember, MemberState
from odradek.client.consumer.heartbeat import Heartbeat
from odradek.client.consumer.joining import Joining
from odradek.client.consumer.leader import LeaderParts
from odradek.client.errors.answers import error_for
from odradek.client.errors.base import KafkaError
from odradek.model.errors import ErrorCode, error_code
from odradek.protocol.api.heartbeat import HeartbeatResponse
from odradek.protocol.api.leave_group import LeaveGroupResponse

log = logging.getLogger(__name__)

NOT_THIS_GENERATION = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
)
ALIVE = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, *NOT_THIS_GENERATION)
"""Answers after which no new heartbeat is in a hurry."""


class Membership:
    """One member's dealings with the coordinator."""

    def __init__(self, member: GroupMember, lookup: CoordinatorLookup, parts: LeaderParts) -> None:
        config = member.config
        self.member = member
        self.lookup = lookup
        self.heartbeat = Heartbeat(
            config.session_timeout_ms,
            config.heartbeat_interval_ms,
            config.max_poll_interval_ms,
            member.now_ms,
        )
        self.joining = Joining(member, self.heartbeat, parts)
        self.leaving: GroupCall | None = None

    @property
    def rejoin_needed_or_pending(self) -> bool:
        """Whether the member has to join, is about it, or has not taken its assignment yet."""
        joining = self.joining
        return self.member.rejoin_needed or joining.under_way or joining.assignment is not None

    @property
    def beats(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        return self.member.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    @property
    def next_ms(self) -> int:
        """When time alone will make something due."""
        beats = self.beats and self.member.coordinator is not None
        return min(self.heartbeat.next_ms if beats else NEVER_MS, self.joining.next_ms)

    def ticked(self) -> None:
        """Time went by."""
        member, heartbeat = self.member, self.heartbeat
        if not self.beats or member.coordinator is None:
            return
        if heartbeat.session_expired(member.now_ms):
            member.lose_coordinator("no heartbeat was answered within session.timeout.ms")
        elif heartbeat.poll_expired(member.now_ms):
            log.warning(
                "group %s: the application did not poll for max.poll.interval.ms (%d ms), so its "
                "partitions go to others. Poll more often: take fewer records at a time "
                "(max.poll.records), do slow work elsewhere, or raise max.poll.interval.ms",
                member.config.group_id,
                heartbeat.max_poll_interval_ms,
            )
            self.leave("consumer poll timeout has expired.")
        elif heartbeat.is_due(member.now_ms):
            heartbeat.sent(member.now_ms)
            member.metrics.beating(member.now_ms)
            builder = group_requests.heartbeat(member.config, member.generation)
            member.send(member.coordinator, builder, self._heartbeat_answered)

    def look_for_coordinator(self) -> None:
        """Whoever is to send heartbeats needs to know where to."""
        if self.beats and self.member.coordinator is None:
            self.lookup.start()

    def found_coordinator(self) -> None:
        """There is a coordinator again; it gets the time of a session to answer."""
        self.heartbeat.found_coordinator(self.member.now_ms)

    def _heartbeat_answered(
        self, call: GroupCall, response: HeartbeatResponse | None, error: KafkaError | None
    ) -> None:
        member, heartbeat = self.member, self.heartbeat
        code = ErrorCode.NETWORK_EXCEPTION if response is None else error_code(response.error_code)
        if response is not None:
            member.metrics.beat_answered(member.now_ms)
        if response is None:
            member.lose_coordinator(str(error), call.node)
        elif code in COORDINATOR_MOVED:
            member.lose_coordinator(code.name, call.node)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS and member.state is MemberState.STABLE:
            member.request_rejoin_if_necessary("group is already rebalancing")
        elif code in NOT_THIS_GENERATION and member.generation == call.generation:
            self._lose_generation(code)
        elif code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            member.fail(error_for(code, self._what("heartbeating")))
        if code in ALIVE:
            heartbeat.received(member.now_ms)
        else:
            heartbeat.failed(member.now_ms, member.backoff.backoff_ms(0))

    def _lose_generation(self, code: ErrorCode) -> None:
        """A heartbeat was told that the member is none of that generation."""
        known = code is ErrorCode.ILLEGAL_GENERATION
        self.member.reset_generation(f"{code.name} while heartbeating", forget_member_id=not known)
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.joining.halted = True
            self.member.fail(error_for(code, self._what("heartbeating")))

    # Leaving.

    def leave(self, reason: str, *, even_static: bool = False) -> None:
        """Be no member any more; the coordinator is told, once, unless the member is static."""
        member = self.member
        may_tell = member.coordinator is not None and member.state is not MemberState.UNJOINED
        if may_tell and member.generation.member_id and (member.config.is_dynamic or even_static):
            builder = group_requests.leave_group(member.config, member.generation, reason)
            self.leaving = member.send(member.coordinator, builder, self._left)
        self.joining.give_up()
        member.reset_generation(
            f"consumer pro-actively leaving the group: {reason}", forget_member_id=True
        )

    def _left(
        self, call: GroupCall, response: LeaveGroupResponse | None, error: KafkaError | None
    ) -> None:
        if self.leaving is call:
            self.leaving = None
        code = group_requests.leave_error(response) if response is not None else ErrorCode.NONE
        if code != ErrorCode.NONE:
            error = error_for(code, self._what("leaving"))
        if error is not None:
            log.info("group %s: %s", self.member.config.group_id, error)

    def _what(self, doing: str) -> str:
        """For messages."""
        return f"{doing} group {self.member.config.group_id}"
