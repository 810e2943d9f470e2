"""The newest leader epoch that anybody told, for every partition: it never goes back (KIP-320).

An answer with an older epoch comes from a broker that is behind. For that partition it does not
count: what was known stays, or, if nothing was, there is no leader until a newer answer comes.

    epochs 5 ──answer says 4──► 5, as before ──answer says 7──► 7 ──topic made anew, says 0──► 0

A topic that was made anew has another id, and begins its epochs anew. One that is answered with an
error for a while is still the same.
"""

from __future__ import annotations

from collections.abc import Container
from uuid import UUID

from odradek.client.cluster_image import NO_EPOCH, NO_LEADER, PartitionInfo, TopicInfo
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID, TopicPartition


class LastSeenEpochs:
    """By partition; bounded by `keep`."""

    def __init__(self) -> None:
        self._epochs: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, UUID] = {}

    def get(self, partition: TopicPartition) -> int:
        """`NO_EPOCH` if nobody told one."""
        return self._epochs.get(partition, NO_EPOCH)

    def saw(self, partition: TopicPartition, epoch: int) -> bool:
        """Whether that is news."""
        if epoch <= self.get(partition):
            return False
        self._epochs[partition] = epoch
        return True

    def newest(self, topic: TopicInfo, before: TopicInfo | None) -> TopicInfo:
        """The topic as it was answered, but for partitions whose epoch would go back."""
        another = self._is_another(topic)
        for number, info in list(topic.partitions.items()):
            partition = TopicPartition(topic.name, number)
            known = NO_EPOCH if another else self.get(partition)
            if info.leader_epoch == NO_EPOCH or info.leader_epoch >= known:
                self._epochs[partition] = info.leader_epoch
                continue
            old = None if before is None else before.partitions.get(number)
            topic.partitions[number] = old or PartitionInfo(
                number, NO_LEADER, known, error=ErrorCode.LEADER_NOT_AVAILABLE
            )
        return topic

    def _is_another(self, topic: TopicInfo) -> bool:
        """Whether this is not the topic that was known by its name before."""
        if topic.topic_id == ZERO_UUID:
            return False
        known = self._topic_ids.get(topic.name, topic.topic_id)
        self._topic_ids[topic.name] = topic.topic_id
        return known != topic.topic_id

    def keep(self, topics: Container[str]) -> None:
        """Forget all other topics."""
        self._epochs = {p: epoch for p, epoch in self._epochs.items() if p.topic in topics}
        self._topic_ids = {name: i for name, i in self._topic_ids.items() if name in topics}
