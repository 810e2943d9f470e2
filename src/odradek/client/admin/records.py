"""Records and their offsets: look up offsets, delete records."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from odradek.client.admin.calls import Calls, raise_for_code
from odradek.client.arguments import (
    ByPartition,
    PartitionLike,
    by_partition,
    checked_topics,
)
from odradek.client.arguments import partitions_of as several
from odradek.client.list_offsets import (
    EARLIEST,
    LATEST,
    ListedOffset,
    list_offsets,
    lookup_timestamp_ms,
)
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

HIGH_WATERMARK = -1


class RecordCalls(Calls):
    """The calls about records and their offsets."""

    async def partitions_of(self, topics: str | Collection[str]) -> list[TopicPartition]:
        """Return all partitions of one or several topics, sorted."""
        names = checked_topics(topics)
        found = await self.retry(lambda: self.existing_topics(names))
        return sorted(
            TopicPartition(name, each.partition_index)
            for name, topic in found.items()
            for each in topic.partitions
        )

    async def list_offsets(
        self, timestamps: ByPartition[datetime | int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        """Return for each partition the offset of the first record not older than a time (a
        datetime, or ms since 1970), or a special offset: -1 the end, -2 the start, -3 the record
        with the highest timestamp."""
        wanted = {each: requested_timestamp(at) for each, at in by_partition(timestamps).items()}
        await self.retry(lambda: self.by_leader(wanted))
        return await list_offsets(self.engine, wanted, read_committed)

    async def beginning_offsets(
        self, partitions: Iterable[PartitionLike]
    ) -> dict[TopicPartition, int]:
        """Return the log start offsets."""
        found = await self.list_offsets(dict.fromkeys(several(partitions), EARLIEST))
        return {partition: answer.offset for partition, answer in found.items()}

    async def end_offsets(self, partitions: Iterable[PartitionLike]) -> dict[TopicPartition, int]:
        """Return the high watermarks."""
        found = await self.list_offsets(dict.fromkeys(several(partitions), LATEST))
        return {partition: answer.offset for partition, answer in found.items()}

    async def delete_records(self, before: ByPartition[int]) -> dict[TopicPartition, int]:
        """Delete all records below an offset (-1: all records) of each partition; return the new
        log start offsets. Raises for the first partition that does not exist or has no such
        offset."""
        wanted = by_partition(before)
        done: dict[TopicPartition, int] = {}

        async def attempt() -> None:
            left = [partition for partition in wanted if partition not in done]
            groups = await self.by_leader(left)
            requests = {
                node_id: self._deleting({partition: wanted[partition] for partition in group})
                for node_id, group in groups.items()
            }
            answers = await self.ask_each(requests, DeleteRecordsResponse)
            found = [
                (TopicPartition(topic.name, each.partition_index), each)
                for _, answer in answers
                for topic in answer.topics
                for each in topic.partitions
            ]
            for partition, each in found:
                if each.error_code == ErrorCode.NONE:
                    done[partition] = each.low_watermark
            for partition, each in found:
                raise_for_code(
                    each.error_code,
                    f"deleting records of {partition} before offset {wanted[partition]}",
                )

        await self.retry(attempt)
        return done

    def _deleting(self, before: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
        topics: dict[str, list[DeleteRecordsPartition]] = {}
        for partition, offset in before.items():
            topics.setdefault(partition.topic, []).append(
                DeleteRecordsPartition(partition_index=partition.partition, offset=offset)
            )
        return DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=n, partitions=p) for n, p in topics.items()],
            timeout_ms=self.engine.config.request_timeout_ms,
        )


def requested_timestamp(at: object) -> int:
    """Return the timestamp of a request for a time or a special offset. Raises as
    `lookup_timestamp_ms`."""
    return at if isinstance(at, int) and at < 0 else lookup_timestamp_ms(at)
