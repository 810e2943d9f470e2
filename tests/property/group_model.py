"""Simulated group members that follow the protocol loosely: they crash, delay and return.

A member acts on the responses that it got. A `Ledger` records which member was assigned which
partition: a leader divides eight partitions among the members it knows, each to exactly one.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.coordinator.group.member import Caller
from odradek.model.errors import ErrorCode
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.api.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.api.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from transcripts.group_stage import Stage

GROUP = "g"
PARTITIONS = range(8)
SESSION_MS, REBALANCE_MS = 10_000, 30_000
GIVE_UP = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    }
)


class Ledger:
    """Records, by generation, the owner of each partition and the leader; static members by
    instance.

    It also records requests without a response and the confirmed offsets.
    """

    def __init__(self) -> None:
        self.owners: dict[tuple[int, int], str] = {}
        self.leaders: dict[int, str] = {}
        self.unanswered: dict[int, str] = {}
        self.confirmed: dict[int, int] = {}
        self._asked = 0

    def register_request(self, what: str) -> Callable[[], None]:
        """Register a request; the returned function takes its response, exactly once."""
        self._asked += 1
        number = self._asked
        self.unanswered[number] = what

        def answered() -> None:
            assert number in self.unanswered, f"{what} was answered twice, or by a dead broker"
            del self.unanswered[number]

        return answered

    def leads(self, generation: int, who: str) -> None:
        leader = self.leaders.setdefault(generation, who)
        assert leader == who, f"{leader} and {who} lead generation {generation}"

    def confirm(self, offset: int) -> None:
        """Record the committed offsets of all partitions."""
        for partition in PARTITIONS:
            self.confirmed[partition] = max(offset, self.confirmed.get(partition, 0))

    def broker_died(self, generation: int) -> None:
        """Drop pending requests, and generations that were not persisted."""
        self.unanswered.clear()
        self.leaders = {each: who for each, who in self.leaders.items() if each <= generation}

    def record_assignment(self, generation: int, who: str, assignment: bytes) -> None:
        for partition in assignment:
            owner = self.owners.setdefault((generation, partition), who)
            assert owner == who, f"{partition} of generation {generation}: {owner} and {who}"


class FlakyMember:
    """One client. With an instance name it is a static member."""

    def __init__(
        self, stage: Stage, ledger: Ledger, name: str, instance: str | None, spoken: tuple[str, ...]
    ) -> None:
        self.stage = stage
        self.ledger = ledger
        self.name = name
        self.instance = instance
        self.spoken = spoken
        self.says = b"topics"
        self.member_id = ""
        self.generation = -1
        self.protocol: str | None = None
        self.shares: dict[str, bytes] = {}
        self.assignment: bytes | None = None
        self.life = 0
        self.past: tuple[int, str, dict[str, bytes]] | None = None

    def begin_anew(self) -> None:
        """Start a new process: responses to the old one are dropped."""
        self.life += 1
        self.member_id = ""
        self.forget()

    def forget(self) -> None:
        self.generation = -1
        self.assignment = None

    def react(self, error: ErrorCode) -> None:
        """React to an error as a client does: an unknown member starts anew, others rejoin."""
        if error in GIVE_UP:
            if error is not ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""
            self.forget()

    def join(self, version: int = 9) -> None:
        life = self.life
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self.says) for name in self.spoken
            ],
        )
        done = self.ledger.register_request(f"{self.name} joins")

        def answered(response: JoinGroupResponse) -> None:
            done()
            if life != self.life:
                return
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
            elif response.error_code:
                self.react(ErrorCode(response.error_code))
            else:
                self.joined(response)

        caller = Caller(self.name, "/host", version)
        self.stage.groups.join_group(request, caller, answered)

    def joined(self, response: JoinGroupResponse) -> None:
        if response.generation_id != self.generation:
            self.assignment = None
            if self.generation >= 0:
                self.past = self.generation, self.member_id, self.shares
        self.member_id = response.member_id
        self.generation = response.generation_id
        self.protocol = response.protocol_name
        self.shares = {}
        if response.leader == self.member_id:
            self.ledger.leads(response.generation_id, self.instance or self.member_id)
        if response.members and not response.skip_assignment:
            members = [each.member_id for each in response.members]
            assert response.leader == self.member_id in members
            self.shares = {
                member: bytes(PARTITIONS[at :: len(members)]) for at, member in enumerate(members)
            }

    def sync(self) -> None:
        self._sync(self.generation, self.member_id, self.shares)

    def sync_late(self) -> None:
        """Send a delayed SyncGroup of an old generation."""
        if self.past is not None:
            self._sync(*self.past)

    def _sync(self, generation: int, member_id: str, shares: dict[str, bytes]) -> None:
        life = self.life
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name=self.protocol or "none",
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=share)
                for member, share in shares.items()
            ],
        )
        done = self.ledger.register_request(f"{self.name} syncs in {generation}")

        def answered(response: SyncGroupResponse) -> None:
            done()
            if response.error_code == ErrorCode.NONE:
                who = self.instance or member_id
                self.ledger.record_assignment(generation, who, response.assignment)
            if life != self.life or generation != self.generation or member_id != self.member_id:
                return
            self.react(ErrorCode(response.error_code))
            if response.error_code == ErrorCode.NONE:
                self.assignment = response.assignment

        self.stage.groups.sync_group(request, 5, answered)

    def beat(self) -> None:
        life = self.life
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        done = self.ledger.register_request(f"{self.name} beats")

        def answered(response: HeartbeatResponse) -> None:
            done()
            if life == self.life:
                self.react(ErrorCode(response.error_code))
                if response.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                    self.forget()

        self.stage.groups.heartbeat(request, answered)

    def commit(self, offset: int) -> None:
        """Commit the offsets of all partitions, whether owned or not."""
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=None,
                        )
                        for partition in PARTITIONS
                    ],
                )
            ],
        )
        done = self.ledger.register_request(f"{self.name} commits {offset}")

        def answered(response: OffsetCommitResponse) -> None:
            done()
            errors = {each.error_code for each in response.topics[0].partitions}
            assert len(errors) == 1
            if errors == {ErrorCode.NONE}:
                self.ledger.confirm(offset)

        self.stage.groups.commit_offsets(request, 9, answered)

    def leave(self) -> None:
        member = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        done = self.ledger.register_request(f"{self.name} leaves")

        def answered(response: LeaveGroupResponse) -> None:
            done()

        self.stage.groups.leave_group(LeaveGroupRequest(group_id=GROUP, members=[member]), answered)
        self.begin_anew()

    def do_what_is_next(self) -> None:
        """Take the next step of a well-behaved client."""
        if self.generation < 0:
            self.join()
        elif self.assignment is None:
            self.sync()
        else:
            self.beat()
