"""Asks for the offsets of a group that no open transaction may change, until they are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.testing.scheduler import MS
from odradek.testing.workload.cluster_client import GROUP, ClusterClient, CoordinatorKey

OFFSETS_VERSION = 8
NO_OFFSET = -1
AGAIN_MS = 200


def ask_offsets(
    client: ClusterClient,
    group: str,
    partitions: Sequence[TopicPartition],
    found: Callable[[dict[TopicPartition, int]], None],
) -> None:
    """Call `found` with the stable offsets, `NO_OFFSET` for none."""
    key = CoordinatorKey(GROUP, group)
    topics = [
        OffsetFetchRequestTopics(
            name=name, partition_indexes=[tp.partition for tp in partitions if tp.topic == name]
        )
        for name in dict.fromkeys(tp.topic for tp in partitions)
    ]
    request = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True
    )

    def again() -> None:
        client.process.post(
            AGAIN_MS * MS, "offset", lambda: ask_offsets(client, group, partitions, found)
        )

    def answered(response: OffsetFetchResponse) -> None:
        answer = response.groups[0]
        errors = [answer.error_code] + [
            each.error_code for topic in answer.topics for each in topic.partitions
        ]
        error = next((ErrorCode(code) for code in errors if code), ErrorCode.NONE)
        if error is not ErrorCode.NONE:
            client.process.scheduler.reach(f"transaction: OffsetFetch {error.name}")
            client.note_coordinator_error(key, error)
            again()
            return
        found(
            {
                TopicPartition(topic.name, each.partition_index): each.committed_offset
                for topic in answer.topics
                for each in topic.partitions
            }
        )

    client.call_coordinator(key, request, OFFSETS_VERSION, OffsetFetchResponse, answered, again)
