"""The topics a group member has to do with: what its pattern means, and what changed since.

The leader assigned what it knew of the cluster at that moment (`assigned`). When one of the topics
of the group gets partitions, appears or goes away, that is no longer true, and the leader joins
again so that everything is assigned anew. The other members do not watch: they need not all see
the change at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from odradek.client.consumer.group_effects import WatchTopics
from odradek.client.consumer.group_member import GroupMember
from odradek.client.consumer.subscription_state import SubscriptionState, SubscriptionType


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

    def seen(
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
