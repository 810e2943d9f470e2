"""The topics a group member has to do with: what its pattern means, and what changed since.

The leader assigned what it knew of the cluster at that moment (`assigned`). When one of the topics
of the group gets partitions, appears or goes away, that is no longer true, and the leader joins
again so that everything is assigned anew. The other members do not watch: they need not all see
the change at once.

The leader's work: everybody's subscriptions in, everybody's assignments out.

    elected ─► watch the topics of all members ─► known ─► assign ─► ready (or failed)

The leader must know of all topics as they are now before it assigns, or it would assign again right
after. A static member that comes back as leader is told to skip it: the assignment stands.

The result is checked for what the cooperative protocol demands of an assignor: that nobody gets a
partition which its owner has not given up yet.
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


class GroupTopics:
    """The partitions of the topics of interest, as of the last news of the cluster."""

    def __init__(self, member: GroupMember, subscriptions: SubscriptionState) -> None:
        self.member = member
        self.subscriptions = subscriptions
        self.counts: Mapping[str, int] = {}
        """Partitions by topic, of those that exist."""
        self.assigned: dict[str, int] | None = None
        """What this member, as leader, assigned; None for other members."""
        self.pattern_is_known = False
        """Whether the topics that the pattern means were looked up since it was subscribed to."""

    def update(
        self, counts: Mapping[str, int], internal: Collection[str], *, up_to_date: bool
    ) -> None:
        """News of the cluster; `up_to_date` unless newer ones have been asked for."""
        self.counts = counts
        if self.subscriptions.type is SubscriptionType.AUTO_PATTERN:
            excluded = internal if self.member.config.exclude_internal_topics else ()
            matching = [t for t in counts if self.subscriptions.matches(t) and t not in excluded]
            if self.subscriptions.subscribe_from_pattern(matching):
                self.watch()
            self.pattern_is_known = self.pattern_is_known or up_to_date

    def watch(self) -> None:
        """The topics of interest may be others now."""
        self.member.effects.append(WatchTopics())

    def snapshot(self) -> dict[str, int]:
        """The topics of interest that exist, with their partitions."""
        topics = self.subscriptions.metadata_topics
        return {topic: count for topic, count in self.counts.items() if topic in topics}

    def changed_since_assigned(self) -> bool:
        """Whether the leader has to assign anew."""
        return self.assigned is not None and self.assigned != self.snapshot()


log = logging.getLogger(__name__)


class AssignorError(Exception):
    """An assignor did what the rebalance protocol forbids."""


class LeaderParts(NamedTuple):
    """What a leader works with."""

    topics: GroupTopics
    assignors: Sequence[PartitionAssignor]
    protocol: RebalanceProtocol


class GroupLeader:
    """What a member does for its group while it leads. Idle in between."""

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
        """Since the last rebalance began."""
        self._ready = ready
        self._failed = failed
        self._join_response: JoinGroupResponse | None = None
        self._subscriptions: dict[str, Subscription] = {}
        self._assignments: Mapping[str, Assignment] | None = None

    def assign_as_leader(self, response: JoinGroupResponse) -> None:
        """This member leads the generation; `ready` or `failed` follows."""
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
        """The rebalance came to nothing."""
        self._join_response = None

    def cluster_seen(self, *, up_to_date: bool) -> None:
        """The topics are known, or known better."""
        if self._join_response is None or not up_to_date:
            return
        try:
            encoded = self._make_assignments(self._join_response)
        except Exception as error:
            log.exception("assignor %s failed", self._join_response.protocol_name)
            self._join_response = None
            self._failed(error)
            return
        if encoded is not None:
            self.topics.assigned = self.topics.snapshot()
            self._join_response = None
            self._ready(encoded)

    def _make_assignments(self, joined: JoinGroupResponse) -> dict[str, bytes] | None:
        """The assignments; None if more topics have to be known first."""
        if joined.skip_assignment:
            return {}
        if self._assignments is None:
            self._assignments = self._assign(joined)
            wanted = {t for each in self._subscriptions.values() for t in each.topics}
            given = {p.topic for each in self._assignments.values() for p in each.partitions}
            if not given <= wanted:
                # The assignor knows what it does; its changes must be seen as well.
                self._watch(wanted | given)
                return None
        return {member: encode_assignment(got) for member, got in self._assignments.items()}

    def _assign(self, joined: JoinGroupResponse) -> Mapping[str, Assignment]:
        assignor = self.assignors.get(joined.protocol_name or "")
        if assignor is None:
            raise InconsistentGroupProtocol(
                f"the coordinator chose assignor {joined.protocol_name!r}, of which this member "
                f"did not speak: {InconsistentGroupProtocol.advice}",
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            )
        wanted = dict.fromkeys(t for each in self._subscriptions.values() for t in each.topics)
        counts = {
            topic: self.topics.counts[topic] for topic in wanted if topic in self.topics.counts
        }
        for topic in wanted:
            if topic not in counts:
                log.info("no partitions of topic %s are assigned: it does not exist", topic)
        assignments = assignor.assign(counts, self._subscriptions)
        self._check_assignments(assignor, assignments)
        return assignments

    def _check_assignments(
        self, assignor: PartitionAssignor, assignments: Mapping[str, Assignment]
    ) -> None:
        """Raises `AssignorError`. The built-in assignor knows generations, so it may judge better
        than a look at who claims what."""
        if not assignments.keys() <= self._subscriptions.keys():
            unknown = sorted(assignments.keys() - self._subscriptions.keys())
            raise AssignorError(
                f"assignor {assignor.name} assigns to {unknown}, who are no members"
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
