"""Consumer groups: list, describe, delete; their committed offsets and lag; moving a group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from odradek.client.admin.calls import raise_for_code
from odradek.client.admin.records import RecordCalls
from odradek.client.admin.results import Group, GroupDescription, Lag, Member, Move, SeekPlan
from odradek.client.arguments import ByPartition, PartitionLike, by_partition, texts_of
from odradek.client.arguments import partitions_of as several
from odradek.client.consumer.batch import OffsetAndMetadata, checked_offset, to_commit
from odradek.client.errors import GroupNotEmpty, GroupNotFound, KafkaError, error_for
from odradek.client.waiter import gather, spawn
from odradek.model.errors import ErrorCode, ProtocolError
from odradek.model.topics import TopicPartition
from odradek.network_client.api_versions import RequestBuilder
from odradek.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.api.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
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
from odradek.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, group_by_topic

DEAD = "Dead"
STATES_VERSION, TYPES_VERSION = 4, 5
BY_NAME_MAX = 9
GROUPS_VERSION, ALL_TOPICS_VERSION = 8, 2
NO_OFFSET = -1
SeekTarget = int | str | datetime
"""The target of `seek_group`: an offset, "start", "end", or a time."""
WITHOUT_MEMBERS = ("Empty", "Dead", "")
"""States without members; "" comes from brokers that do not list states."""


class GroupCalls(RecordCalls):
    """The calls about groups, their members and their committed offsets.

    Lag and `seek_group` compare these with the logs: hence the calls about records.
    """

    async def groups(
        self,
        broker_ids: int | Collection[int] | None = None,
        *,
        states: str | Collection[str] = (),
        types: str | Collection[str] = (),
    ) -> list[Group]:
        """Return the groups that one or several brokers (None: all) coordinate, sorted; if given,
        only those in one of `states` (`Stable`, `Empty` …) and of one of `types` (`classic`,
        `consumer` …)."""
        wanted_states, wanted_types = texts_of("state", states), texts_of("type", types)
        lowest = TYPES_VERSION if wanted_types else STATES_VERSION if wanted_states else 0
        request = RequestBuilder(
            ListGroupsRequest,
            lambda version: ListGroupsRequest(
                states_filter=wanted_states if version >= STATES_VERSION else [],
                types_filter=wanted_types if version >= TYPES_VERSION else [],
            ),
            min_version=lowest,
        )

        async def attempt() -> list[Group]:
            brokers = await self.named_brokers(broker_ids, "groups")
            answers = await self.ask_each(dict.fromkeys(brokers, request), ListGroupsResponse)
            for node_id, answer in answers:
                raise_for_code(answer.error_code, f"listing the groups of broker {node_id}")
            return sorted(
                {
                    Group(each.group_id, each.group_state, each.group_type, each.protocol_type)
                    for _, answer in answers
                    for each in answer.groups
                },
                key=lambda group: group.group_id,
            )

        return await self.retry(attempt)

    async def group(self, group_id: str) -> GroupDescription:
        """Return one group with its members. Raises `GroupNotFound`."""

        async def attempt() -> GroupDescription:
            request = DescribeGroupsRequest(groups=[group_id])
            answer = await self.ask_coordinator(group_id, request, DescribeGroupsResponse)
            group = answer.groups[0]
            raise_for_code(group.error_code, f"group {group_id}", group.error_message)
            if group.group_state == DEAD:  # The answer for unknown groups before DescribeGroups 6.
                raise error_for(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id}")
            return description_of(group)

        return await self.retry(attempt)

    async def describe_groups(self, group_ids: str | Iterable[str]) -> dict[str, GroupDescription]:
        """Return several groups, requested all at once. Raises for the first that does not
        exist."""
        names = dict.fromkeys(texts_of("group", group_ids))
        waiters = {each: spawn(self.group(each)) for each in names}
        await gather(list(waiters.values()))
        return {group_id: waiter.result() for group_id, waiter in waiters.items()}

    async def delete_group(self, group_id: str, *, missing_ok: bool = False) -> bool:
        """Delete a group without members, with its offsets. Returns True; if there is no such
        group, raises `GroupNotFound`, or returns False with `missing_ok`. Raises `GroupNotEmpty` if
        it has members."""

        async def attempt() -> None:
            request = DeleteGroupsRequest(groups_names=[group_id])
            answer = await self.ask_coordinator(group_id, request, DeleteGroupsResponse)
            for each in answer.results:
                raise_for_code(each.error_code, f"deleting group {group_id}", each.error_message)

        try:
            await self.retry(attempt)
        except GroupNotFound:
            if not missing_ok:
                raise
            return False
        return True

    async def delete_groups_many(
        self, group_ids: str | Iterable[str]
    ) -> dict[str, KafkaError | None]:
        """Delete several groups, all at once. Returns None or the error for each."""
        names = dict.fromkeys(texts_of("group", group_ids))
        waiters = {each: spawn(self.delete_group(each)) for each in names}
        await gather(list(waiters.values()))
        failed: dict[str, KafkaError | None] = {}
        for group_id, waiter in waiters.items():
            if waiter.error is not None and not isinstance(waiter.error, KafkaError):
                raise waiter.error
            failed[group_id] = waiter.error
        return failed

    # -- committed offsets -------------------------------------------------------------------------

    async def group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets, sorted; an unknown group has none."""

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
            group = answer.groups[0] if answer.groups else answer
            raise_for_code(group.error_code, f"offsets of group {group_id}")
            found = {}
            for topic in group.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    raise_for_code(each.error_code, f"offset of group {group_id} in {partition}")
                    if each.committed_offset != NO_OFFSET:
                        found[partition] = OffsetAndMetadata(
                            each.committed_offset, each.metadata or "", each.committed_leader_epoch
                        )
            return dict(sorted(found.items()))

        return await self.retry(attempt)

    async def alter_group_offsets(
        self, group_id: str, offsets: ByPartition[int | OffsetAndMetadata]
    ) -> None:
        """Commit offsets for a group without members. Raises `UnknownMember`, `RebalanceInProgress`
        or `IllegalGeneration` if it has members."""
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
                    raise_for_code(each.error_code, f"{what}-{each.partition_index}")

        await self.retry(attempt)

    async def delete_group_offsets(
        self, group_id: str, partitions: Iterable[PartitionLike]
    ) -> None:
        """Delete a group's committed offsets of partitions that no member is subscribed to."""
        topics = [
            OffsetDeleteRequestTopic(
                name=each.topic,
                partitions=[
                    OffsetDeleteRequestPartition(partition_index=p) for p in each.partitions
                ],
            )
            for each in group_by_topic(several(partitions))
        ]
        request = OffsetDeleteRequest(group_id=group_id, topics=topics)

        async def attempt() -> None:
            answer = await self.ask_coordinator(group_id, request, OffsetDeleteResponse)
            raise_for_code(answer.error_code, f"deleting offsets of group {group_id}")
            for topic in answer.topics:
                for each in topic.partitions:
                    what = f"deleting the offset of group {group_id} in {topic.name}"
                    raise_for_code(each.error_code, f"{what}-{each.partition_index}")

        await self.retry(attempt)

    async def lag(self, group_id: str) -> dict[TopicPartition, Lag]:
        """Return the lag of a group in all partitions with a committed offset or an assigned
        member, also deleted ones. Raises `GroupNotFound`."""
        offsets = await self.group_offsets(group_id)
        members = await self._known_members(group_id, may_be_none=bool(offsets))
        read = {partition for member in members for partition in member.assignment}
        partitions = sorted(read | offsets.keys())
        existing = await self._existing_of(partitions)
        starts = await self.beginning_offsets(existing)
        ends = await self.end_offsets(existing)
        return {
            each: Lag(
                offsets[each].offset if each in offsets else None, starts.get(each), ends.get(each)
            )
            for each in partitions
        }

    async def _existing_of(self, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that exist: members keep deleted ones for a while."""
        names = {each.topic for each in partitions}
        topics = await self.retry(lambda: self.find_topics(names))
        known = {
            TopicPartition(name, each.partition_index)
            for name, topic in topics.items()
            for each in topic.partitions
        }
        return [each for each in partitions if each in known]

    async def seek_group(
        self,
        group_id: str,
        to: SeekTarget | ByPartition[int],
        *,
        topics: str | Collection[str] = (),
        dry_run: bool = False,
    ) -> SeekPlan:
        """Set the committed offsets of a group without members.

        `to` is "start", "end", a time (the first record not older), an offset (limited to the range
        of each log), or exact offsets by partition. The group moves in those partitions, or in all
        partitions of `topics`, or in all with a committed offset; partitions without a committed
        offset are then left out. With `dry_run` nothing is changed, but the moves are returned.
        Raises `GroupNotEmpty` if the group has members, whose positions would not change, and
        `GroupNotFound` if there is no such group and neither `topics` nor offsets by partition are
        given.
        """
        if not isinstance(to, Mapping):
            check_seek_target(to)
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
        """Return the members that DescribeGroups knows. It does not know groups of the protocol of
        KIP-848, whose committed offsets can be read nevertheless. Raises `GroupNotFound` for an
        unknown group, unless `may_be_none`."""
        try:
            return (await self.group(group_id)).members
        except GroupNotFound:
            if not may_be_none and await self._listed(group_id) is None:
                raise
            return ()

    async def _listed(self, group_id: str) -> Group | None:
        """Return the group as ListGroups has it, of any protocol; None if there is none."""
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
                f"group {group_id} {has_some}, whose positions would not change. "
                f"What to do: {GroupNotEmpty.advice}."
            )

    async def _targets(
        self, partitions: Collection[TopicPartition], to: SeekTarget
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


def description_of(group: DescribedGroup) -> GroupDescription:
    """Return a group of a DescribeGroups response."""
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        tuple(
            member_of(member, is_consumer=group.protocol_type == PROTOCOL_TYPE)
            for member in group.members
        ),
    )


def member_of(member: DescribedGroupMember, *, is_consumer: bool) -> Member:
    """Return a member of a group. Before its first rebalance a member has an empty assignment.
    Brokers do not check assignments: one that is not of the consumer protocol must not hide the
    other members and groups."""
    assignment: tuple[TopicPartition, ...] = ()
    error = None
    if is_consumer and member.member_assignment:
        try:
            assignment = tuple(
                sorted(decode_assignment(bytes(member.member_assignment)).partitions)
            )
        except ProtocolError as invalid:
            error = str(invalid)
    return Member(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        assignment,
        error,
    )


def check_seek_target(to: object) -> None:
    """Raise `ValueError` for an invalid target."""
    is_offset = isinstance(to, int) and not isinstance(to, bool) and to >= 0
    if not is_offset and not isinstance(to, datetime) and to not in ("start", "end"):
        raise ValueError(
            f'a group cannot be moved to {to!r}. What to do: give "start", "end", a datetime, an '
            "offset from 0 on, or offsets by partition"
        )
