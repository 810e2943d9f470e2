"""Joining: from JoinGroup to an assignment, whatever the coordinator answers.

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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odradek.client.alarm import NEVER_MS
from odradek.client.consumer import group_requests
from odradek.client.consumer.generation import Generation
from odradek.client.consumer.group_effects import GroupCall
from odradek.client.consumer.group_member import COORDINATOR_MOVED, GroupMember, MemberState
from odradek.client.consumer.heartbeat import Heartbeat
from odradek.client.consumer.leader import Leader, LeaderParts
from odradek.client.errors.answers import error_for
from odradek.client.errors.base import KafkaError
from odradek.model.errors import ErrorCode, error_code
from odradek.protocol.api.join_group import JoinGroupResponse
from odradek.protocol.api.sync_group import SyncGroupResponse
from odradek.protocol.consumer_protocol import PROTOCOL_TYPE

JOIN_LAPSE_MS = 5_000
"""How much longer than the rebalance timeout the answer to JoinGroup may take."""

AT_ONCE = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
)


class Joining:
    """One attempt after the other."""

    def __init__(self, member: GroupMember, heartbeat: Heartbeat, parts: LeaderParts) -> None:
        self.member = member
        self.heartbeat = heartbeat
        self.leader = Leader(parts, self._sync, self._failed)
        self.assignment: bytes | None = None
        self.under_way = False
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

    def give_up(self) -> None:
        """The member leaves."""
        self.assignment = None
        self.leader.dismiss()

    def join(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Send JoinGroup, with a subscription for each assignor."""
        member, config = self.member, self.member.config
        assert member.coordinator is not None
        member.state = MemberState.PREPARING_REBALANCE
        member.metrics.joining(member.now_ms)
        self.under_way = True
        builder = group_requests.join_group(
            config, member.generation.member_id, protocols, member.rejoin_reason
        )
        timeout_ms = max(config.request_timeout_ms, config.max_poll_interval_ms + JOIN_LAPSE_MS)
        member.send(member.coordinator, builder, self._joined, timeout_ms)

    def _joined(
        self, call: GroupCall, response: JoinGroupResponse | None, error: KafkaError | None
    ) -> None:
        member = self.member
        if response is None:
            self._unreached(call, error)
        elif response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            member.generation = Generation(member_id=response.member_id)
            member.state = MemberState.UNJOINED
            member.request_rejoin(f"need to re-join with the given member-id: {response.member_id}")
            self._failed(error_for(response.error_code, self._what("joining")))
        elif response.error_code != ErrorCode.NONE:
            self._refused("joining", call, response.error_code)
        elif member.state is not MemberState.PREPARING_REBALANCE:
            # The member has left meanwhile. What it was made a member of, it does not follow up.
            self._failed(error_for(ErrorCode.REBALANCE_IN_PROGRESS, self._what("joining")))
        elif response.protocol_type not in (None, PROTOCOL_TYPE):
            self._failed(
                error_for(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    self._what("joining"),
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
            self.leader.elected(response)
        else:
            self._sync({})

    def _sync(self, assignments: Mapping[str, bytes]) -> None:
        member = self.member
        if member.state is not MemberState.COMPLETING_REBALANCE or member.coordinator is None:
            self._failed(error_for(ErrorCode.ILLEGAL_GENERATION, self._what("syncing")))
            return
        builder = group_requests.sync_group(member.config, member.generation, assignments)
        member.send(member.coordinator, builder, self._synced)

    def _synced(
        self, call: GroupCall, response: SyncGroupResponse | None, error: KafkaError | None
    ) -> None:
        member = self.member
        if response is None:
            self._unreached(call, error)
        elif response.error_code != ErrorCode.NONE:
            self._refused("syncing", call, response.error_code)
        elif (
            member.generation != call.generation
            or member.state is not MemberState.COMPLETING_REBALANCE
        ):
            # A heartbeat was answered in between: this generation is over for the member.
            self._failed(error_for(ErrorCode.ILLEGAL_GENERATION, self._what("syncing")))
        elif response.protocol_type not in (None, PROTOCOL_TYPE) or (
            response.protocol_name not in (None, member.generation.protocol_name)
        ):
            self._failed(
                error_for(
                    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                    self._what("syncing"),
                    f"the assignment is by {response.protocol_type!r} {response.protocol_name!r}",
                )
            )
        else:
            member.state = MemberState.STABLE
            member.rejoin_needed = False
            member.rejoin_reason = ""
            member.metrics.rebalanced(member.now_ms)
            self.under_way = False
            self._attempts = 0
            self.assignment = response.assignment
            member.want_poll()

    def _unreached(self, call: GroupCall, error: KafkaError | None) -> None:
        """The coordinator did not answer."""
        assert error is not None
        if error.retriable:
            self.member.lose_coordinator(str(error), call.node)
        self._failed(error)

    def _refused(self, doing: str, call: GroupCall, code: int) -> None:
        """The coordinator said no."""
        member, known = self.member, error_code(code)
        unchanged = member.generation == call.generation
        if known in COORDINATOR_MOVED:
            member.lose_coordinator(known.name, call.node)
        elif known is ErrorCode.UNKNOWN_MEMBER_ID and unchanged:
            member.reset_generation(f"{known.name} while {doing}", forget_member_id=True)
        elif known is ErrorCode.ILLEGAL_GENERATION and unchanged:
            member.reset_generation(f"{known.name} while {doing}", forget_member_id=False)
        self._failed(error_for(code, self._what(doing)))

    def _failed(self, error: BaseException) -> None:
        """This attempt is over: again at once, again later, or not before the user knows."""
        member = self.member
        self.under_way = False
        self.leader.dismiss()
        code = error.code if isinstance(error, KafkaError) else None
        if code is not ErrorCode.MEMBER_ID_REQUIRED:
            member.metrics.failed_rebalance_total += 1
            name = error.name if isinstance(error, KafkaError) else type(error).__name__
            member.request_rejoin(f"rebalance failed due to {name}")
        if code in AT_ONCE:
            self.retry_ms = 0
        elif isinstance(error, KafkaError) and error.retriable:
            self.retry_ms = member.now_ms + member.backoff.backoff_ms(self._attempts)
            self._attempts += 1
        else:
            self.halted = True
            member.fail(error)

    def _what(self, doing: str) -> str:
        """For messages."""
        return f"{doing} group {self.member.config.group_id}"
