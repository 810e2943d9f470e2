"""What retention may take from a topic, as the checker sees it from outside.

Kafka removes whole segments, oldest first: by age, when the newest record of a segment is older
than `retention.ms` by the broker's wall clock; by size, while what is left has `retention.bytes`.
A client sees no segments. So what follows from that for single records is held to:

    not too early   a record that is gone was older than `ms` by the fastest clock there was, or
                    more than `bytes` are left
    not too late    long after the last fault nothing older is left, and not much more

The second holds where the broker's clock was never set, for retention distrusts one that jumps.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """Of one topic: `retention.ms` and `retention.bytes`, -1 for without; the size of a segment."""

    ms: int = -1
    bytes: int = -1
    segment_bytes: int = 0

    def may_take(self, timestamp_ms: int, latest_wall_ms: int, left_bytes: int) -> bool:
        """Whether a record of this time may be gone, with so much left of its log."""
        old = 0 <= self.ms < latest_wall_ms - timestamp_ms
        return old or 0 <= self.bytes <= left_bytes

    def must_have_taken(self, timestamp_ms: int, wall_ms: int) -> bool:
        """Whether a record of this time can no longer be there by age."""
        return 0 <= self.ms < wall_ms - timestamp_ms

    def too_large(self, left_bytes: int) -> bool:
        """Whether this much can no longer be there by size: a whole segment more than is wanted,
        besides the one that is written to.
        """
        return self.bytes >= 0 and left_bytes > self.bytes + 2 * self.segment_bytes
