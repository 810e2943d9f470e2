"""Classic groups: members, leader, generation and protocol; the states of a group; all groups of a
shard.

                     ┌───────────────── no member left ─────────────────┐
                     ▼                                                   │
(new) ──► Empty ──► PreparingRebalance ──► CompletingRebalance ──► Stable
                     ▲       all joined,        │  leader's assignment  │
                     │       or out of time     │                       │
                     └──────────────────────────┴───────────────────────┘
                        a member joins, leaves, fails, or asks for another protocol

Dead: deleted, or this broker no longer coordinates it.

The log keeps a generation that its leader has assigned, or one without members: `apply_record`
restores it. Everything else (a rebalance in progress and the members that have joined it) is
volatile: after a crash the group is back in the generation before, as in Kafka.

Invariants

- The leader is a member; there is one while there are members.
- The instance ids of the static members map to their member ids, one each.
- A pending id belongs to no member: it was given out, and its owner has yet to join with it.
- While there are members, all of them support some protocol, and they have one protocol type.
- A member waits for its join only in PreparingRebalance, for its sync only in CompletingRebalance.

Subscriptions. Consumers put their subscription into the metadata of each protocol they support;
other groups (Connect, Streams, applications of their own) put other data there. Offsets of a topic
that a group subscribes to are neither deleted on request nor expired. The subscription of a group
is that of its members when the generation began, as in Kafka: what changes later counts from the
next generation on. A loaded generation takes it from the members in its record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Final
from uuid import UUID

from odradek.config.broker import BrokerConfig
from odradek.coordinator.group.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from odradek.coordinator.group.member import Member, Protocols, member_from_record
from odradek.coordinator.group.transitions import GroupTransitions
from odradek.coordinator.operation import Reply
from odradek.coordinator.records import CoordinatorRecord
from odradek.model.env import Random
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.model.java_hash import hash_ordered
from odradek.protocol.api.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.consumer_protocol import PROTOCOL_TYPE, decode_subscription


class GroupState(Enum):
    """The values are the names in ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


CAN_REBALANCE = frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE})
"""States in which a rebalance can begin."""


NONE: Final = ErrorCode.NONE
UNKNOWN_MEMBER_ID: Final = ErrorCode.UNKNOWN_MEMBER_ID


class InitialRebalanceDelay:
    """The delay of the first rebalance of an empty group, so that members can join together."""

    __slots__ = ("delay_ms", "member_added", "remaining_ms")

    def __init__(self, delay_ms: int, left_ms: int) -> None:
        self.delay_ms = delay_ms
        self.remaining_ms = left_ms
        """The time by which the delay may be extended when members join."""
        self.member_added = False


class ClassicGroup:
    """One group; `state_timestamp_ms` is the time of its last change of state."""

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
        "transitions",
    )

    def __init__(self, group_id: str, now_ms: int) -> None:
        """An empty group, like one that only has committed offsets."""
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
        """The topics that this generation subscribes to; None if unknown."""
        self.pending_joins: set[str] = set()
        self.pending_syncs: dict[str, None] = {}
        self.initial_delay: InitialRebalanceDelay | None = None
        self.awaiting_join = 0
        self.transitions: GroupTransitions | None = None
        """Where changes of state are noted; None while the group is loaded."""
        self._protocol_counts: Counter[str] = Counter()

    # -- records -----------------------------------------------------------------------------------

    def apply_record(self, value: GroupMetadataValue) -> None:
        """Become the generation of a record. Known members keep their volatile state."""
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
        """The record of this generation with these members and this leader."""
        return self._record(self.generation, self.protocol, leader, members)

    def empty_generation_record(self) -> CoordinatorRecord:
        """The record of the next generation, which has no members."""
        return self._record(self.generation + 1, None, None, ())

    def new_group_record(self) -> CoordinatorRecord:
        """The record of a new group: empty, in generation 0."""
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
        """Add a member; the first one becomes the leader."""
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
        """Remove a member or a pending id. The oldest member left replaces a leader."""
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
        """Replace a static member by its next incarnation, which has a new id. Return that."""
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
        """Take over the protocols and timeouts of a member that joins again."""
        self._protocol_counts.subtract(member.protocol_names)
        member.protocols = request.protocols
        self._protocol_counts.update(member.protocol_names)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms

    def await_join(self, member: Member, reply: Reply[JoinGroupResponse]) -> None:
        """Note that the member has joined, and keep the reply until the generation begins."""
        self.awaiting_join += member.join is None
        member.await_join(reply)

    def pop_join(self, member: Member) -> Reply[JoinGroupResponse] | None:
        """Take the reply of a member's waiting join, if there is one, in order to answer it."""
        reply, member.join = member.join, None
        self.awaiting_join -= reply is not None
        return reply

    @property
    def all_joined(self) -> bool:
        """True if all members have joined and no pending id is left."""
        return self.awaiting_join == len(self.members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max([0, *(member.rebalance_timeout_ms for member in self.members.values())])

    # -- states and generations --------------------------------------------------------------------

    @property
    def can_rebalance(self) -> bool:
        """True if a rebalance can begin: none is being prepared."""
        return self.state in CAN_REBALANCE

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        """Change the state."""
        self.previous_state, self.state = self.state, state
        self.state_timestamp_ms = now_ms

    def note_transition(self, now_ms: int, reason: str, to_state: GroupState | None = None) -> None:
        """Note the last change of state with its reason; or one to `to_state`, of a group that is
        removed."""
        if self.transitions is not None:
            if to_state is None:
                states = self.previous_state.value, self.state.value
            else:
                states = self.state.value, to_state.value
            counts = len(self.members), len(self.pending_joins)
            self.transitions.note(now_ms, self.id, states, self.generation, counts, reason)

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader, if it is not. False if none has joined."""
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
        """Begin the next generation with the present members; they wait for the assignment."""
        self.generation += 1
        self.protocol = select_protocol([each.protocols for each in self.members.values()])
        self.update_subscribed_topics()
        self.transition_to(GroupState.COMPLETING_REBALANCE, now_ms)
        self.pending_syncs = dict.fromkeys(self.members)

    def update_subscribed_topics(self) -> None:
        """Take the group's subscription from the members, until the next generation."""
        members = self.members.values()
        self.subscribed_topics = decode_subscribed_topics(
            self.protocol_type, self.protocol, members
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """True if the group subscribes to a topic, or if that is unknown of a consumer group."""
        if self.subscribed_topics is None:
            return self.protocol_type == PROTOCOL_TYPE
        return topic in self.subscribed_topics

    # -- protocols ---------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """True if a member with this protocol type and one of these protocols can join."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        everybody = len(self.members)
        return self.protocol_type == protocol_type and any(
            self._protocol_counts[each.name] == everybody for each in protocols
        )


def select_protocol(spoken: Sequence[Protocols]) -> str:
    """Return the protocol with the most votes among those that all members support.

    Each member votes for the first of its list. Of equals it is the one that Java's hash map
    iterates first, so a group keeps its protocol when it moves between brokers.
    """
    candidates = set.intersection(*({each.name for each in protocols} for protocols in spoken))
    votes = Counter(
        next(each.name for each in protocols if each.name in candidates) for protocols in spoken
    )
    return max(hash_ordered(votes), key=lambda name: votes[name])


def member_error(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """NONE if this is a member of the group, else the error for its request.

    FENCED_INSTANCE_ID: another member has the instance id now.
    """
    if instance_id is not None:
        known = group.static_members.get(instance_id)
        if known is None:
            return UNKNOWN_MEMBER_ID
        if known != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return NONE if member_id in group.members else UNKNOWN_MEMBER_ID


class Groups:
    """The groups of one shard by id. `random` draws the ids of new members."""

    def __init__(
        self, config: BrokerConfig, random: Random, transitions: GroupTransitions | None = None
    ) -> None:
        self.config = config
        self._random = random
        self._transitions = transitions
        self._loaded = False
        self._groups: dict[str, ClassicGroup] = {}

    def __iter__(self) -> Iterator[ClassicGroup]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group_id: str) -> ClassicGroup | None:
        """The group, or None."""
        return self._groups.get(group_id)

    def replay(self, key: GroupMetadataKey, value: GroupMetadataValue | None) -> None:
        """Apply a record: a generation of the group, or None, which removes it."""
        if value is None:
            self._groups.pop(key.group, None)
            return
        self.get_or_create(key.group, value.current_state_timestamp).apply_record(value)

    def get_or_create(self, group_id: str, now_ms: int) -> ClassicGroup:
        """The group; if there is none a new, empty one, which has committed offsets only."""
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id, now_ms)
            if self._loaded:
                group.transitions = self._transitions
        return group

    def loaded(self) -> None:
        """Note changes of state from now on: all records are replayed."""
        self._loaded = True
        for group in self:
            group.transitions = self._transitions

    def new_member_id(self, prefix: str) -> str:
        """A unique member id: the client id or instance id, and a random UUID."""
        return f"{prefix}-{UUID(int=self._random.getrandbits(128), version=4)}"


def group_tombstone(group_id: str) -> CoordinatorRecord:
    """The record that removes a group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), None)


def decode_subscribed_topics(
    protocol_type: str | None, protocol: str | None, members: Iterable[Member]
) -> set[str] | None:
    """The topics that all members subscribe to; None if they cannot be decoded."""
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
