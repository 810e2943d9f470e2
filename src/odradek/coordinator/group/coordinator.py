"""The group coordinator: one method per request, called by the handlers.

Checks that need no group are made here; the rest of a request runs as an operation on the shard of
the group. Responses are passed to the callback `respond`, possibly before the method returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from odradek.config.broker import BrokerConfig
from odradek.coordinator.group.group_shard import GroupShard
from odradek.coordinator.group.heartbeat import heartbeat
from odradek.coordinator.group.join import join
from odradek.coordinator.group.leave import leave
from odradek.coordinator.group.listing import GroupFilter, describe_error, describe_group
from odradek.coordinator.group.member import Caller
from odradek.coordinator.group.offset_commit import commit_error, commit_offsets
from odradek.coordinator.group.offset_deletion import delete_offsets, deletion_error
from odradek.coordinator.group.offsets import fetch_error, fetch_offsets
from odradek.coordinator.group.rebalance import JOIN, SYNC, join_error, sync_error
from odradek.coordinator.group.sync import sync
from odradek.coordinator.group.transitions import GroupTransitions
from odradek.coordinator.operation import (
    CombinedReply,
    OperationResult,
    Reply,
)
from odradek.coordinator.runtime import CoordinatorRuntime
from odradek.log.producer_state import TransactionMarker
from odradek.log.verification import VerificationGuard
from odradek.model.errors import ErrorCode
from odradek.protocol.api.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from odradek.protocol.api.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from odradek.protocol.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchResponseGroup
from odradek.protocol.api.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from odradek.coordinator.group.late_offset_commits import ProducerConnections
    from odradek.protocol.api.txn_offset_commit import (
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
    )

NOT_READY = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
NOT_HERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
FIRST_SYNC_VERSION_WITH_PROTOCOL = 5


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupCoordinator:
    """Requests of consumer groups. All methods run on the owner thread."""

    def __init__(
        self,
        config: BrokerConfig,
        runtime: CoordinatorRuntime[GroupShard],
        transitions: GroupTransitions | None = None,
    ) -> None:
        self.config = config
        self.runtime = runtime
        self.transitions = transitions or GroupTransitions()
        """The last changes of state of all groups, which the shards note."""
        self._producers: ProducerConnections | None = None

    # -- members -----------------------------------------------------------------------------------

    def join_group(
        self,
        request: JoinGroupRequest,
        caller: Caller,
        respond: Callable[[JoinGroupResponse], None],
    ) -> None:
        """Responds when the generation begins that this member is part of."""
        error = self._validate_join(request)
        if error is not ErrorCode.NONE:
            respond(join_error(error, request.member_id))
            return
        reply = Reply(respond, join_error)
        self.runtime.run(
            request.group_id,
            lambda shard, result: join(shard.groups, result, request, caller, reply),
            reply.refuse,
        )

    def _validate_join(self, request: JoinGroupRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        config = self.config
        shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not shortest <= request.session_timeout_ms <= longest:
            return ErrorCode.INVALID_SESSION_TIMEOUT
        return ErrorCode.NONE

    def sync_group(
        self,
        request: SyncGroupRequest,
        version: int,
        respond: Callable[[SyncGroupResponse], None],
    ) -> None:
        """Responds when the leader has assigned."""
        says_protocol = request.protocol_type is not None and request.protocol_name is not None
        if version >= FIRST_SYNC_VERSION_WITH_PROTOCOL and not says_protocol:
            respond(sync_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
            return
        if not request.group_id:
            respond(sync_error(ErrorCode.INVALID_GROUP_ID))
            return
        reply = Reply(respond, sync_error)
        self.runtime.run(
            request.group_id,
            lambda shard, result: sync(shard.groups, result, request, reply),
            reply.refuse,
        )

    def heartbeat(
        self, request: HeartbeatRequest, respond: Callable[[HeartbeatResponse], None]
    ) -> None:
        """Responds without an error while the group is being loaded."""
        if not request.group_id:
            respond(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))
            return
        reply = Reply(respond, heartbeat_error)
        self.runtime.run(
            request.group_id,
            lambda shard, result: heartbeat(shard.groups, result, request, reply),
            reply.refuse,
        )

    def leave_group(
        self, request: LeaveGroupRequest, respond: Callable[[LeaveGroupResponse], None]
    ) -> None:
        """Responds with a result for each member."""
        if not request.group_id:
            respond(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
            return
        reply = Reply(respond, lambda error: LeaveGroupResponse(error_code=error))
        self.runtime.run(
            request.group_id,
            lambda shard, result: leave(shard.groups, result, request, reply),
            reply.refuse,
        )

    # -- groups ------------------------------------------------------------------------------------

    def join_left_ms(self, group_id: str) -> int | None:
        """Return the time that a group still waits for members to join; None if it does not."""
        return self.runtime.timer_left_ms(group_id, (JOIN, group_id))

    def sync_left_ms(self, group_id: str) -> int | None:
        """Return the time that a group still waits for its assignment; None if it does not."""
        return self.runtime.timer_left_ms(group_id, (SYNC, group_id))

    def describe_groups(
        self,
        request: DescribeGroupsRequest,
        version: int,
        respond: Callable[[DescribeGroupsResponse], None],
    ) -> None:
        """Responds with the groups in the order of the request."""
        combined: CombinedReply[DescribedGroup] = CombinedReply(
            len(request.groups), lambda groups: respond(DescribeGroupsResponse(groups=groups))
        )
        for index, group_id in enumerate(request.groups):
            reply = combined.reply(index, partial(describe_error, group_id))
            self._describe(group_id, version, reply)

    def _describe(self, group_id: str, version: int, reply: Reply[DescribedGroup]) -> None:
        def operation(shard: GroupShard, result: OperationResult) -> None:
            result.answer(reply, describe_group(shard.groups, group_id, version))

        self.runtime.run(group_id, operation, reply.refuse)

    def list_groups(
        self, request: ListGroupsRequest, respond: Callable[[ListGroupsResponse], None]
    ) -> None:
        """Responds with the groups of all shards here, or an error while one of them is loading."""
        partitions = self.runtime.partitions
        group_filter = GroupFilter(request.states_filter, request.types_filter)

        def respond_all(responses: list[ListGroupsResponse]) -> None:
            errors = [shard.error_code for shard in responses if shard.error_code]
            groups = [group for shard in responses for group in shard.groups]
            if errors:
                respond(ListGroupsResponse(error_code=errors[0], groups=[]))
            else:
                respond(ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups))

        combined: CombinedReply[ListGroupsResponse] = CombinedReply(len(partitions), respond_all)
        for index, number in enumerate(partitions):
            self._list(number, group_filter, combined.reply(index, list_groups_error))

    def _list(
        self, number: int, group_filter: GroupFilter, reply: Reply[ListGroupsResponse]
    ) -> None:
        def operation(shard: GroupShard, result: OperationResult) -> None:
            groups = group_filter.select(shard.groups)
            result.answer(reply, ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups))

        self.runtime.run_on(number, operation, reply.refuse)

    def delete_groups(
        self, request: DeleteGroupsRequest, respond: Callable[[DeleteGroupsResponse], None]
    ) -> None:
        """Responds with a result for each group."""
        names = list(dict.fromkeys(request.groups_names))
        combined: CombinedReply[DeletableGroupResult] = CombinedReply(
            len(names), lambda results: respond(DeleteGroupsResponse(results=results))
        )
        for index, name in enumerate(names):
            self._delete(name, combined.reply(index, partial(group_deletion, name)))

    def _delete(self, group_id: str, reply: Reply[DeletableGroupResult]) -> None:
        def operation(shard: GroupShard, result: OperationResult) -> None:
            result.answer(reply, group_deletion(group_id, shard.delete_group(result, group_id)))

        self.runtime.run(group_id, operation, reply.refuse)

    # -- offsets -----------------------------------------------------------------------------------

    def commit_offsets(
        self,
        request: OffsetCommitRequest,
        version: int,
        respond: Callable[[OffsetCommitResponse], None],
    ) -> None:
        """Commits offsets of partitions that exist. The group id may be empty, as in Kafka."""
        reply = Reply(respond, partial(commit_error, request))
        self.runtime.run(
            request.group_id,
            lambda shard, result: commit_offsets(shard.groups, result, request, version, reply),
            reply.refuse,
        )

    def commit_transactional_offsets(
        self,
        request: TxnOffsetCommitRequest,
        connection: int,
        guard: VerificationGuard | None,
        respond: Callable[[TxnOffsetCommitResponse], None],
    ) -> None:
        """Commits offsets of partitions that exist with a transaction that was verified.

        `connection`: the number of the client's, which grows with each one that is accepted.
        """
        # Imported here, so that a start does without them.
        from odradek.coordinator.group.late_offset_commits import ProducerConnections
        from odradek.coordinator.group.txn_offset_commit import (
            commit_transactional_offsets,
            txn_commit_error,
        )

        reply = Reply(respond, partial(txn_commit_error, request))
        if self._producers is None:
            idle_ms = self.config.connections_max_idle_ms
            self._producers = ProducerConnections(
                idle_ms if idle_ms >= 0 else self.config.producer_id_expiration_ms
            )
        producer = request.producer_id, request.producer_epoch
        if self._producers.is_late(*producer, connection, self.runtime.timer.now_ms):
            reply.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self.runtime.run(
            request.group_id,
            lambda shard, result: commit_transactional_offsets(
                shard.groups, shard.topic_id, result, request, guard, reply
            ),
            reply.refuse,
        )

    def complete_transaction(
        self,
        partition: int,
        marker: TransactionMarker,
        respond: Callable[[ErrorCode], None],
    ) -> None:
        """Writes the marker of a transaction into a partition of `__consumer_offsets`, and responds
        when its offsets are committed. A shard that is elsewhere or being loaded is
        NOT_LEADER_OR_FOLLOWER, for which coordinators of transactions wait.
        """

        def answer(error: ErrorCode) -> None:
            respond(ErrorCode.NOT_LEADER_OR_FOLLOWER if error in NOT_READY else error)

        self.runtime.complete_transaction(partition, marker, Reply(answer, lambda error: error))

    def fetch_offsets(
        self,
        groups: Sequence[OffsetFetchRequestGroup],
        require_stable: bool,
        respond: Callable[[list[OffsetFetchResponseGroup]], None],
    ) -> None:
        """Responds with the offsets of the groups in the order of the request."""
        combined: CombinedReply[OffsetFetchResponseGroup] = CombinedReply(len(groups), respond)
        for index, group in enumerate(groups):
            reply = combined.reply(index, partial(fetch_error, group.group_id))
            self._fetch(group, require_stable, reply)

    def _fetch(
        self,
        group: OffsetFetchRequestGroup,
        require_stable: bool,
        reply: Reply[OffsetFetchResponseGroup],
    ) -> None:
        def operation(shard: GroupShard, result: OperationResult) -> None:
            result.answer(reply, fetch_offsets(shard.offsets, group, require_stable))

        self.runtime.run(group.group_id, operation, reply.refuse)

    def delete_offsets(
        self, request: OffsetDeleteRequest, respond: Callable[[OffsetDeleteResponse], None]
    ) -> None:
        """Deletes offsets of partitions that exist."""
        if not request.group_id:
            respond(deletion_error(ErrorCode.INVALID_GROUP_ID))
            return
        reply = Reply(respond, deletion_error)
        self.runtime.run(
            request.group_id,
            lambda shard, result: delete_offsets(
                shard.groups, shard.offsets, result, request, reply
            ),
            reply.refuse,
        )

    def topic_deleted(self, topic: str) -> None:
        """Delete the offsets of a topic. A shard that is not active does so when it is loaded."""
        for number in self.runtime.partitions:
            self.runtime.run_on(
                number,
                lambda shard, result: shard.delete_topic_offsets(result, topic),
                lambda error: None,
            )


def heartbeat_error(error: ErrorCode) -> HeartbeatResponse:
    loading = error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else error)


def list_groups_error(error: ErrorCode) -> ListGroupsResponse:
    """The groups of a shard that cannot be read: none, and no error if it moved away."""
    return ListGroupsResponse(error_code=ErrorCode.NONE if error in NOT_HERE else error, groups=[])


def group_deletion(group_id: str, error: ErrorCode) -> DeletableGroupResult:
    message = None if error is ErrorCode.NONE else error.text
    return DeletableGroupResult(group_id=group_id, error_code=error, error_message=message)
