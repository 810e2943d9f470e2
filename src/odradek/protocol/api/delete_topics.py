"""DeleteTopics (key 20, versions 1 to 6): delete topics by name or id.

- 4: flexible. 5: error messages, THROTTLING_QUOTA_EXCEEDED (KIP-599).
- 6: topics by name or by id, in `topics` instead of `topic_names` (KIP-516).
"""

from __future__ import annotations

from uuid import UUID

from odradek.model.topics import ZERO_UUID
from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class DeleteTopicState:
    """One topic, by name or by id."""

    name: str | None = None
    topic_id: UUID


@message(api=20, versions=(1, 6), flexible=4)
class DeleteTopicsRequest:
    """Delete topics."""

    topics: list[DeleteTopicState] = field(factory=list, since=6)
    topic_names: list[str] = field(factory=list, until=5, ignorable=True)
    timeout_ms: i32


@struct
class DeletableTopicResult:
    """One topic."""

    name: str | None = field(nullable_since=6)
    topic_id: UUID = field(default=ZERO_UUID, since=6, ignorable=True)
    error_code: i16
    error_message: str | None = field(default=None, since=5, ignorable=True)


@message(api=20, versions=(1, 6), flexible=4)
class DeleteTopicsResponse:
    """Per topic, the error or none."""

    throttle_time_ms: i32 = 0
    responses: list[DeletableTopicResult]
