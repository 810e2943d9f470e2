"""The states of a classic group, and the ways between them.

                     ┌───────────────── no member left ─────────────────┐
                     ▼                                                   │
(new) ──► Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
                     ▲       all joined,        │  leader's assignment  │
                     │       or out of time     │                       │
                     └──────────────────────────┴───────────────────────┘
                        a member joins, leaves, fails, or asks for another protocol

Dead: deleted, or this broker no longer coordinates it.

A classic group: who is in it, who leads, and what they agree on.

What is kept is a generation that its leader has assigned, or that has no members: `apply_record` makes
the group that. All the rest (a rebalance under way, with the members it has so far) is volatile,
and a crash goes back to the generation before, as in Kafka.

Invariants

- The leader is a member; there is one while there are members.
- The instance ids of the static members point to their member ids, one each.
- A pending id is no member's: it was given out, and its owner has yet to join with it.
- While there are members, some protocol is spoken by all of them, and they have one protocol type.
- Who waits for a join is there only in PreparingRebalance, for a sync in CompletingRebalance.

The groups of one shard, by id, and what the rules of the protocol are set to.

Which topics the members of a group read, as far as they tell in a language the broker knows.

Consumers put their subscription into the metadata of each protocol they speak; what other groups
(Connect, Streams, anybody's own) put there is theirs. Offsets of a topic that a group reads are
neither deleted on request nor let go with time.

A group reads what the members of its generation said when that began, as in Kafka: whoever has left
since, or says something else now, changes that with the next generation. Of a generation that was
loaded it is what is kept of its members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.coordinator.group.member import Member, Protocols, member_from_record
from odradek.coordinator.operation import Reply
from odradek.coordinator.records import (
    CoordinatorRecord,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from odradek.model.env import Random
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.model.java_hash import hash_ordered
from odradek.protocol.api.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription


class GroupState(Enum):
    """The value is how ListGroups and DescribeGroups write it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


CAN_REBALANCE = frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE})
"""From where a rebalance begins; one that is being prepared goes on."""


NONE: Final = ErrorCode.NONE
UNKNOWN_MEMBER_ID: Final = ErrorCode.UNKNOWN_MEMBER_ID


class InitialRebalanceDelay:
    """The time that a group which was empty gives to members that come together."""

    __slots__ = ("delay_ms", "member_added", "remaining_ms")

    def __init__(self, delay_ms: int, left_ms: int) -> None:
        self.delay_ms = delay_ms
        self.remaining_ms = left_ms
        """What may be added if members come."""
        self.member_added = False


class ClassicGroup:
    """One group; `state_timestamp_ms` is when it came into its state."""

    __slots__ = (
        "_protocol_counts",
        "awaiting_join",
        "generation",
        "id",
        "initial_delay",
        "leader",
        "members",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        """Empty, as one that only keeps offsets is."""
        self.id = group_id
        self.state = self.previous_state = GroupState.EMPTY
        self.state_timestamp_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.subscribed_topics: set[str] | None = None
        """What this generation reads; None: that is not known."""
        self.pending_joins: set[str] = set()
        self.pending_syncs: dict[str, None] = {}
        self.initial_delay: InitialRebalanceDelay | None = None
        self.awaiting_join = 0
        self._protocol_counts: Counter[str] = Counter()

    # -- what is kept ------------------------------------------------------------------------------

    def apply_record(self, value: GroupMetadataValue) -> None:
        """Be the generation that a record says. Members that are known keep what is volatile."""
        known = self.members
        state = GroupState.STABLE if value.members else GroupState.EMPTY
        self.transition_to(state, value.current_state_timestamp)
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol = value.protocol
        self.leader = value.leader
        self.members = {
            each.member_id: member_from_record(each, value.protocol, known.get(each.member_id))
            for each in value.members
        }
        self.static_members = {
            each.group_instance_id: each.id
            for each in self.members.values()
            if each.group_instance_id is not None
        }
        self._protocol_counts = Counter(
            name for each in self.members.values() for name in each.protocol_names
        )
        self.awaiting_join = sum(each.join is not None for each in self.members.values())
        if not self.members:
            self.update_subscribed_topics()

    def generation_record(
        self, members: Sequence[MemberMetadata], leader: str | None
    ) -> CoordinatorRecord:
        """This generation, with members and leader as they shall be."""
        return self._record(self.generation, self.protocol, leader, members)

    def empty_generation_record(self) -> CoordinatorRecord:
        """The next generation, which has no members."""
        return self._record(self.generation + 1, None, None, ())

    def new_group_record(self) -> CoordinatorRecord:
        """A group that somebody wants to join: empty, without a generation so far."""
        return self._record(0, None, None, ())

    def _record(
        self,
        generation: int,
        protocol: str | None,
        leader: str | None,
        members: Sequence[MemberMetadata],
    ) -> CoordinatorRecord:
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=generation,
            protocol=protocol,
            leader=leader,
            current_state_timestamp=self.state_timestamp_ms,
            members=list(members),
        )
        return CoordinatorRecord(GroupMetadataKey(group=self.id), value)

    # -- members -----------------------------------------------------------------------------------

    def add(self, member: Member) -> None:
        """Take a new member; the first one leads."""
        assert member.id not in self.members, member.id
        if self.leader is None:
            self.leader = member.id
        self.members[member.id] = member
        self._protocol_counts.update(member.protocol_names)
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, member.group_instance_id
            self.static_members[member.group_instance_id] = member.id
        self.pending_joins.discard(member.id)

    def remove(self, member_id: str) -> None:
        """Let a member or a pending id go; the longest member leads if it was the leader."""
        self.pending_joins.discard(member_id)
        self.pending_syncs.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._protocol_counts.subtract(member.protocol_names)
        self.awaiting_join -= member.join is not None
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: Member, member_id: str) -> Member:
        """Give the place of a static member to its next incarnation, under a new id."""
        leads = self.leader == old.id
        self.remove(old.id)
        member = Member(
            member_id,
            old.group_instance_id,
            old.client_id,
            old.client_host,
            session_timeout_ms=old.session_timeout_ms,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            protocols=old.protocols,
            assignment=old.assignment,
        )
        self.add(member)
        if leads:
            self.leader = member_id
        return member

    def update(self, member: Member, request: JoinGroupRequest) -> None:
        """A member joins again: what it speaks now, and the time it wants."""
        self._protocol_counts.subtract(member.protocol_names)
        member.protocols = request.protocols
        self._protocol_counts.update(member.protocol_names)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms

    def await_join(self, member: Member, reply: Reply[JoinGroupResponse]) -> None:
        """The member has joined."""
        self.awaiting_join += member.join is None
        member.await_join(reply)

    def pop_join(self, member: Member) -> Reply[JoinGroupResponse] | None:
        """The request that waits is about to be answered."""
        reply, member.join = member.join, None
        self.awaiting_join -= reply is not None
        return reply

    @property
    def all_joined(self) -> bool:
        """Nobody is missing for the next generation."""
        return self.awaiting_join == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that any member asked for."""
        return max([0, *(member.rebalance_timeout_ms for member in self.members.values())])

    # -- states and generations --------------------------------------------------------------------

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can begin: none is being prepared."""
        return self.state in CAN_REBALANCE

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Be in this state from now on."""
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def elect_joined_leader(self) -> bool:
        """See to it that the leader is one who has joined; False if nobody has."""
        if self.leader is None:
            return False
        if self.members[self.leader].join is None:
            joined = (member.id for member in self.members.values() if member.join is not None)
            leader = next(joined, None)
            if leader is None:
                return False
            self.leader = leader
        return True

    def init_next_generation(self, now_ms: int) -> None:
        """The members that are there are the next generation; they wait for the assignment."""
        self.generation += 1
        self.protocol = select_protocol([each.protocols for each in self.members.values()])
        self.update_subscribed_topics()
        self.transition_to(GroupState.COMPLETING_REBALANCE, now_ms)
        self.pending_syncs = dict.fromkeys(self.members)

    def update_subscribed_topics(self) -> None:
        """What the members say now is what the group reads, until the next generation."""
        members = self.members.values()
        self.subscribed_topics = decode_subscribed_topics(
            self.protocol_type, self.protocol, members
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the group reads a topic; of consumers of whom that is not known it is assumed."""
        if self.subscribed_topics is None:
            return self.protocol_type == PROTOCOL_TYPE
        return topic in self.subscribed_topics

    # -- protocols ---------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether somebody who speaks these can join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._protocol_counts[each.name] == everybody for each in protocols
        )


def select_protocol(spoken: Sequence[Protocols]) -> str:
    """The protocol that most members like best of those that all of them speak.

    Of several the one that Java's hash map would give first: a group that moves from one broker to
    another keeps its protocol.
    """
    candidates = set.intersection(*({each.name for each in protocols} for protocols in spoken))
    votes = Counter(
        next(each.name for each in protocols if each.name in candidates) for protocols in spoken
    )
    return max(hash_ordered(votes), key=lambda name: votes[name])


def member_error(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Whether somebody who says this is a member; FENCED_INSTANCE_ID: he was, and was replaced."""
    if instance_id is not None:
        known = group.static_members.get(instance_id)
        if known is None:
            return UNKNOWN_MEMBER_ID
        if known != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return NONE if member_id in group.members else UNKNOWN_MEMBER_ID


class Groups:
    """`random` draws the ids of new members."""

    def __init__(self, config: BrokerConfig, random: Random) -> None:
        self.config = config
        self._random = random
        self._groups: dict[str, ClassicGroup] = {}

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group_id: str) -> ClassicGroup | None:
        """The group, if there is one."""
        return self._groups.get(group_id)

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """A record says what the group is, or that it is no more."""
        if value is None:
            self._groups.pop(key.group, None)
            return
        self.get_or_create(key.group, value.current_state_timestamp).apply_record(value)

    def get_or_create(self, group_id: str, now_ms: int) -> ClassicGroup:
        """The group, or an empty one that has no record: it keeps offsets only."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id, now_ms)
        return group

    def new_member_id(self, prefix: str) -> str:
        """An id nobody has: client or instance id, and a random UUID."""
        return f"{prefix}-{UUID(int=self._random.getrandbits(128), version=4)}"


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that a group is no more."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


def decode_subscribed_topics(
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
