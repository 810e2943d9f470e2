"""Commits: offsets to the coordinator, when asked to and at intervals.

A commit with a deadline is one that somebody blocks on; it is tried until it succeeds, fails for
good, or time is over. One without is sent once.

Offsets never go back: a commit that is tried again waits for later ones of the same partitions, and
leaves out those of which a later one was confirmed.

Signed with the generation while the member is active in it. Who is subscribed and is not active may
not commit: what it has may be somebody else's by now. For the same reason a commit ends with the
generation in which it was begun: it is not signed again in a later one. Who assigned itself commits
from outside.

Automatic commits take what the application is done with: at intervals, before partitions are
given up, and when the consumer closes. An automatic commit that fails is tried again at the next
occasion, and is only worth a line in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from odradek.client.alarm import NEVER_MS
from odradek.client.api_versions import RequestBuilder
from odradek.client.consumer import group_requests
from odradek.client.consumer.commit_errors import commit_error, rebalancing, stale
from odradek.client.consumer.coordinator_lookup import CoordinatorLookup
from odradek.client.consumer.coordinator_requests import CoordinatorRequest, CoordinatorRequests
from odradek.client.consumer.generation import Generation
from odradek.client.consumer.group_effects import GroupCall
from odradek.client.consumer.group_member import GroupMember
from odradek.client.consumer.offset_and_metadata import OffsetAndMetadata
from odradek.client.consumer.subscription_state import SubscriptionState
from odradek.client.errors.answers import UnknownTopicOrPartition
from odradek.client.errors.base import KafkaError
from odradek.client.errors.own import ApiTimeout, CommitFailed
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.offset_commit import OffsetCommitResponse

log = logging.getLogger(__name__)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class Commit(CoordinatorRequest):
    """One commit under way. The value of its waiter is None."""

    def __init__(self, commits: Commits, offsets: Offsets, deadline_ms: int | None) -> None:
        super().__init__(deadline_ms)
        self.commits = commits
        self.offsets = dict(offsets)
        self.signature = commits.signature()
        """As whom it was begun; or why it could not be."""
        self.began_ms = commits.member.now_ms
        self.number = commits.started
        """Among all commits, in the order in which they were started."""
        self.error: KafkaError | None = None
        """Why it failed, once it is over."""

    def build(self) -> RequestBuilder | KafkaError:
        commits = self.commits
        signature = commits.signature()
        if isinstance(self.signature, KafkaError):
            return self.signature
        if isinstance(signature, KafkaError):
            return signature
        if signature != self.signature:
            return CommitFailed(stale(commits.member), ErrorCode.ILLEGAL_GENERATION)
        as_member = commits.subscriptions.is_auto_assigned
        config = commits.member.config
        return group_requests.offset_commit(config, signature, self.offsets, as_member=as_member)

    def waits_for(self, other: CoordinatorRequest) -> bool:
        if not isinstance(other, Commit) or other.number <= self.number:
            return False
        return not self.offsets.keys().isdisjoint(other.offsets)

    def leave_out(self, partitions: Collection[TopicPartition]) -> None:
        """A later commit saw to these."""
        for partition in partitions:
            self.offsets.pop(partition, None)

    @property
    def is_settled(self) -> bool:
        return not self.offsets

    def read(self, call: GroupCall, response: OffsetCommitResponse) -> KafkaError | None:
        error = commit_error(self.commits.member, call, response)
        if error is None:
            self.commits.confirmed(self)
            self.commits.member.metrics.committed(self.began_ms, self.commits.member.now_ms)
        return error

    def late(self) -> KafkaError:
        if isinstance(self.last_error, UnknownTopicOrPartition):
            return self.last_error  # It was deleted while its offsets were being committed.
        return ApiTimeout(
            f"the coordinator of group {self.commits.member.config.group_id} did not confirm in "
            f"time that {len(self.offsets)} offsets are committed; they may be all the same"
            f"{self.why_late('commit again, with more time')}"
        )

    def ended(self, error: KafkaError | None) -> None:
        self.error = error
        if error is not None:
            self.commits.member.metrics.failed_commit_total += 1
        self.commits.ended(self)


class Commits:
    """All commits of one consumer, in order."""

    def __init__(
        self, member: GroupMember, lookup: CoordinatorLookup, subscriptions: SubscriptionState
    ) -> None:
        self.member = member
        self.subscriptions = subscriptions
        self.requests = CoordinatorRequests(member, lookup)
        """Those that are not over."""
        self.auto_commit_ms = member.now_ms + member.config.auto_commit_interval_ms
        """When the next automatic commit is due."""
        self.started = 0
        """How many commits there were."""
        self._auto: Commit | None = None

    def commit(self, offsets: Offsets, deadline_ms: int | None = None) -> Commit:
        """Commit; `waiter` of the result is done when that is over."""
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
        """As whom to commit; or why that is not possible."""
        if not self.subscriptions.is_auto_assigned:
            return Generation()
        member = self.member
        if member.stable_generation is not None:
            return member.stable_generation
        if member.rebalance_in_progress:
            return rebalancing(member)
        return CommitFailed(
            f"this consumer is not an active member of group {member.config.group_id} (any more), "
            f"so it may not commit. What to do: poll, so that it joins; and {CommitFailed.advice}",
            ErrorCode.UNKNOWN_MEMBER_ID,
        )

    def confirmed(self, commit: Commit) -> None:
        """The coordinator has it: earlier ones that are still tried must not take it back."""
        for other in self.requests:
            if isinstance(other, Commit) and other.number < commit.number:
                other.leave_out(commit.offsets)

    def ended(self, commit: Commit) -> None:
        """A commit is over."""
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
        """Commit what the application is done with."""
        self.restart_interval()
        consumed = {
            partition: OffsetAndMetadata(position.offset, "", position.offset_epoch)
            for partition, position in self.subscriptions.consumed.items()
        }
        self._auto = Commit(self, consumed, deadline_ms)
        return self._start(self._auto)

    def restart_interval(self) -> None:
        """The next automatic commit is a full interval away."""
        self.auto_commit_ms = self.member.now_ms + self.member.config.auto_commit_interval_ms

    @property
    def _may_auto_commit(self) -> bool:
        """Whether an automatic commit would make sense: one at a time, and as an active member."""
        if not self.member.config.enable_auto_commit or self._auto is not None:
            return False
        if not self.subscriptions.consumed:
            return False
        return not self.subscriptions.is_auto_assigned or bool(self.member.stable_generation)

    # Time.

    @property
    def next_ms(self) -> int:
        """When something of this is due."""
        auto_ms = self.auto_commit_ms if self._may_auto_commit else NEVER_MS
        return min(auto_ms, self.requests.next_ms)

    def ticked(self) -> None:
        """Time went by."""
        self.requests.ticked()
        if self._may_auto_commit and self.auto_commit_ms <= self.member.now_ms:
            self.auto_commit()
