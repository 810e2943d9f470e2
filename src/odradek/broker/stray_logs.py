"""StrayLogs: logs in the data directory of partitions that this broker does not replicate.

A broker that does not run when its replica is moved away, or its topic is deleted, finds the log at
its next start:

| the committed metadata has                  | the log is                                      |
|---------------------------------------------|-------------------------------------------------|
| the partition, with other replicas          | deleted, as it would have been then             |
| no such topic; its deletion was replayed    | deleted, as it would have been then             |
| no such topic, and nothing that says why    | left in place and named: only a person can tell |

Kafka renames all of them to `-stray` and leaves the removal to a person. Here what is deleted needs
evidence in the metadata, and that is looked at only when it is caught up: metadata that was lost
makes no log a stray one. The deletions are noted while the metadata is replayed, the one of a
snapshot that the quorum sent included.
"""

from __future__ import annotations

from uuid import UUID

from odradek.controller.delta import MetadataDelta
from odradek.controller.image import MetadataImage
from odradek.log.log_directory import LogDirectory
from odradek.model.topics import TopicIdPartition


class StrayLogs:
    """The stray logs of a broker that starts. Owner thread."""

    def __init__(self, directory: LogDirectory, node_id: int) -> None:
        self._directory = directory
        self._node_id = node_id
        self._topics = {key.topic_id for key in directory.partitions}
        self._deleted: set[UUID] = set()

    def metadata_replayed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Note the topics that were deleted: a subscriber of the metadata log."""
        if self._topics:
            self._deleted.update(self._topics.intersection((*delta.deleted, *delta.passing)))

    def look(self, image: MetadataImage) -> tuple[list[TopicIdPartition], list[TopicIdPartition]]:
        """Return the logs that can be deleted, and those that no topic explains."""
        deletable, unexplained = [], []
        for key in self._directory.partitions:
            if self.reason(key, image):
                deletable.append(key)
            elif image.partition(key.topic_id, key.partition) is None:
                unexplained.append(key)
        return deletable, unexplained

    def reason(self, key: TopicIdPartition, image: MetadataImage) -> str:
        """Return why a log can be deleted; empty if it cannot, or is gone."""
        if key not in self._directory.partitions:
            return ""
        registration = image.partition(key.topic_id, key.partition)
        if registration is not None:
            if self._node_id in registration.replicas:
                return ""
            return f"its replicas are on brokers {', '.join(map(str, registration.replicas))}"
        return "its topic was deleted" if key.topic_id in self._deleted else ""
