"""DeleteTopics"""

from __future__ import annotations

from uuid import UUID

from odradek.model.ids import ZERO_UUID
from odradek.protocol.schema import field, i16, i32, message, struct


@struct
class DeleteTopicState:
    """The name or topic ID of the topic."""

    name: str | None = field(default=None)
    topic_id: UUID


@message(api=20, versions=(1, 6), flexible=4)
class DeleteTopicsRequest:
    """"""

    topics: list[DeleteTopicState] = field(factory=list, since=6)
    topic_names: list[str] = field(factory=list, until=5, ignorable=True)
    timeout_ms: i32


@struct
class DeletableTopicResult:
    """The results for each topic we tried to delete."""

    name: str | None = field(nullable_since=6)
    topic_id: UUID = field(default=ZERO_UUID, since=6, ignorable=True)
    error_code: i16
    error_message: str | None = field(default=None, since=5, ignorable=True)


@message(api=20, versions=(1, 6), flexible=4)
class DeleteTopicsResponse:
    """"""

    throttle_time_ms: i32 = field(default=0)
    responses: list[DeletableTopicResult]
