"""Committed offsets of groups: list, set, delete; lag; going to another place."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from odradek.client.admin.calls import check
from odradek.client.admin.groups import GroupCalls
from odradek.client.admin.records import RecordCalls
from odradek.client.admin.results import Group, Lag, Member, Move, SeekPlan
from odradek.client.api_versions import RequestBuilder
from odradek.client.consumer.batch import OffsetAndMetadata, checked_offset, to_commit
from odradek.client.errors.answers import GroupNotEmpty, GroupNotFound
from odradek.client.partition_arguments import (
    ByPartition,
    PartitionLike,
    by_partition,
)
from odradek.client.partition_arguments import partitions_of as several
from odradek.model.topics import TopicPartition
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from odradek.protocol.consumer_protocol import by_topic

BY_NAME_MAX = 9
GROUPS_VERSION, ALL_TOPICS_VERSION = 8, 2
NO_OFFSET = -1
Place = int | str | datetime
"""An offset, "start", "end", or a time."""
WITHOUT_MEMBERS = ("Empty", "Dead", "")
"""States; the last is what brokers say that are too old to list them."""


class GroupOffsetCalls(GroupCalls, RecordCalls):
    """The calls about what groups have committed."""

    async def group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """All that the group has committed, sorted; nothing for a group that does not exist."""

        def build(version: int) -> OffsetFetchRequest:
            if version < GROUPS_VERSION:
                return OffsetFetchRequest(group_id=group_id, topics=None)
            group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
            return OffsetFetchRequest(groups=[group])

        request = RequestBuilder(
            OffsetFetchRequest, build, min_version=ALL_TOPICS_VERSION, max_version=BY_NAME_MAX
        )

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
            answer = await self.ask_coordinator(group_id, request, OffsetFetchResponse)
            whole = answer.groups[0] if answer.groups else answer
            check(whole.error_code, f"offsets of group {group_id}")
            found = {}
            for topic in whole.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    check(each.error_code, f"offset of group {group_id} in {partition}")
                    if each.committed_offset != NO_OFFSET:
                        found[partition] = OffsetAndMetadata(
                            each.committed_offset, each.metadata or "", each.committed_leader_epoch
                        )
            return dict(sorted(found.items()))

        return await self.retried(attempt)

    async def alter_group_offsets(
        self, group_id: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None:
        """Commit offsets for a group without members. `UnknownMember`, `RebalanceInProgress` or
        `IllegalGeneration` if it has some.
        """
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for partition, given in by_partition(offsets).items():
            offset = to_commit(given)
            topics.setdefault(partition.topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        message = OffsetCommitRequest(
            group_id=group_id,
            topics=[OffsetCommitRequestTopic(name=n, partitions=p) for n, p in topics.items()],
        )
        request = RequestBuilder(OffsetCommitRequest, lambda _: message, max_version=BY_NAME_MAX)

        async def attempt() -> None:
            answer = await self.ask_coordinator(group_id, request, OffsetCommitResponse)
            for topic in answer.topics:
                for each in topic.partitions:
                    what = f"setting the offset of group {group_id} in {topic.name}"
                    check(each.error_code, f"{what}-{each.partition_index}")

        await self.retried(attempt)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[PartitionLike]
    ) -> None:
        """Forget what a group has committed for partitions that no member reads."""
        topics = [
            OffsetDeleteRequestTopic(
                name=each.topic,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=p) for p in each.partitions
                ],
            )
            for each in by_topic(several(partitions))
        ]
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)

        async def attempt() -> None:
            answer = await self.ask_coordinator(group_id, request, OffsetDeleteResponse)
            check(answer.error_code, f"deleting offsets of group {group_id}")
            for topic in answer.topics:
                for each in topic.partitions:
                    what = f"deleting the offset of group {group_id} in {topic.name}"
                    check(each.error_code, f"{what}-{each.partition_index}")

        await self.retried(attempt)

    async def lag(self, group_id: str) -> dict[TopicPartition, Lag]:
        """How far behind a group is, in all partitions that it has committed for or reads now,
        deleted ones among them. `GroupNotFound` if there is no such group.
        """
        offsets = await self.group_offsets(group_id)
        members = await self._known_members(group_id, may_be_none=bool(offsets))
        read = {partition for member in members for partition in member.assignment}
        partitions = sorted(read | offsets.keys())
        there = await self._there_of(partitions)
        starts = await self.beginning_offsets(there)
        ends = await self.end_offsets(there)
        return {
            each: Lag(
                offsets[each].offset if each in offsets else None, starts.get(each), ends.get(each)
            )
            for each in partitions
        }

    async def _there_of(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Those that are there: members still have deleted ones until they notice."""
        names = {each.topic for each in partitions}
        topics = await self.retried(lambda: self.there(names))
        known = {
            TopicPartition(name, each.partition_index)
            for name, topic in topics.items()
            for each in topic.partitions
        }
        return [each for each in partitions if each in known]

    async def seek_group(
        self,
        group_id: str,
        to: Place | ByPartition[int],
        *,
        topics: str | Collection[str] = (),
        dry_run: bool = False,
    ) -> SeekPlan:
        """Move a group that has no members.

        `to` is "start", "end", a time (the first record at or after it), an offset (kept within
        each log), or exact offsets by partition. Where: in those partitions, or in all of `topics`,
        or wherever it has committed: what it reads and has not committed stays out. With `dry_run`
        nothing is changed, the moves are the same. `GroupNotEmpty` if the group has members: they
        would go on where they are. `GroupNotFound` if there is none, and nothing says where it
        would begin.
        """
        if not isinstance(to, Mapping):
            check_place(to)
        committed = await self.group_offsets(group_id)
        if isinstance(to, Mapping):
            targets = {each: to_commit(at).offset for each, at in by_partition(to).items()}
        else:
            if not committed and not topics:
                await self._known_members(group_id, may_be_none=False)
            wanted = await self.partitions_of(topics) if topics else list(committed)
            targets = await self._targets(wanted, to)
        if not dry_run:
            await self._refuse_members(group_id)
            if targets:
                await self.alter_group_offsets(group_id, targets)
        moves = {
            each: Move(committed[each].offset if each in committed else None, targets[each])
            for each in sorted(targets)
        }
        return SeekPlan(group_id, moves, dry_run)

    async def _known_members(self, group_id: str, *, may_be_none: bool) -> Sequence[Member]:
        """The members, as far as DescribeGroups knows them. Of a group of another protocol
        (KIP-848) it says that there is none; what such a group has committed is known all the same.
        Raises `GroupNotFound` if there is none, unless there `may_be_none`.
        """
        try:
            return (await self.group(group_id)).members
        except GroupNotFound:
            if not may_be_none and await self._listed(group_id) is None:
                raise
            return ()

    async def _listed(self, group_id: str) -> Group | None:
        """The group as it is listed, of whatever protocol."""
        return next((each for each in await self.groups() if each.group_id == group_id), None)

    async def _refuse_members(self, group_id: str) -> None:
        try:
            count = len((await self.group(group_id)).members)
            has_some = f"has {count} member{'' if count == 1 else 's'}" if count else ""
        except GroupNotFound:
            listed = await self._listed(group_id)
            state = "" if listed is None else listed.state
            has_some = "" if state in WITHOUT_MEMBERS else f"is {state}, so it has members"
        if has_some:
            raise GroupNotEmpty(
                f"group {group_id} {has_some}, which would go on where they are. "
                f"What to do: {GroupNotEmpty.advice}."
            )

    async def _targets(
        self, partitions: Collection[TopicPartition], to: Place
    ) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        ends = await self.end_offsets(partitions)
        if to == "end":
            return ends
        if isinstance(to, datetime):
            found = await self.list_offsets(dict.fromkeys(partitions, to))
            return {p: ends[p] if each.offset < 0 else each.offset for p, each in found.items()}
        starts = await self.beginning_offsets(partitions)
        if to == "start":
            return starts
        offset = checked_offset(to)
        return {each: min(max(offset, starts[each]), ends[each]) for each in partitions}


def check_place(to: object) -> None:
    """Raises `ValueError` for what is no place to move a group to."""
    is_offset = isinstance(to, int) and not isinstance(to, bool) and to >= 0
    if not is_offset and not isinstance(to, datetime) and to not in ("start", "end"):
        raise ValueError(
            f'a group cannot be moved to {to!r}. What to do: write "start", "end", a datetime, an '
            "offset from 0 on, or offsets by partition"
        )
