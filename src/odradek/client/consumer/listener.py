"""What the application wants to be told of rebalances.

    on_assign    partitions that it has now, beside those it had
    on_revoke    partitions that are about to be taken: finish and commit what was read of them
    on_lost      partitions that somebody else may have by now; without it, on_revoke is told

Called inside polls (and closing) of the application's, with the consumer and the partitions.
They may do with it what they like but unsubscribe; one that closes it has on_revoke called at once,
with what there is left to revoke, and a poll around it raises `ClientClosed`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from odradek.client.consumer.group_effects import Occasion
from odradek.model.topics import TopicPartition

RebalanceCallback = Callable[[Any, list[TopicPartition]], Any]


@dataclass(frozen=True, slots=True)
class RebalanceListener:
    """Up to three functions."""

    on_assign: RebalanceCallback | None = None
    on_revoke: RebalanceCallback | None = None
    on_lost: RebalanceCallback | None = None

    def callback(self, occasion: Occasion) -> RebalanceCallback | None:
        """Whom to tell."""
        if occasion is Occasion.ASSIGNED:
            return self.on_assign
        if occasion is Occasion.LOST and self.on_lost is not None:
            return self.on_lost
        return self.on_revoke
