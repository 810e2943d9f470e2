"""GroupLeader: the leader of a group computes the assignments of all members.

    assign_as_leader ─► watch the topics of all members ─► known ─► assign ─► ready (or failed)

The leader needs up-to-date metadata of all topics before it assigns, or it would have to assign
again right after. A static member that comes back as leader is told to skip the assignment: the old
one stands.

The leader checks the assignor's result against the rule of the cooperative protocol: a partition
must not go to a new owner before the old one has revoked it.

`GroupTopics` keeps the cluster's partition counts. The leader's assignment holds for the counts it
used (`assigned`). When a topic of the group gets partitions, appears or disappears, the leader
rejoins so that everything is assigned again. The other members do not watch, because members need
not see a change at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.consumer.assignor.partition_assignor import PartitionAssignor, RebalanceProtocol
from odradek.client.consumer.assignor.sticky import CooperativeStickyAssignor, moving_between
from odradek.client.consumer.group.member import GroupMember, WatchTopics
from odradek.client.consumer.position.subscription_state import SubscriptionState, SubscriptionType
from odradek.client.errors import InconsistentGroupProtocol
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.protocol.api.join_group import JoinGroupResponse
from odradek.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
)

log = logging.getLogger(__name__)


class GroupTopics:
    """The topics of interest and their partitions, as of the last metadata."""

    def __init__(self, member: GroupMember, subscriptions: SubscriptionState) -> None:
        self.member = member
        self.subscriptions = subscriptions
        self.counts: Mapping[str, int] = {}
        """Partition counts of the topics that exist."""
        self.assigned: dict[str, int] | None = None
        """The counts for which this member assigned as leader; None for other members."""
        self.pattern_is_known = False
        """True if the topics that match the pattern were looked up since it was subscribed to."""

    def update(
        self, counts: Mapping[str, int], internal: Collection[str], *, up_to_date: bool
    ) -> None:
        """Take the cluster's topics; `up_to_date` unless newer metadata was requested."""
        self.counts = counts
        if self.subscriptions.type is SubscriptionType.AUTO_PATTERN:
            excluded = internal if self.member.config.exclude_internal_topics else ()
            matching = [t for t in counts if self.subscriptions.matches(t) and t not in excluded]
            if self.subscriptions.subscribe_from_pattern(matching):
                self.watch()
            self.pattern_is_known = self.pattern_is_known or up_to_date

    def watch(self) -> None:
        """Request `WatchTopics`: the topics of interest may have changed."""
        self.member.effects.append(WatchTopics())

    def snapshot(self) -> dict[str, int]:
        """Return the partition counts of the topics of interest that exist."""
        topics = self.subscriptions.metadata_topics
        return {topic: count for topic, count in self.counts.items() if topic in topics}

    def changed_since_assigned(self) -> bool:
        """True if the leader must assign again."""
        return self.assigned is not None and self.assigned != self.snapshot()


class AssignorError(Exception):
    """An assignor broke a rule of the rebalance protocol."""


class LeaderParts(NamedTuple):
    """The collaborators of a group leader."""

    topics: GroupTopics
    assignors: Sequence[PartitionAssignor]
    protocol: RebalanceProtocol


class GroupLeader:
    """A member's work as leader of its group; idle while it is not."""

    def __init__(
        self,
        parts: LeaderParts,
        ready: Callable[[Mapping[str, bytes]], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.topics = parts.topics
        self.assignors = {assignor.name: assignor for assignor in parts.assignors}
        self.protocol = parts.protocol
        self.is_leader = False
        """True since this member last became leader, until the next rebalance."""
        self._ready = ready
        self._failed = failed
        self._join_response: JoinGroupResponse | None = None
        self._subscriptions: dict[str, Subscription] = {}
        self._assignments: Mapping[str, Assignment] | None = None

    def assign_as_leader(self, response: JoinGroupResponse) -> None:
        """Lead the generation of this JoinGroup response; `ready` or `failed` follows."""
        try:
            self._subscriptions = {
                each.member_id: decode_subscription(each.metadata, each.group_instance_id)
                for each in response.members
            }
        except ProtocolError as error:
            self._failed(error)
            return
        self._join_response = response
        self._assignments = None
        self.is_leader = True
        self._watch(topic for each in self._subscriptions.values() for topic in each.topics)

    def cancel(self) -> None:
        """Stop assigning: the rebalance failed."""
        self._join_response = None

    def cluster_seen(self, *, up_to_date: bool) -> None:
        """Assign, if the metadata is up to date and this member is to assign."""
        if self._join_response is None or not up_to_date:
            return
        try:
            encoded = self._make_assignments(self._join_response)
        except Exception as error:
            log.exception("assignor %s raised an error", self._join_response.protocol_name)
            self._join_response = None
            self._failed(error)
            return
        if encoded is not None:
            self.topics.assigned = self.topics.snapshot()
            self._join_response = None
            self._ready(encoded)

    def _make_assignments(self, joined: JoinGroupResponse) -> dict[str, bytes] | None:
        """Return the encoded assignments; None if the metadata of more topics is needed first."""
        if joined.skip_assignment:
            return {}
        if self._assignments is None:
            self._assignments = self._assign(joined)
            subscribed = {t for each in self._subscriptions.values() for t in each.topics}
            given = {p.topic for each in self._assignments.values() for p in each.partitions}
            if not given <= subscribed:
                # The assignor may assign other topics; their changes matter too.
                self._watch(subscribed | given)
                return None
        return {member: encode_assignment(got) for member, got in self._assignments.items()}

    def _assign(self, joined: JoinGroupResponse) -> Mapping[str, Assignment]:
        assignor = self.assignors.get(joined.protocol_name or "")
        if assignor is None:
            raise InconsistentGroupProtocol(
                f"the coordinator chose assignor {joined.protocol_name!r}, which this member "
                f"did not offer: {InconsistentGroupProtocol.advice}",
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            )
        subscribed = dict.fromkeys(t for each in self._subscriptions.values() for t in each.topics)
        counts = {
            topic: self.topics.counts[topic] for topic in subscribed if topic in self.topics.counts
        }
        for topic in subscribed:
            if topic not in counts:
                log.info("no partitions of topic %s are assigned: it does not exist", topic)
        assignments = assignor.assign(counts, self._subscriptions)
        self._check_assignments(assignor, assignments)
        return assignments

    def _check_assignments(
        self, assignor: PartitionAssignor, assignments: Mapping[str, Assignment]
    ) -> None:
        """Raises `AssignorError`. The built-in cooperative assignor is exempt: it knows
        generations, this check only knows claims.
        """
        if not assignments.keys() <= self._subscriptions.keys():
            unknown = sorted(assignments.keys() - self._subscriptions.keys())
            raise AssignorError(
                f"assignor {assignor.name} assigns to {unknown}, which are not members of the group"
            )
        built_in = isinstance(assignor, CooperativeStickyAssignor)
        if self.protocol is not RebalanceProtocol.COOPERATIVE or built_in:
            return
        shares = {member: got.partitions for member, got in assignments.items()}
        moving = moving_between(shares, self._subscriptions)
        if moving:
            raise AssignorError(
                f"assignor {assignor.name} gives {sorted(moving)[0]} to a new owner before the old "
                f"one has revoked it, which cooperative rebalances forbid. What to do: withhold it "
                f"for one rebalance, or support the eager protocol only"
            )

    def _watch(self, topics: Iterable[str]) -> None:
        self.topics.subscriptions.group_subscribe(topics)
        self.topics.watch()
