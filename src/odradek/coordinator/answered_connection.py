"""AnsweredConnection: an older connection whose client was told to try again.

A request that changes a transaction may be late: sent over a connection that its client has given
up since. `transaction.end_txn` and `group.late_offset_commits` say how that is noticed. The client
is told to try again, and only one that still reads that connection does.
"""

from __future__ import annotations

from typing import Final, NamedTuple

ANSWER_READ_MS: Final = 10
"""Requests that a client sent before it gave a connection up come one right after the other. What
comes over the connection so long after the first answer was sent by a client that has read it.
"""


class AnsweredConnection(NamedTuple):
    """The number of the connection, and when the first answer was sent."""

    connection: int
    at_ms: int

    def is_read(self, now_ms: int) -> bool:
        """True if the client has read the answer by now. All times are of a monotonic clock."""
        return now_ms - self.at_ms >= ANSWER_READ_MS
