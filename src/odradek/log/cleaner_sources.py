"""The segments that a pass of compaction reads, and which of them become one.

They are taken down when a pass begins, on the owner thread, for the log goes on meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from odradek.log.cleanable import LogToClean
from odradek.log.scan import MAX_RELATIVE_OFFSET
from odradek.log.segment import Segment


@dataclass(slots=True, frozen=True)
class Source:
    """A segment as it was when the pass began; `end_offset` is where the next one begins."""

    segment: Segment
    path: str
    size: int
    base_offset: int
    end_offset: int


def sources_of(plan: LogToClean) -> list[Source]:
    """The segments of a plan, each with its end."""
    ends = [segment.base_offset for segment in plan.segments[1:]]
    return [
        Source(segment, segment.file.path, segment.size, segment.base_offset, end)
        for segment, end in zip(plan.segments, [*ends, plan.first_uncleanable_offset])
    ]


def groups(sources: list[Source], segment_bytes: int) -> Iterator[list[Source]]:
    """Neighbours that together are no larger than one segment, as many as go together."""
    group: list[Source] = []
    for source in sources:
        if group and (
            sum(each.size for each in group) + source.size > segment_bytes
            or source.end_offset - 1 - group[0].base_offset > MAX_RELATIVE_OFFSET
        ):
            yield group
            group = []
        group.append(source)
    if group:
        yield group
