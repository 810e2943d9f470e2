"""Which part of a compacted log may be cleaned, and how much that is worth.

    |<------ clean ------>|<----------- dirty ----------->|<------- not yet ------->|
    log start             first dirty offset              first uncleanable offset  log end

*Clean* is what earlier passes have seen: no key is there twice. The first dirty offset is recorded
in `cleaner-offset-checkpoint`. A pass compares the dirty part with itself and with the clean one.

Not yet: the active segment; what is not committed; what a recovery would read again (from the
recovery point on); segments with a record younger than `min.compaction.lag.ms`. Whole segments
only.

A log is worth a pass if the dirty part is more than `min.cleanable.dirty.ratio` of what could be
cleaned, or if its oldest segment has waited longer than `max.compaction.lag.ms`.
"""

from __future__ import annotations

from dataclasses import dataclass

from odradek.log.log import Log
from odradek.log.log_config import NEVER
from odradek.log.segment import Segment


@dataclass(slots=True, frozen=True)
class LogToClean:
    """What a pass over `log` would do. Bytes are of whole segments; one that the last pass was cut
    short in counts as clean and as cleanable, as in Kafka.
    """

    log: Log
    segments: list[Segment]
    """Those before the first uncleanable offset, clean ones included."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    waited_too_long: bool

    @property
    def cleanable_ratio(self) -> float:
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total > 0 else 0.0

    @property
    def worth_it(self) -> bool:
        if self.waited_too_long and self.cleanable_bytes > 0:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def log_to_clean(log: Log, clean_offset: int | None, now_ms: int) -> LogToClean:
    """What there is to clean; `clean_offset` is the recorded first dirty offset, if there is one.

    `now_ms`: wall time that does not jump. Raises `LogDamaged`, `OSError`.
    """
    first_dirty = clean_offset if clean_offset is not None else log.log_start_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    segments = _before(log, min(log.high_watermark, log.recovery_point))
    dirty = [s for n, s in enumerate(segments) if log.segments.end_of(n) > first_dirty]
    young = _first_younger(dirty, now_ms, log.config.min_compaction_lag_ms)
    if young is not None:
        del dirty[dirty.index(young) :]
        del segments[segments.index(young) :]
    first_uncleanable = log.segments.end_of(len(segments) - 1) if segments else first_dirty
    clean_bytes = sum(s.size for s in segments if s.base_offset < first_dirty)
    return LogToClean(
        log,
        segments,
        first_dirty,
        max(first_uncleanable, first_dirty),
        clean_bytes,
        sum(s.size for s in dirty),
        _waited_too_long(dirty, now_ms, log.config.max_compaction_lag_ms),
    )


def _before(log: Log, offset: int) -> list[Segment]:
    """The inactive segments that end at or before `offset`."""
    inactive = log.segments.items[:-1]
    return [s for n, s in enumerate(inactive) if log.segments.end_of(n) <= offset]


def _first_younger(segments: list[Segment], now_ms: int, lag_ms: int) -> Segment | None:
    if lag_ms <= 0:
        return None
    return next((s for s in segments if s.largest_timestamp() > now_ms - lag_ms), None)


def _waited_too_long(segments: list[Segment], now_ms: int, lag_ms: int) -> bool:
    if lag_ms >= NEVER:
        return False
    times = [t for s in segments if (t := s.read_first_timestamp()) is not None and t > 0]
    return bool(times) and min(times) < now_ms - lag_ms
