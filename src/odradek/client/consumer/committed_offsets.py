"""Committed offsets: asking the coordinator how far the group has read.

Only stable offsets are wanted (KIP-447): where a transaction that commits offsets is open, the
answer is UNSTABLE_OFFSET_COMMIT and the question is put again, for reading on from older offsets
would be reading twice.
"""

from __future__ import annotations

from collections.abc import Collection

from odradek.client.api_versions import RequestBuilder
from odradek.client.consumer.coordinator_requests import CoordinatorRequest
from odradek.client.consumer.group_effects import GroupCall
from odradek.client.consumer.group_member import COORDINATOR_MOVED, GroupMember
from odradek.client.consumer.group_requests import Committed, fetch_answer, offset_fetch
from odradek.client.consumer.offset_and_metadata import OffsetAndMetadata
from odradek.client.errors.answers import error_for
from odradek.client.errors.base import KafkaError
from odradek.client.errors.own import ApiTimeout
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.offset_fetch import OffsetFetchResponse

Found = dict[TopicPartition, OffsetAndMetadata | None]


class OffsetQuestion(CoordinatorRequest):
    """One question. The value of its waiter is `Found`: None where nothing was committed."""

    def __init__(
        self, member: GroupMember, partitions: Collection[TopicPartition], deadline_ms: int
    ) -> None:
        super().__init__(deadline_ms)
        self.member = member
        self.partitions = list(partitions)

    def build(self) -> RequestBuilder:
        return offset_fetch(self.member.config.group_id, self.partitions)

    def read(self, call: GroupCall, response: OffsetFetchResponse) -> Found | KafkaError:
        code, rows = fetch_answer(response)
        if code in COORDINATOR_MOVED:
            self.member.lose_coordinator(code.name, call.node)
        if code is not ErrorCode.NONE:
            return error_for(code, self._what())
        return self._found(rows)

    def _found(self, rows: list[Committed]) -> Found | KafkaError:
        """The offsets; or the error, of which one about the whole question weighs most."""
        denied: dict[str, None] = {}
        unstable = False
        for partition, code, _ in rows:
            if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                denied[partition.topic] = None
            elif code is ErrorCode.UNSTABLE_OFFSET_COMMIT:
                unstable = True
            elif code is not ErrorCode.NONE:
                return error_for(code, f"{self._what()} ({partition})")
        if denied:
            topics = ", ".join(denied)
            return error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{self._what()} ({topics})")
        if unstable:
            return error_for(ErrorCode.UNSTABLE_OFFSET_COMMIT, self._what())
        return {row.partition: row.found for row in rows}

    def late(self) -> KafkaError:
        return ApiTimeout(
            f"the coordinator of group {self.member.config.group_id} did not tell in time what is "
            f"committed for {len(self.partitions)} partitions{self.why_late('ask with more time')}"
        )

    def _what(self) -> str:
        return f"asking for the committed offsets of group {self.member.config.group_id}"
