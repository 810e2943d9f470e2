"""NoGroup: in the place of a `ConsumerGroup` where there is none.

Who subscribes without a group reads all partitions of the topics alone, also those that are added
later. Nothing is committed, nobody else is asked, and the listener hears of every partition once.
This is what kafka-python and aiokafka do; Kafka's own client refuses.

The engine's thread only, but for `for_application`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection

from odradek.client.cluster_image import ClusterImage
from odradek.client.consumer.commits import Offsets
from odradek.client.consumer.committed_offsets import Found
from odradek.client.consumer.group_effects import Callback, Occasion, Raise
from odradek.client.consumer.subscription_state import SubscriptionState, SubscriptionType
from odradek.client.engine import Engine
from odradek.client.errors import InvalidGroupId
from odradek.client.waiter import Waiter, completed, failed
from odradek.model.topics import TopicPartition

NEEDS_GROUP = "give the consumer a group.id"


class NoGroup:
    """Assigns by itself. `wanted` is told when the application must poll."""

    def __init__(
        self,
        engine: Engine,
        subscriptions: SubscriptionState,
        exclude_internal_topics: bool,
        wanted: Callable[[], object],
    ) -> None:
        self.engine = engine
        self.for_application: deque[Callback | Raise] = deque()
        self._subscriptions = subscriptions
        self._exclude_internal_topics = exclude_internal_topics
        self._wanted = wanted
        engine.metadata.listen(self._image_changed)

    def polls_seen(self) -> None:
        """Nobody minds how often the application polls."""

    def waits(self, waiting: bool) -> None:
        """Nor whether it waits in a poll."""

    def poll(self) -> None:
        """Nothing happens in a poll but what `for_application` has."""

    def callback_returned(self, error: BaseException | None) -> None:
        """What the listener raises, the application's poll raises."""
        if error is not None:
            self.for_application.append(Raise(error))

    def subscription_changed(self) -> None:
        """The application subscribed."""
        subscriptions = self._subscriptions
        by_pattern = subscriptions.type is SubscriptionType.AUTO_PATTERN
        self.engine.metadata.set_topics(subscriptions.metadata_topics, by_pattern)
        self._image_changed(self.engine.metadata.image)

    def _image_changed(self, image: ClusterImage) -> None:
        subscriptions = self._subscriptions
        if not subscriptions.is_auto_assigned:
            return
        if subscriptions.type is SubscriptionType.AUTO_PATTERN:
            subscriptions.subscribe_from_pattern(
                name
                for name, info in image.topics.items()
                if subscriptions.matches(name)
                and not (info.internal and self._exclude_internal_topics)
            )
        assigned = subscriptions.assigned_partitions
        wanted = image.partitions(sorted(subscriptions.subscription))
        # A topic that is not known for a moment is still being read.
        kept = [p for p in assigned if p.topic in subscriptions.subscription and p not in wanted]
        new = [p for p in wanted if p not in assigned]
        if new or len(kept) + len(wanted) != len(assigned):
            subscriptions.assign_from_subscribed([*kept, *wanted])
        if new:
            self.for_application.append(Callback(Occasion.ASSIGNED, new))
            self._wanted()

    def commit(self, offsets: Offsets, timeout_ms: int | None = None) -> Waiter[None]:
        """There is nowhere to commit to."""
        return failed(InvalidGroupId(f"nothing can be committed. What to do: {NEEDS_GROUP}"))

    def committed(self, partitions: Collection[TopicPartition], timeout_ms: int) -> Waiter[Found]:
        """Nothing is."""
        return completed(dict.fromkeys(partitions))

    def metrics(self) -> dict[str, float]:
        """Nothing happens that could be watched."""
        return {}

    def unsubscribe(self) -> Waiter[None]:
        """Want nothing."""
        self._subscriptions.unsubscribe()
        self.engine.metadata.set_topics(())
        return completed(None)

    def close(self, timeout_ms: int, *, inside: Callback | None = None) -> Waiter[None]:
        """Nobody has to know."""
        return completed(None)
