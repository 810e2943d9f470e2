"""The messages of Produce, as classes that compile to native ones. Those of Fetch and Heartbeat are
in `hot_fetch_messages` and `hot_heartbeat_messages`.

One of each is made per request, so what a generated dataclass costs to make and to read would be a
tenth of the request. Their wire form is declared like that of all others, in `api.produce`, which
also is where everybody else imports them from; only leaves, to whom the native form matters,
import from here.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from odradek.model.ids import ZERO_UUID
from odradek.protocol.schema import fields_of


class HotMessage:
    """Equality and representation as generated dataclasses have them."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(
            getattr(self, each.name) == getattr(other, each.name) for each in fields_of(type(self))
        )

    def __hash__(self) -> int:
        raise TypeError(f"{type(self).__name__} is mutable: it has no hash")

    def __repr__(self) -> str:
        inside = (f"{each.name}={getattr(self, each.name)!r}" for each in fields_of(type(self)))
        return f"{type(self).__name__}({', '.join(inside)})"


class PartitionProduceData(HotMessage):
    """The batches for one partition."""

    __slots__ = ("index", "records")

    def __init__(self, *, index: int, records: Any) -> None:
        self.index = index
        self.records = records


class TopicProduceData(HotMessage):
    """One topic, by name up to 12, by id from 13."""

    __slots__ = ("name", "partition_data", "topic_id")

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_data: list[PartitionProduceData],
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = partition_data


class ProduceRequest(HotMessage):
    """Append record batches; the answer waits for `acks`."""

    __slots__ = ("acks", "timeout_ms", "topic_data", "transactional_id")

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int,
        timeout_ms: int,
        topic_data: list[TopicProduceData],
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = topic_data


class PartitionProduceResponse(HotMessage):
    """What became of one partition's batches."""

    __slots__ = (
        "base_offset",
        "current_leader",
        "error_code",
        "error_message",
        "index",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
    )

    def __init__(
        self,
        *,
        index: int,
        error_code: int,
        base_offset: int,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[Any] | None = None,
        error_message: str | None = None,
        current_leader: Any = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors: list[Any] = [] if record_errors is None else record_errors
        self.error_message = error_message
        self.current_leader = current_leader


class TopicProduceResponse(HotMessage):
    """One topic, as in the request."""

    __slots__ = ("name", "partition_responses", "topic_id")

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_responses: list[PartitionProduceResponse],
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = partition_responses


class ProduceResponse(HotMessage):
    """Per partition, where its batch was appended or why it was not."""

    __slots__ = ("node_endpoints", "responses", "throttle_time_ms")

    def __init__(
        self,
        *,
        responses: list[TopicProduceResponse],
        throttle_time_ms: int = 0,
        node_endpoints: list[Any] | None = None,
    ) -> None:
        self.responses = responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints: list[Any] = [] if node_endpoints is None else node_endpoints
