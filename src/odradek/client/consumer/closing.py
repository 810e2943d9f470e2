"""Closing: how a consumer takes leave of its group.

    commit ─► all commits are over ─► the listener's last call ─► LeaveGroup ─► answered ─► done
    └──────────────────── at the deadline the next step is taken all the same ────────────────┘

A listener that is being called is waited for, and its turn ends there: nothing comes of the
rebalance any more. One that closes by itself is not, nor one that takes longer than the deadline;
that one is not called once more.

Automatic commits, if on, take a last one. A static member does not send LeaveGroup: its place is
kept for a session, in case it comes back (`MembershipOperation` says otherwise, KIP-1092). What the
listener raises is raised by close, after everything has been done.
"""

from __future__ import annotations

from enum import Enum

from odradek.client.alarm import NEVER_MS
from odradek.client.consumer.commits import Commits
from odradek.client.consumer.coordinator_requests import CoordinatorRequests
from odradek.client.consumer.group_effects import Raise, Resolve
from odradek.client.consumer.membership import Membership
from odradek.client.consumer.rebalance import Rebalance
from odradek.client.errors.own import ClientClosed
from odradek.client.waiter import Waiter


class MembershipOperation(Enum):
    """Whether to leave the group when the consumer closes."""

    DEFAULT = "default"
    """Dynamic members leave, static ones stay for a session."""
    LEAVE_GROUP = "leave"
    REMAIN_IN_GROUP = "remain"


class Phase(Enum):
    """How far it is."""

    COMMITTING = "committing"
    CALLING = "calling"
    LEAVING = "leaving"
    CLOSED = "closed"


class Closing:
    """One close. `waiter` is done when it is."""

    def __init__(
        self,
        rebalance: Rebalance,
        membership: Membership,
        commits: Commits,
        questions: CoordinatorRequests,
        deadline_ms: int,
        operation: MembershipOperation,
    ) -> None:
        self.rebalance = rebalance
        self.membership = membership
        self.member = membership.member
        self.commits = commits
        self.questions = questions
        self.deadline_ms = deadline_ms
        self.operation = operation
        self.waiter: Waiter[None] = Waiter()
        self.phase = Phase.COMMITTING
        self._error: BaseException | None = None
        if self.member.config.enable_auto_commit and commits.subscriptions.consumed:
            commits.auto_commit(deadline_ms)

    @property
    def next_ms(self) -> int:
        waits_for_time = self.phase in (Phase.COMMITTING, Phase.LEAVING)
        return self.deadline_ms if waits_for_time else NEVER_MS

    def advance(self) -> None:
        """Go on as far as it goes now."""
        late, rebalance = self.member.now_ms >= self.deadline_ms, self.rebalance
        if self.phase is Phase.COMMITTING and rebalance.in_turn:
            if late:
                rebalance.break_off()
                self._called(None)
        elif self.phase is Phase.COMMITTING and (late or not self.commits.requests):
            self.phase = Phase.CALLING
            rebalance.begin(rebalance.turns.leave(), self._called)
        elif self.phase is Phase.LEAVING and (late or self.membership.leaving is None):
            self.phase = Phase.CLOSED
            gone = ClientClosed("the consumer was closed")
            self.commits.requests.abandon(gone)
            self.questions.abandon(gone)
            self.member.effects.append(Resolve(self.waiter, error=self._error))

    def callback_returned(self, error: BaseException | None) -> None:
        """The listener returned, or raised."""
        if self.phase is Phase.CALLING:
            self.rebalance.callback_returned(error)
            return
        self.rebalance.break_off()
        if error is not None:
            self.member.effects.append(Raise(error))

    def _called(self, error: BaseException | None) -> None:
        self._error = error
        self.phase = Phase.LEAVING
        if self.operation is not MembershipOperation.REMAIN_IN_GROUP:
            self.membership.leave(
                "the consumer is being closed",
                even_static=self.operation is MembershipOperation.LEAVE_GROUP,
            )
        self.advance()
