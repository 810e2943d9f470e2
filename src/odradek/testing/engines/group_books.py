"""What the members of one group saw, put together, and judged as they go.

- In one generation, no partition is two members'.
- A member is told what it has: assigned once, taken once, and it gets nothing of anything else.
- What it gets of a partition comes in order, without a gap, from where the group stood.
- *At least once*: what is committed, and so where anybody begins, is behind nothing that no member
  has dealt with. Dealt with is what an application came back from; what it was handed and died with
  is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from odradek.model.topics import TopicPartition

Surprise = Callable[[str, str], None]


@dataclass(slots=True, eq=False)
class GroupBooks:
    """Of one group."""

    group: str
    owners: dict[tuple[int, TopicPartition], str] = field(default_factory=dict)
    """Who took a partition, by generation."""
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    """As it was last found."""
    _done: dict[TopicPartition, set[int]] = field(default_factory=dict)
    """Offsets above the front that were dealt with."""
    _fronts: dict[TopicPartition, int] = field(default_factory=dict)

    def took(
        self, who: str, generation: int, partitions: Iterable[TopicPartition], say: Surprise
    ) -> None:
        """A member was told that it has these."""
        for partition in partitions:
            other = self.owners.setdefault((generation, partition), who)
            if other != who:
                say("owners", f"{partition} of generation {generation} is {other}'s and {who}'s")

    def dealt_with(self, partition: TopicPartition, offset: int) -> None:
        """An application is done with this record."""
        done = self._done.setdefault(partition, set())
        done.add(offset)
        front = self.front(partition)
        while front in done:
            done.remove(front)
            front += 1
        self._fronts[partition] = front

    def front(self, partition: TopicPartition) -> int:
        """All before this has been dealt with."""
        return self._fronts.get(partition, 0)

    def begins(self, partition: TopicPartition, offset: int, say: Surprise) -> None:
        """A member goes on there."""
        if offset > self.front(partition):
            say("skipped", f"{partition} goes on at {offset}; dealt with {self.front(partition)}")

    def found(self, partition: TopicPartition, offset: int, say: Surprise) -> None:
        """Somebody asked what is committed."""
        self.committed[partition] = offset
        if offset > self.front(partition):
            say(
                "committed too far",
                f"{partition} is committed at {offset}; dealt with {self.front(partition)}",
            )
