"""What the answer to OffsetCommit says to the member, and to who wanted the commit.

    code of a partition                      the member           who committed
    COORDINATOR_LOAD_IN_PROGRESS and other                        a retriable error
    COORDINATOR_NOT_AVAILABLE,               looks for the        a retriable error
      NOT_COORDINATOR, REQUEST_TIMED_OUT       coordinator
    REBALANCE_IN_PROGRESS                    joins again          RebalanceInProgress: poll first
    UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION    loses its            CommitFailed; if it joins again
                                               generation           already, RebalanceInProgress
    FENCED_INSTANCE_ID                                            FencedInstance
    TOPIC_AUTHORIZATION_FAILED                                    with all such topics
    any other                                                     that error

The first that is no matter of one topic decides.
"""

from __future__ import annotations

from odradek.client.consumer.group_effects import GroupCall
from odradek.client.consumer.group_member import COORDINATOR_MOVED, GroupMember, MemberState
from odradek.client.consumer.group_requests import commit_errors
from odradek.client.errors.answers import RebalanceInProgress, error_for
from odradek.client.errors.base import KafkaError
from odradek.client.errors.own import CommitFailed
from odradek.model.errors import ErrorCode
from odradek.protocol.api.offset_commit import OffsetCommitResponse

GENERATION_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


def commit_error(
    member: GroupMember, call: GroupCall, response: OffsetCommitResponse
) -> KafkaError | None:
    """The error of a commit, None if all is kept; what it means to the member is done."""
    denied: dict[str, None] = {}
    what = f"committing offsets of group {member.config.group_id}"
    for partition, code in commit_errors(response):
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            denied[partition.topic] = None
            continue
        if code in COORDINATOR_MOVED or code is ErrorCode.REQUEST_TIMED_OUT:
            member.lose_coordinator(code.name, call.node)
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            member.request_rejoin_if_necessary("offset commit failed: the group is rebalancing")
            return rebalancing(member)
        elif code in GENERATION_LOST or code is ErrorCode.FENCED_INSTANCE_ID:
            return out_of_generation(member, call, code, what)
        return error_for(code, f"{what} ({partition})")
    if denied:
        return error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{what} ({', '.join(denied)})")
    return None


def out_of_generation(
    member: GroupMember, call: GroupCall, code: ErrorCode, what: str
) -> KafkaError:
    """The coordinator does not know the member as whom it signed."""
    unchanged = member.generation == call.generation
    if not unchanged and member.state is MemberState.PREPARING_REBALANCE:
        return rebalancing(member)
    if code is ErrorCode.FENCED_INSTANCE_ID:
        return error_for(code, what) if unchanged else CommitFailed(stale(member), code)
    if unchanged:
        forget = code is ErrorCode.UNKNOWN_MEMBER_ID
        member.reset_generation(f"{code.name} while committing offsets", forget_member_id=forget)
    return CommitFailed(stale(member), code)


def stale(member: GroupMember) -> str:
    """For the message."""
    return (
        f"group {member.config.group_id} was rebalanced and the partitions belong to others now, "
        f"so their offsets are not this consumer's to commit. What to do: {CommitFailed.advice}"
    )


def rebalancing(member: GroupMember) -> KafkaError:
    """The commit comes between two generations."""
    return RebalanceInProgress(
        f"group {member.config.group_id} is being rebalanced, and offsets cannot be committed "
        f"until that is over. What to do: poll, then commit again",
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
