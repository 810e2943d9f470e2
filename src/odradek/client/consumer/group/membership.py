"""Membership: finds the coordinator, joins the group, sends heartbeats, and leaves.

`CoordinatorLookup`, only when asked to, because a consumer that never commits and has no group
needs no coordinator:

    any broker ◄── FindCoordinator ──┬─ a broker: `found`
                                     ├─ retriable error, no connection: again after a back-off
                                     └─ not authorized, or another fatal error: the listeners' error

`GroupJoin`, from JoinGroup to `assignment`, which `Rebalance` takes:

    join ─► JoinGroup ─┬─ follower ────────────────────────► SyncGroup ─► assignment
                       ├─ leader ─► `GroupLeader` assigns ─► SyncGroup ─► assignment
                       ├─ MEMBER_ID_REQUIRED (KIP-394): JoinGroup with the id given
                       ├─ UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS: at once
                       ├─ another retriable error: again after a back-off
                       └─ a fatal error: the application's next poll raises it

A response that rejects the generation counts only while the member still has the generation of the
request. A member that left while it was joining does not take up the membership it was given.

`Membership`, heartbeats while the member is syncing or stable (`Heartbeat` has the clocks):

    REBALANCE_IN_PROGRESS               rejoin when the application polls
    UNKNOWN_MEMBER_ID,                  the generation is lost, with all assigned partitions
      FENCED_INSTANCE_ID
    ILLEGAL_GENERATION                  the same, but the member id is kept
    no response for the session timeout look for the coordinator again
    no poll for max.poll.interval.ms    leave the group: other members take the partitions

A static member (KIP-345) sends no LeaveGroup: the coordinator keeps its place for the session
timeout, in which it may come back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from odradek.client.consumer.group import requests
from odradek.client.consumer.group.leader import GroupLeader, LeaderParts
from odradek.client.consumer.group.member import (
    COORDINATOR_MOVED,
    CoordinatorNode,
    Generation,
    GroupCall,
    GroupMember,
    MemberState,
)
from odradek.client.errors import KafkaError, error_for
from odradek.client.find_coordinator import coordinator_answer, find_coordinator
from odradek.model.errors import ErrorCode, error_code
from odradek.network_client.alarm import NEVER_MS
from odradek.protocol.api.heartbeat import HeartbeatResponse
from odradek.protocol.api.join_group import JoinGroupResponse
from odradek.protocol.api.leave_group import LeaveGroupResponse
from odradek.protocol.api.sync_group import SyncGroupResponse
from odradek.protocol.consumer_protocol import PROTOCOL_TYPE

log = logging.getLogger(__name__)

Outcome = Callable[[KafkaError | None], None]


class CoordinatorLookup:
    """Finds the coordinator, one request at a time. `found` is called when it has."""

    def __init__(self, member: GroupMember, found: Callable[[], None]) -> None:
        self.member = member
        self.retry_ms = NEVER_MS
        """When to try again after a failed lookup."""
        self._found = found
        self._call: GroupCall | None = None
        self._listeners: list[Outcome] = []
        self._attempts = 0

    @property
    def next_ms(self) -> int:
        return self.retry_ms

    def start(self, listener: Outcome | None = None) -> None:
        """Look for the coordinator, unless a lookup or its back-off is under way.

        `listener` receives the outcome of the present or the next lookup once: None, or the error.
        """
        if listener is not None:
            self._listeners.append(listener)
        if self._call is None and self.retry_ms == NEVER_MS:
            self._find_coordinator()

    def ticked(self) -> None:
        """Look again if the back-off is over."""
        if self.retry_ms <= self.member.now_ms:
            self.retry_ms = NEVER_MS
            if self.member.coordinator is None and self._call is None:
                self._find_coordinator()

    def _find_coordinator(self) -> None:
        builder = find_coordinator(self.member.config.group_id)
        self._call = self.member.send(None, builder, self._answered)

    def _answered(self, call: GroupCall, response: Any, error: KafkaError | None) -> None:
        self._call = None
        if error is None:
            found, code, message = coordinator_answer(response)
            if found is not None:
                self._succeed(CoordinatorNode(found.id, found.host, found.port))
                return
            what = f"finding the coordinator of group {self.member.config.group_id}"
            error = error_for(code, what, message)
        if error.retriable:
            self.retry_ms = self.member.now_ms + self.member.backoff.backoff_ms(self._attempts)
            self._attempts += 1
        self._notify(error)

    def _succeed(self, node: CoordinatorNode) -> None:
        self._attempts = 0
        self.member.coordinator = node
        self._found()
        self._notify(None)

    def _notify(self, error: KafkaError | None) -> None:
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener(error)


class Heartbeat:
    """The three clocks of a group member.

        session      how long the coordinator may be silent before it is looked for again
        heartbeat    when the next heartbeat is due; none is sent while one is unanswered
        poll         how long the application may take between polls (max.poll.interval.ms)

    Times are in ms of one monotonic clock. `Membership` sends what is due.
    """

    def __init__(
        self,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        max_poll_interval_ms: int,
        now_ms: int,
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.max_poll_interval_ms = max_poll_interval_ms
        self.last_poll_ms = now_ms
        """When the application last polled. The application's thread may write it, so that a poll
        that needs nothing of the engine need not enter it.
        """
        self.application_waits = False
        """True while the application waits inside a poll. Written as `last_poll_ms` is."""
        self.in_flight = False
        self.session_deadline_ms = now_ms + session_timeout_ms
        self.due_ms = now_ms + heartbeat_interval_ms

    @property
    def poll_deadline_ms(self) -> int:
        """The deadline of the next poll; never while the application is in a poll."""
        if self.application_waits:
            return NEVER_MS
        return self.last_poll_ms + self.max_poll_interval_ms

    def polled(self, now_ms: int) -> None:
        """The application polled."""
        self.last_poll_ms = max(self.last_poll_ms, now_ms)

    def sent(self, now_ms: int) -> None:
        """A heartbeat was sent."""
        self.in_flight = True
        self.due_ms = now_ms + self.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        """The coordinator answered, so it knows that the member is alive."""
        self.in_flight = False
        self.session_deadline_ms = now_ms + self.session_timeout_ms

    def failed(self, now_ms: int, backoff_ms: int) -> None:
        """A heartbeat failed; the next one follows after `backoff_ms`."""
        self.in_flight = False
        self.due_ms = now_ms + backoff_ms

    def restart(self, now_ms: int) -> None:
        """Restart the clocks: the member entered a generation."""
        self.in_flight = False
        self.session_deadline_ms = now_ms + self.session_timeout_ms
        self.due_ms = now_ms + self.heartbeat_interval_ms

    def found_coordinator(self, now_ms: int) -> None:
        """Give a newly found coordinator the full session timeout."""
        self.session_deadline_ms = now_ms + self.session_timeout_ms

    def is_due(self, now_ms: int) -> bool:
        """True if a heartbeat is to be sent now."""
        return not self.in_flight and now_ms >= self.due_ms

    def session_expired(self, now_ms: int) -> bool:
        return now_ms >= self.session_deadline_ms

    def poll_expired(self, now_ms: int) -> bool:
        return now_ms >= self.poll_deadline_ms

    @property
    def next_ms(self) -> int:
        """The earliest deadline of the clocks."""
        sending_ms = self.session_deadline_ms if self.in_flight else self.due_ms
        return min(sending_ms, self.session_deadline_ms, self.poll_deadline_ms)


JOIN_TIMEOUT_LAPSE_MS = 5_000
"""How much longer than the rebalance timeout the response to JoinGroup may take."""

REJOIN_AT_ONCE = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
)


class GroupJoin:
    """One attempt to join after the other."""

    def __init__(self, member: GroupMember, heartbeat: Heartbeat, parts: LeaderParts) -> None:
        self.member = member
        self.heartbeat = heartbeat
        self.leader = GroupLeader(parts, self._sync, self._failed)
        self.assignment: bytes | None = None
        self.in_progress = False
        """True from JoinGroup until the response to SyncGroup, or an error."""
        self.halted = False
        """Do not join before the application's poll has raised the fatal error."""
        self.retry_ms = 0
        """Do not join before this time."""
        self._attempts = 0

    @property
    def next_ms(self) -> int:
        """The time of the next attempt."""
        return self.retry_ms if self.retry_ms > self.member.now_ms else NEVER_MS

    def abandon(self) -> None:
        """Drop the assignment and stop leading: the member leaves."""
        self.assignment = None
        self.leader.cancel()

    def join(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Send JoinGroup, with a subscription for each assignor."""
        member, config = self.member, self.member.config
        assert member.coordinator is not None
        member.state = MemberState.PREPARING_REBALANCE
        member.metrics.join_sent(member.now_ms)
        self.in_progress = True
        builder = requests.join_group(
            config, member.generation.member_id, protocols, member.rejoin_reason
        )
        timeout_ms = max(
            config.request_timeout_ms, config.max_poll_interval_ms + JOIN_TIMEOUT_LAPSE_MS
        )
        member.send(member.coordinator, builder, self._join_answered, timeout_ms)

    def _join_answered(
        self, call: GroupCall, response: JoinGroupResponse | None, error: KafkaError | None
    ) -> None:
        member = self.member
        if response is None:
            self._no_answer(call, error)
        elif response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            member.generation = Generation(member_id=response.member_id)
            member.state = MemberState.UNJOINED
            member.request_rejoin(f"need to re-join with the given member-id: {response.member_id}")
            self._failed(error_for(response.error_code, self._describe("joining")))
        elif response.error_code != ErrorCode.NONE:
            self._error_answered("joining", call, response.error_code)
        elif member.state is not MemberState.PREPARING_REBALANCE:
            # The member left while it was joining: it does not take up this membership.
            self._failed(error_for(ErrorCode.REBALANCE_IN_PROGRESS, self._describe("joining")))
        elif response.protocol_type not in (None, PROTOCOL_TYPE):
            self._failed(
                error_for(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    self._describe("joining"),
                    f"the group has protocol type {response.protocol_type!r}",
                )
            )
        else:
            self._enter_generation(response)

    def _enter_generation(self, response: JoinGroupResponse) -> None:
        """Enter the generation that was joined; it has no assignment yet."""
        member = self.member
        member.state = MemberState.COMPLETING_REBALANCE
        member.generation = Generation(
            response.generation_id, response.member_id, response.protocol_name
        )
        member.metrics.joined(member.now_ms)
        self.heartbeat.restart(member.now_ms)
        if response.leader == response.member_id:
            self.leader.assign_as_leader(response)
        else:
            self._sync({})

    def _sync(self, assignments: Mapping[str, bytes]) -> None:
        member = self.member
        if member.state is not MemberState.COMPLETING_REBALANCE or member.coordinator is None:
            self._failed(error_for(ErrorCode.ILLEGAL_GENERATION, self._describe("syncing")))
            return
        member.metrics.sync_sent(member.now_ms)
        builder = requests.sync_group(member.config, member.generation, assignments)
        member.send(member.coordinator, builder, self._sync_answered)

    def _sync_answered(
        self, call: GroupCall, response: SyncGroupResponse | None, error: KafkaError | None
    ) -> None:
        member = self.member
        if response is None:
            self._no_answer(call, error)
        elif response.error_code != ErrorCode.NONE:
            self._error_answered("syncing", call, response.error_code)
        elif (
            member.generation != call.generation
            or member.state is not MemberState.COMPLETING_REBALANCE
        ):
            # A heartbeat response in between ended this generation.
            self._failed(error_for(ErrorCode.ILLEGAL_GENERATION, self._describe("syncing")))
        elif response.protocol_type not in (None, PROTOCOL_TYPE) or (
            response.protocol_name not in (None, member.generation.protocol_name)
        ):
            self._failed(
                error_for(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    self._describe("syncing"),
                    f"the assignment is by {response.protocol_type!r} {response.protocol_name!r}",
                )
            )
        else:
            member.state = MemberState.STABLE
            member.rejoin_needed = False
            member.rejoin_reason = ""
            member.metrics.rebalance_completed(member.now_ms)
            self.in_progress = False
            self._attempts = 0
            self.assignment = response.assignment
            member.request_poll()

    def _no_answer(self, call: GroupCall, error: KafkaError | None) -> None:
        """Handle a request without a response."""
        assert error is not None
        if error.retriable:
            self.member.lose_coordinator(str(error), call.node)
        self._failed(error)

    def _error_answered(self, doing: str, call: GroupCall, code: int) -> None:
        """Handle an error code of the coordinator."""
        member, known = self.member, error_code(code)
        unchanged = member.generation == call.generation
        if known in COORDINATOR_MOVED:
            member.lose_coordinator(known.name, call.node)
        elif known is ErrorCode.UNKNOWN_MEMBER_ID and unchanged:
            member.reset_generation(f"{known.name} while {doing}", forget_member_id=True)
        elif known is ErrorCode.ILLEGAL_GENERATION and unchanged:
            member.reset_generation(f"{known.name} while {doing}", forget_member_id=False)
        self._failed(error_for(code, self._describe(doing)))

    def _failed(self, error: BaseException) -> None:
        """End this attempt; try again at once, after a back-off, or when the application knows the
        error.
        """
        member = self.member
        self.in_progress = False
        self.leader.cancel()
        code = error.code if isinstance(error, KafkaError) else None
        if code is not ErrorCode.MEMBER_ID_REQUIRED:
            member.metrics.rebalance_failed(member.now_ms)
            name = error.name if isinstance(error, KafkaError) else type(error).__name__
            member.request_rejoin(f"rebalance failed due to {name}")
        if code in REJOIN_AT_ONCE:
            self.retry_ms = 0
        elif isinstance(error, KafkaError) and error.retriable:
            self.retry_ms = member.now_ms + member.backoff.backoff_ms(self._attempts)
            self._attempts += 1
        else:
            self.halted = True
            member.fail(error)

    def _describe(self, doing: str) -> str:
        return f"{doing} group {self.member.config.group_id}"


GENERATION_ERRORS = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
)
ANSWERS_OF_A_LIVE_COORDINATOR = (
    ErrorCode.NONE,
    ErrorCode.REBALANCE_IN_PROGRESS,
    *GENERATION_ERRORS,
)
"""Answers that show a live coordinator: the next heartbeat may wait a full interval."""


class Membership:
    """A member's requests to the coordinator."""

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
        self.joining = GroupJoin(member, self.heartbeat, parts)
        self.leave_call: GroupCall | None = None

    @property
    def rejoin_needed_or_pending(self) -> bool:
        """True if the member has to join, is joining, or has not taken its assignment yet."""
        joining = self.joining
        return self.member.rejoin_needed or joining.in_progress or joining.assignment is not None

    @property
    def sends_heartbeats(self) -> bool:
        """True if the coordinator expects heartbeats."""
        return self.member.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    @property
    def next_ms(self) -> int:
        """The earliest deadline."""
        sends_heartbeats = self.sends_heartbeats and self.member.coordinator is not None
        return min(self.heartbeat.next_ms if sends_heartbeats else NEVER_MS, self.joining.next_ms)

    def ticked(self) -> None:
        """Send a heartbeat, give up the coordinator, or leave, as the clocks say."""
        member, heartbeat = self.member, self.heartbeat
        if not self.sends_heartbeats or member.coordinator is None:
            return
        if heartbeat.session_expired(member.now_ms):
            member.lose_coordinator("no heartbeat was answered within session.timeout.ms")
        elif heartbeat.poll_expired(member.now_ms):
            log.warning(
                "group %s: the application did not poll for max.poll.interval.ms (%d ms), so its "
                "partitions go to other members. Poll more often: take fewer records at a time "
                "(max.poll.records), do slow work elsewhere, or raise max.poll.interval.ms",
                member.config.group_id,
                heartbeat.max_poll_interval_ms,
            )
            self.leave("consumer poll timeout has expired.")
        elif heartbeat.is_due(member.now_ms):
            heartbeat.sent(member.now_ms)
            member.metrics.heartbeat_sent(member.now_ms)
            builder = requests.heartbeat(member.config, member.generation)
            member.send(member.coordinator, builder, self._heartbeat_answered)

    def find_coordinator(self) -> None:
        """Look for a coordinator if the member has to send heartbeats and has none."""
        if self.sends_heartbeats and self.member.coordinator is None:
            self.lookup.start()

    def found_coordinator(self) -> None:
        """Give the new coordinator the session timeout to answer."""
        self.heartbeat.found_coordinator(self.member.now_ms)

    def _heartbeat_answered(
        self, call: GroupCall, response: HeartbeatResponse | None, error: KafkaError | None
    ) -> None:
        member, heartbeat = self.member, self.heartbeat
        code = ErrorCode.NETWORK_EXCEPTION if response is None else error_code(response.error_code)
        if response is not None:
            member.metrics.heartbeat_answered(member.now_ms)
        if response is None:
            member.lose_coordinator(str(error), call.node)
        elif code in COORDINATOR_MOVED:
            member.lose_coordinator(code.name, call.node)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS and member.state is MemberState.STABLE:
            member.request_rejoin_if_necessary("group is already rebalancing")
        elif code in GENERATION_ERRORS and member.generation == call.generation:
            self._lose_generation(code)
        elif code is ErrorCode.GROUP_AUTHORIZATION_FAILED:
            member.fail(error_for(code, self._describe("heartbeating")))
        if code in ANSWERS_OF_A_LIVE_COORDINATOR:
            heartbeat.received(member.now_ms)
        else:
            heartbeat.failed(member.now_ms, member.backoff.backoff_ms(0))

    def _lose_generation(self, code: ErrorCode) -> None:
        """Handle a heartbeat error that ends the member's generation."""
        known = code is ErrorCode.ILLEGAL_GENERATION
        self.member.reset_generation(f"{code.name} while heartbeating", forget_member_id=not known)
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.joining.halted = True
            self.member.fail(error_for(code, self._describe("heartbeating")))

    # Leaving.

    def leave(self, reason: str, *, even_static: bool = False) -> None:
        """Leave the group. Sends LeaveGroup once, unless the member is static."""
        member = self.member
        may_tell = member.coordinator is not None and member.state is not MemberState.UNJOINED
        if may_tell and member.generation.member_id and (member.config.is_dynamic or even_static):
            builder = requests.leave_group(member.config, member.generation, reason)
            self.leave_call = member.send(member.coordinator, builder, self._leave_answered)
        self.joining.abandon()
        member.reset_generation(
            f"consumer pro-actively leaving the group: {reason}", forget_member_id=True
        )

    def _leave_answered(
        self, call: GroupCall, response: LeaveGroupResponse | None, error: KafkaError | None
    ) -> None:
        if self.leave_call is call:
            self.leave_call = None
        code = requests.leave_error(response) if response is not None else ErrorCode.NONE
        if code != ErrorCode.NONE:
            error = error_for(code, self._describe("leaving"))
        if error is not None:
            log.info("group %s: %s", self.member.config.group_id, error)

    def _describe(self, doing: str) -> str:
        return f"{doing} group {self.member.config.group_id}"
