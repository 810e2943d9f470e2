"""Commits: OffsetCommit and OffsetFetch, on demand and at intervals, tried until they succeed.

    start ─► coordinator known? ─► sent ─┬─ read: a value ──────────────────────────► ended
                  │ no: look for it      ├─ retriable error, and there is a deadline: again
                  └──────────────────────┤   after a back-off
                                         └─ another error, or no deadline ──────────► ended

A `CoordinatorRequest` with a deadline is tried until it succeeds, fails for good, or the time is
over; one without is tried once. Each request ends exactly once, and completes its waiter.

Offsets never go back: a `Commit` that is tried again waits for later commits of the same
partitions, and drops the partitions that a later commit has committed.

A subscribed consumer commits with the generation in which it is an active member; if it is not
active, it may not commit, because other members may own its partitions. For the same reason a
commit fails when the generation in which it began is over. A consumer with a manual assignment
commits from outside the group.

Automatic commits take the consumed offsets: at intervals, before partitions are revoked, and when
the consumer closes. One that fails is logged and tried again on the next occasion.

What an OffsetCommit error means to the member and to the caller; the first error decides that does
not concern one topic only:

    error of a partition                     the member           the caller gets
    COORDINATOR_LOAD_IN_PROGRESS and other                        a retriable error
    COORDINATOR_NOT_AVAILABLE,               looks for the        a retriable error
      NOT_COORDINATOR, REQUEST_TIMED_OUT       coordinator
    REBALANCE_IN_PROGRESS                    rejoins              RebalanceInProgress: poll first
    UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION    loses its            CommitFailed; RebalanceInProgress
                                               generation           if it is rejoining already
    FENCED_INSTANCE_ID                                            FencedInstance
    TOPIC_AUTHORIZATION_FAILED                                    the error with all such topics
    any other                                                     that error

Only stable offsets are fetched (KIP-447): while a transaction that commits offsets is open, the
response is UNSTABLE_OFFSET_COMMIT and the request is tried again, because reading on from the older
offsets would read records twice.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.consumer.group import requests
from odradek.client.consumer.group.member import (
    COORDINATOR_MOVED,
    Generation,
    GroupCall,
    GroupMember,
    MemberState,
    Resolve,
)
from odradek.client.consumer.group.membership import CoordinatorLookup
from odradek.client.consumer.group.requests import (
    CommittedOffset,
    commit_errors,
    fetch_answer,
    offset_fetch,
)
from odradek.client.consumer.position.subscription_state import SubscriptionState
from odradek.client.errors import (
    ApiTimeout,
    CommitFailed,
    KafkaError,
    RebalanceInProgress,
    UnknownTopicOrPartition,
    error_for,
)
from odradek.client.waiter import Waiter
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.network_client.alarm import NEVER_MS
from odradek.network_client.api_versions import RequestBuilder
from odradek.network_client.errors import ADVICE_MARK
from odradek.protocol.api.offset_commit import OffsetCommitResponse
from odradek.protocol.api.offset_fetch import OffsetFetchResponse

log = logging.getLogger(__name__)


class CoordinatorRequest(ABC):
    """One request to the coordinator, through all its attempts."""

    def __init__(self, deadline_ms: int | None) -> None:
        self.deadline_ms = deadline_ms
        """Until when to try; None: once."""
        self.waiter: Waiter[Any] = Waiter()
        self.attempts = 0
        self.retry_ms = NEVER_MS
        """When to send it again; never while it is in flight."""
        self.last_error: KafkaError | None = None
        """The error of the last attempt."""

    @abstractmethod
    def build(self) -> RequestBuilder | KafkaError:
        """Return the request as it is now, or the error why it cannot be made."""

    @abstractmethod
    def read(self, call: GroupCall, response: Any) -> Any:
        """Return the value of the response, or a `KafkaError`."""

    @abstractmethod
    def timeout_error(self) -> KafkaError:
        """Return the error for a request whose deadline has passed."""

    def timeout_reason(self, advice: str) -> str:
        """Return the end of the timeout error's message: the last error with its advice, or
        `advice` if there is none.
        """
        why = "" if self.last_error is None else f"; last: {self.last_error}"
        return why if ADVICE_MARK in why else f"{why}{ADVICE_MARK}{advice}"

    def must_wait_for(self, other: CoordinatorRequest) -> bool:
        """True if this request must not be sent while `other` is in flight."""
        return False

    @property
    def is_superseded(self) -> bool:
        """True if nothing is left to request: later requests have done it."""
        return False

    def ended(self, error: KafkaError | None) -> None:
        """The request has ended, with `error` or with success."""
        return


class CoordinatorRequests:
    """The requests that have not ended, in the order in which they were started."""

    def __init__(self, member: GroupMember, lookup: CoordinatorLookup) -> None:
        self.member = member
        self.lookup = lookup
        self._open: dict[CoordinatorRequest, None] = {}

    def __contains__(self, request: CoordinatorRequest) -> bool:
        """True if the request has not ended."""
        return request in self._open

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[CoordinatorRequest]:
        return iter(self._open)

    def start(self, request: CoordinatorRequest) -> None:
        """Send the request as soon as possible."""
        self._open[request] = None
        self._send(request)

    def _send(self, request: CoordinatorRequest) -> None:
        """Send the request, or look for the coordinator first."""
        request.retry_ms = NEVER_MS
        if request.is_superseded:
            self.end(request)
            return
        if any(request.must_wait_for(other) for other in self._open):
            request.retry_ms = self.member.now_ms + self.member.backoff.backoff_ms(0)
            return
        if self.member.coordinator is None:
            self.lookup.start(lambda error: self._lookup_ended(request, error))
            return
        builder = request.build()
        if isinstance(builder, KafkaError):
            self.end(request, error=builder)
            return

        def answered(call: GroupCall, response: Any, error: KafkaError | None) -> None:
            self._answered(request, call, response, error)

        self.member.send(self.member.coordinator, builder, answered)

    def _lookup_ended(self, request: CoordinatorRequest, error: KafkaError | None) -> None:
        """The lookup of the coordinator has ended."""
        if request in self._open:
            if error is None:
                self._send(request)
            else:
                self._failed(request, error)

    def _answered(
        self, request: CoordinatorRequest, call: GroupCall, response: Any, error: KafkaError | None
    ) -> None:
        if error is None:
            value = request.read(call, response)
        else:
            value = error
            if error.retriable:
                self.member.lose_coordinator(str(error), call.node)
        if request not in self._open:
            return
        if isinstance(value, KafkaError):
            self._failed(request, value)
        else:
            self.end(request, value)

    def _failed(self, request: CoordinatorRequest, error: KafkaError) -> None:
        """Try again if the deadline permits and the error is retriable; else end the request."""
        if request.deadline_ms is None or not error.retriable:
            self.end(request, error=error)
            return
        request.last_error = error
        backoff_ms = self.member.backoff.backoff_ms(request.attempts)
        request.retry_ms = self.member.now_ms + backoff_ms
        request.attempts += 1

    def end(
        self, request: CoordinatorRequest, value: Any = None, error: KafkaError | None = None
    ) -> None:
        """End the request and complete its waiter."""
        self._open.pop(request, None)
        self.member.effects.append(Resolve(request.waiter, value, error))
        request.ended(error)

    def abandon(self, error: KafkaError) -> None:
        """End all requests with `error`."""
        for request in list(self._open):
            self.end(request, error=error)

    @property
    def next_ms(self) -> int:
        """The time of the next retry or deadline."""
        due_ms = NEVER_MS
        for request in self._open:
            due_ms = min(due_ms, request.retry_ms)
            if request.deadline_ms is not None:
                due_ms = min(due_ms, request.deadline_ms)
        return due_ms

    def ticked(self) -> None:
        """Send the retries that are due and end the requests whose deadline has passed."""
        now_ms = self.member.now_ms
        for request in list(self._open):
            if request.deadline_ms is not None and request.deadline_ms <= now_ms:
                self.end(request, error=request.timeout_error())
            elif request.retry_ms <= now_ms:
                self._send(request)


GENERATION_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)


def commit_error(
    member: GroupMember, call: GroupCall, response: OffsetCommitResponse
) -> KafkaError | None:
    """Return the error of a commit, None if it succeeded; update the member as the table says."""
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
            return rebalance_error(member)
        elif code in GENERATION_LOST or code is ErrorCode.FENCED_INSTANCE_ID:
            return generation_error(member, call, code, what)
        return error_for(code, f"{what} ({partition})")
    if denied:
        return error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{what} ({', '.join(denied)})")
    return None


def generation_error(
    member: GroupMember, call: GroupCall, code: ErrorCode, what: str
) -> KafkaError:
    """Return the error for a commit that the coordinator rejected for its generation."""
    unchanged = member.generation == call.generation
    if not unchanged and member.state is MemberState.PREPARING_REBALANCE:
        return rebalance_error(member)
    if code is ErrorCode.FENCED_INSTANCE_ID:
        return error_for(code, what) if unchanged else CommitFailed(stale_message(member), code)
    if unchanged:
        forget = code is ErrorCode.UNKNOWN_MEMBER_ID
        member.reset_generation(f"{code.name} while committing offsets", forget_member_id=forget)
    return CommitFailed(stale_message(member), code)


def stale_message(member: GroupMember) -> str:
    return (
        f"group {member.config.group_id} was rebalanced and other members may own its partitions "
        f"now, so this consumer may not commit their offsets. What to do: {CommitFailed.advice}"
    )


def rebalance_error(member: GroupMember) -> KafkaError:
    """Return the error for a commit between two generations."""
    return RebalanceInProgress(
        f"group {member.config.group_id} is being rebalanced; offsets cannot be committed until "
        f"the rebalance is over. What to do: poll, then commit again",
        ErrorCode.REBALANCE_IN_PROGRESS,
    )


Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Commit(CoordinatorRequest):
    """One commit. The value of its waiter is None."""

    def __init__(self, commits: Commits, offsets: Offsets, deadline_ms: int | None) -> None:
        super().__init__(deadline_ms)
        self.commits = commits
        self.offsets = dict(offsets)
        self.signature = commits.signature()
        """The generation in which it began, or the error why it could not."""
        self.began_ms = commits.member.now_ms
        self.number = commits.started
        """Its number among all commits, in the order in which they were started."""
        self.error: KafkaError | None = None
        """Its error, once it has ended."""

    def build(self) -> RequestBuilder | KafkaError:
        commits = self.commits
        signature = commits.signature()
        if isinstance(self.signature, KafkaError):
            return self.signature
        if isinstance(signature, KafkaError):
            return signature
        if signature != self.signature:
            return CommitFailed(stale_message(commits.member), ErrorCode.ILLEGAL_GENERATION)
        as_member = commits.subscriptions.is_auto_assigned
        config = commits.member.config
        return requests.offset_commit(config, signature, self.offsets, as_member=as_member)

    def must_wait_for(self, other: CoordinatorRequest) -> bool:
        if not isinstance(other, Commit) or other.number <= self.number:
            return False
        return not self.offsets.keys().isdisjoint(other.offsets)

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Drop partitions that a later commit has committed."""
        for partition in partitions:
            self.offsets.pop(partition, None)

    @property
    def is_superseded(self) -> bool:
        return not self.offsets

    def read(self, call: GroupCall, response: OffsetCommitResponse) -> KafkaError | None:
        error = commit_error(self.commits.member, call, response)
        if error is None:
            self.commits.on_commit(self.offsets)
            self.commits.confirmed(self)
            self.commits.member.metrics.commit_completed(self.began_ms, self.commits.member.now_ms)
        return error

    def timeout_error(self) -> KafkaError:
        if isinstance(self.last_error, UnknownTopicOrPartition):
            return self.last_error  # The topic was deleted during the commit.
        return ApiTimeout(
            f"the coordinator of group {self.commits.member.config.group_id} did not confirm the "
            f"commit of {len(self.offsets)} offsets in time; they may still be committed"
            f"{self.timeout_reason('commit again, with more time')}"
        )

    def ended(self, error: KafkaError | None) -> None:
        self.error = error
        if error is not None:
            self.commits.member.metrics.commit_failed(self.commits.member.now_ms)
        self.commits.ended(self)


def no_interceptors(offsets: Offsets) -> None:
    """The `on_commit` of a consumer whose interceptors do not want to know of commits."""


class Commits:
    """All commits of one consumer, in order."""

    def __init__(
        self, member: GroupMember, lookup: CoordinatorLookup, subscriptions: SubscriptionState
    ) -> None:
        self.member = member
        self.subscriptions = subscriptions
        self.requests = CoordinatorRequests(member, lookup)
        """The commits that have not ended."""
        self.auto_commit_ms = member.now_ms + member.config.auto_commit_interval_ms
        """When the next automatic commit is due."""
        self.started = 0
        """How many commits were started."""
        self.on_commit: Callable[[Offsets], object] = no_interceptors
        """Called with the offsets of each commit that succeeded."""
        self._auto: Commit | None = None

    def commit(self, offsets: Offsets, deadline_ms: int | None = None) -> Commit:
        """Commit offsets; the result's `waiter` is done when the commit has ended."""
        return self._start(Commit(self, offsets, deadline_ms))

    def _start(self, commit: Commit) -> Commit:
        self.started += 1
        wrong = [f"{tp}: {at.offset}" for tp, at in commit.offsets.items() if at.offset < 0]
        if wrong:
            text = f"offsets to commit begin with 0, these do not: {', '.join(wrong)}"
            self.requests.end(commit, None, CommitFailed(text))
        elif not commit.offsets:
            self.requests.end(commit)
        else:
            self.requests.start(commit)
        return commit

    def signature(self) -> Generation | KafkaError:
        """Return the generation to commit with, or the error why committing is impossible."""
        if not self.subscriptions.is_auto_assigned:
            return Generation()
        member = self.member
        if member.stable_generation is not None:
            return member.stable_generation
        if member.rebalance_in_progress:
            return rebalance_error(member)
        return CommitFailed(
            f"this consumer is not an active member of group {member.config.group_id} (any more), "
            f"so it may not commit. What to do: poll, so that it joins; and {CommitFailed.advice}",
            ErrorCode.UNKNOWN_MEMBER_ID,
        )

    def transactional_signature(self) -> Generation | KafkaError:
        """Return the generation for offsets of a transaction, or the error why there is none. A
        member that has asked to join keeps partitions with the cooperative protocol, and its
        generation until the others have asked too: the coordinator fences it when that is over."""
        member = self.member
        waits = member.state is MemberState.PREPARING_REBALANCE and not member.generation.is_reset
        if waits and self.subscriptions.is_auto_assigned:
            return member.generation
        return self.signature()

    def confirmed(self, commit: Commit) -> None:
        """Remove committed partitions from earlier commits, which must not set them back."""
        for other in self.requests:
            if isinstance(other, Commit) and other.number < commit.number:
                other.remove(commit.offsets)

    def ended(self, commit: Commit) -> None:
        """Log a failed automatic commit and schedule the next."""
        if commit is not self._auto:
            return
        self._auto = None
        if commit.error is None:
            return
        member = self.member
        level = logging.WARNING
        if commit.error.retriable:
            level = logging.DEBUG
            soon_ms = member.now_ms + member.backoff.backoff_ms(0)
            self.auto_commit_ms = min(self.auto_commit_ms, soon_ms)
        log.log(level, "group %s: automatic commit: %s", member.config.group_id, commit.error)

    # Automatic commits.

    def auto_commit(self, deadline_ms: int | None = None) -> Commit:
        """Commit the consumed offsets."""
        self.restart_interval()
        consumed = {
            partition: OffsetAndMetadata(position.offset, "", position.offset_epoch)
            for partition, position in self.subscriptions.consumed.items()
        }
        self._auto = Commit(self, consumed, deadline_ms)
        return self._start(self._auto)

    def restart_interval(self) -> None:
        """Make the next automatic commit due after a full interval."""
        self.auto_commit_ms = self.member.now_ms + self.member.config.auto_commit_interval_ms

    @property
    def _may_auto_commit(self) -> bool:
        """True if an automatic commit is possible: none is under way, and the member is active."""
        if not self.member.config.enable_auto_commit or self._auto is not None:
            return False
        if not self.subscriptions.consumed:
            return False
        return not self.subscriptions.is_auto_assigned or bool(self.member.stable_generation)

    # Time.

    @property
    def next_ms(self) -> int:
        """The time of the next automatic commit or retry."""
        auto_ms = self.auto_commit_ms if self._may_auto_commit else NEVER_MS
        return min(auto_ms, self.requests.next_ms)

    def ticked(self) -> None:
        """Run the automatic commit or the retries that are due."""
        self.requests.ticked()
        if self._may_auto_commit and self.auto_commit_ms <= self.member.now_ms:
            self.auto_commit()


CommittedOffsets = dict[TopicPartition, OffsetAndMetadata | None]


class CommittedOffsetsRequest(CoordinatorRequest):
    """One OffsetFetch. The value of its waiter is `CommittedOffsets`: None where nothing was
    committed.
    """

    def __init__(
        self, member: GroupMember, partitions: Collection[TopicPartition], deadline_ms: int
    ) -> None:
        super().__init__(deadline_ms)
        self.member = member
        self.partitions = list(partitions)

    def build(self) -> RequestBuilder:
        return offset_fetch(self.member.config.group_id, self.partitions)

    def read(self, call: GroupCall, response: OffsetFetchResponse) -> CommittedOffsets | KafkaError:
        code, rows = fetch_answer(response)
        if code in COORDINATOR_MOVED:
            self.member.lose_coordinator(code.name, call.node)
        if code is not ErrorCode.NONE:
            return error_for(code, self._describe())
        return self._found(rows)

    def _found(self, rows: list[CommittedOffset]) -> CommittedOffsets | KafkaError:
        """Return the offsets, or the error; an error about the whole request takes precedence."""
        denied: dict[str, None] = {}
        unstable = False
        for partition, code, _ in rows:
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                denied[partition.topic] = None
            elif code is ErrorCode.UNSTABLE_OFFSET_COMMIT:
                unstable = True
            elif code is not ErrorCode.NONE:
                return error_for(code, f"{self._describe()} ({partition})")
        if denied:
            topics = ", ".join(denied)
            return error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{self._describe()} ({topics})")
        if unstable:
            return error_for(ErrorCode.UNSTABLE_OFFSET_COMMIT, self._describe())
        return {row.partition: row.found for row in rows}

    def timeout_error(self) -> KafkaError:
        return ApiTimeout(
            f"the coordinator of group {self.member.config.group_id} did not return the committed "
            f"offsets of {len(self.partitions)} partitions in time"
            f"{self.timeout_reason('ask with more time')}"
        )

    def _describe(self) -> str:
        return f"fetching the committed offsets of group {self.member.config.group_id}"
