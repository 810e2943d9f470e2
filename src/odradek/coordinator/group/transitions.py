"""GroupTransitions: the last changes of state of the groups of a coordinator, with their reasons.

A transition is noted where the state changes, so that heartbeats, commits and fetches cost nothing.
Changes that a start replays from the log are not noted: their reasons are not known any more. The
memory is bounded: 10,000 transitions, each with names and a reason of limited length.
"""

from __future__ import annotations

from typing import Final, NamedTuple

TRANSITIONS_KEPT: Final = 10_000
LONGEST_NAME: Final = 250
LONGEST_REASON: Final = 600


class GroupTransition(NamedTuple):
    """One change of state; the counts of members are those after it."""

    number: int
    """Ascending from 0 since the broker started."""
    time_ms: int
    """Since the epoch."""
    group_id: str
    from_state: str
    to_state: str
    generation: int
    members: int
    pending_members: int
    """Ids that were given out to clients which have yet to join with them."""
    reason: str


class GroupTransitions:
    """A ring of the last `capacity` transitions."""

    def __init__(self, capacity: int = TRANSITIONS_KEPT) -> None:
        self.capacity = capacity
        self.total = 0
        """The number of transitions noted so far, which is the number of the next one."""
        self.by_state: dict[str, int] = {}
        """How many of them led to each state."""
        self._ring: list[GroupTransition] = []

    def note(
        self,
        time_ms: int,
        group_id: str,
        states: tuple[str, str],
        generation: int,
        members: tuple[int, int],
        reason: str,
    ) -> None:
        """Add a transition between two states; `members` are those of the group and pending ids."""
        noted = GroupTransition(
            self.total,
            time_ms,
            shortened(group_id, LONGEST_NAME),
            *states,
            generation,
            *members,
            shortened(reason, LONGEST_REASON),
        )
        if len(self._ring) < self.capacity:
            self._ring.append(noted)
        else:
            self._ring[self.total % self.capacity] = noted
        self.total += 1
        self.by_state[noted.to_state] = self.by_state.get(noted.to_state, 0) + 1

    def newest_before(self, number: int, limit: int) -> list[GroupTransition]:
        """Return up to `limit` transitions with lower numbers, the newest first."""
        end = min(number, self.total)
        start = max(end - limit, self.total - len(self._ring))
        return [self._ring[each % self.capacity] for each in range(end - 1, start - 1, -1)]


def shortened(text: str, longest: int) -> str:
    """Return the text, or its beginning and an ellipsis: clients choose names of up to 32 KiB."""
    return text if len(text) <= longest else text[: longest - 1] + "…"
