"""Finding the group's coordinator, and waiting while there is none.

    any node ◄── FindCoordinator ──┬─ a node: `found`
                                   ├─ retriable error, no connection: again after a back-off
                                   └─ not allowed, or another fatal error: `failed`

It looks only when asked to: a consumer that never commits and has no group needs no coordinator.
Who asks is told through `listeners`, once, how one look came out.

Heartbeat: three clocks of a group member.

    session     how long the coordinator may stay silent before it is looked for again
    heartbeat   when the next heartbeat is due; none is sent while one is unanswered
    poll        how long the application may stay away before the member gives up its place

It sends nothing; `membership` asks what is due. Times are milliseconds of one monotonic clock.

Joining: from JoinGroup to an assignment, whatever the coordinator answers.

    join ─► JoinGroup ─┬─ follower ───────────────────► SyncGroup ─► assignment
                       ├─ leader ─► `leader` assigns ─► SyncGroup ─► assignment
                       ├─ MEMBER_ID_REQUIRED (KIP-394): JoinGroup with the id given
                       ├─ UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS: at once
                       ├─ another retriable error: again after a back-off
                       └─ a fatal error: the application's next poll raises it

A request is signed with the generation at which it was sent. An answer that says that generation is
no good counts only while it is still the member's; and a member that left while it was joining does
not follow up what it was made a member of.

`assignment` is the result, until `consumer_coordinator` has brought it home. When to join, and with
which subscription, is decided there too.

Membership: heartbeating and leaving, as the coordinator wants to hear it.

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
from odradek.client.consumer.group.requests import coordinator_answer, find_coordinator
from odradek.client.errors import KafkaError, error_for
from odradek.client.net.alarm import NEVER_MS
from odradek.model.errors import ErrorCode, error_code
from odradek.protocol.api.heartbeat import HeartbeatResponse
from odradek.protocol.api.join_group import JoinGroupResponse
from odradek.protocol.api.leave_group import LeaveGroupResponse
from odradek.protocol.api.sync_group import SyncGroupResponse
from odradek.protocol.consumer_protocol import PROTOCOL_TYPE

Outcome = Callable[[KafkaError | None], None]


class CoordinatorLookup:
    """One look at a time. `found` is called with each coordinator that is found."""

    def __init__(self, member: GroupMember, found: Callable[[], None]) -> None:
        self.member = member
        self.retry_ms = NEVER_MS
        """When to look again after a look in vain."""
        self._found = found
        self._call: GroupCall | None = None
        self._listeners: list[Outcome] = []
        self._attempts = 0

    @property
    def next_ms(self) -> int:
        return self.retry_ms

    def start(self, listener: Outcome | None = None) -> None:
        """Look now, if nobody does and no back-off is under way. `listener` learns how the look
        under way, or the next one, came out: None, or the error."""
        if listener is not None:
            self._listeners.append(listener)
        if self._call is None and self.retry_ms == NEVER_MS:
            self._find_coordinator()

    def ticked(self) -> None:
        """Time went by."""
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
                self._succeed(found)
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
    """The clocks, all wound up at `now_ms`."""

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
        """When the application was last there. A face may write it from the application's thread,
        so that a poll that needs nothing of the engine need not enter it."""
        self.application_waits = False
        """The application is inside a poll, waiting. A face writes it as it does `last_poll_ms`."""
        self.in_flight = False
        self.session_deadline_ms = now_ms + session_timeout_ms
        self.due_ms = now_ms + heartbeat_interval_ms

    @property
    def poll_deadline_ms(self) -> int:
        """When the application has stayed away too long; never while it waits."""
        if self.application_waits:
            return NEVER_MS
        return self.last_poll_ms + self.max_poll_interval_ms

    def polled(self, now_ms: int) -> None:
        """The application is there."""
        self.last_poll_ms = max(self.last_poll_ms, now_ms)

    def sent(self, now_ms: int) -> None:
        """A heartbeat leaves."""
        self.in_flight = True
        self.due_ms = now_ms + self.heartbeat_interval_ms

    def received(self, now_ms: int) -> None:
        """The coordinator answered: it knows that this member is alive."""
        self.in_flight = False
        self.session_deadline_ms = now_ms + self.session_timeout_ms

    def failed(self, now_ms: int, backoff_ms: int) -> None:
        """A heartbeat came to nothing; the next one follows soon."""
        self.in_flight = False
        self.due_ms = now_ms + backoff_ms

    def restart(self, now_ms: int) -> None:
        """The member is (again) one of a generation."""
        self.in_flight = False
        self.session_deadline_ms = now_ms + self.session_timeout_ms
        self.due_ms = now_ms + self.heartbeat_interval_ms

    def found_coordinator(self, now_ms: int) -> None:
        """A coordinator that was just found gets its full time."""
        self.session_deadline_ms = now_ms + self.session_timeout_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether to send one now."""
        return not self.in_flight and now_ms >= self.due_ms

    def session_expired(self, now_ms: int) -> bool:
        return now_ms >= self.session_deadline_ms

    def poll_expired(self, now_ms: int) -> bool:
        return now_ms >= self.poll_deadline_ms

    @property
    def next_ms(self) -> int:
        """When something of this is due."""
        sending_ms = self.session_deadline_ms if self.in_flight else self.due_ms
        return min(sending_ms, self.session_deadline_ms, self.poll_deadline_ms)


JOIN_TIMEOUT_LAPSE_MS = 5_000
"""How much longer than the rebalance timeout the answer to JoinGroup may take."""

REJOIN_AT_ONCE = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
)


class GroupJoin:
    """One attempt after the other."""

    def __init__(self, member: GroupMember, heartbeat: Heartbeat, parts: LeaderParts) -> None:
        self.member = member
        self.heartbeat = heartbeat
        self.leader = GroupLeader(parts, self._sync, self._failed)
        self.assignment: bytes | None = None
        self.in_progress = False
        """From JoinGroup until the answer to SyncGroup, or an error."""
        self.halted = False
        """A fatal error has to be told first."""
        self.retry_ms = 0
        """Not to join before."""
        self._attempts = 0

    @property
    def next_ms(self) -> int:
        """When to try again."""
        return self.retry_ms if self.retry_ms > self.member.now_ms else NEVER_MS

    def abandon(self) -> None:
        """The member leaves."""
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
            # The member has left meanwhile. What it was made a member of, it does not follow up.
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
        """A member of a new generation, which has no assignment yet."""
        member = self.member
        member.state = MemberState.COMPLETING_REBALANCE
        member.generation = Generation(
            response.generation_id, response.member_id, response.protocol_name
        )
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
            # A heartbeat was answered in between: this generation is over for the member.
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
        """The coordinator did not answer."""
        assert error is not None
        if error.retriable:
            self.member.lose_coordinator(str(error), call.node)
        self._failed(error)

    def _error_answered(self, doing: str, call: GroupCall, code: int) -> None:
        """The coordinator said no."""
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
        """This attempt is over: again at once, again later, or not before the user knows."""
        member = self.member
        self.in_progress = False
        self.leader.cancel()
        code = error.code if isinstance(error, KafkaError) else None
        if code is not ErrorCode.MEMBER_ID_REQUIRED:
            member.metrics.failed_rebalance_total += 1
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
        """For messages."""
        return f"{doing} group {self.member.config.group_id}"


log = logging.getLogger(__name__)

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
        self.joining = GroupJoin(member, self.heartbeat, parts)
        self.leave_call: GroupCall | None = None

    @property
    def rejoin_needed_or_pending(self) -> bool:
        """Whether the member has to join, is about it, or has not taken its assignment yet."""
        joining = self.joining
        return self.member.rejoin_needed or joining.in_progress or joining.assignment is not None

    @property
    def sends_heartbeats(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        return self.member.state in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)

    @property
    def next_ms(self) -> int:
        """When time alone will make something due."""
        sends_heartbeats = self.sends_heartbeats and self.member.coordinator is not None
        return min(self.heartbeat.next_ms if sends_heartbeats else NEVER_MS, self.joining.next_ms)

    def ticked(self) -> None:
        """Time went by."""
        member, heartbeat = self.member, self.heartbeat
        if not self.sends_heartbeats or member.coordinator is None:
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
            member.metrics.heartbeat_sent(member.now_ms)
            builder = requests.heartbeat(member.config, member.generation)
            member.send(member.coordinator, builder, self._heartbeat_answered)

    def find_coordinator(self) -> None:
        """Whoever is to send heartbeats needs to know where to."""
        if self.sends_heartbeats and self.member.coordinator is None:
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
        """A heartbeat was told that the member is none of that generation."""
        known = code is ErrorCode.ILLEGAL_GENERATION
        self.member.reset_generation(f"{code.name} while heartbeating", forget_member_id=not known)
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self.joining.halted = True
            self.member.fail(error_for(code, self._describe("heartbeating")))

    # Leaving.

    def leave(self, reason: str, *, even_static: bool = False) -> None:
        """Be no member any more; the coordinator is told, once, unless the member is static."""
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
        """For messages."""
        return f"{doing} group {self.member.config.group_id}"
