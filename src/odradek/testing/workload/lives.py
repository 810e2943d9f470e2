"""A topic that is deleted and made again under the same name, with an id of its own each time.

    create ──► alive for a while ──► delete, by id ──confirmed──► a pause ──► create ...
                  │ `born(topic)`        │ `ending(label)`
                  └─ producers and readers of this life work; those of the last one stay

A deletion is asked for until it is confirmed. The id makes a late one harmless: it cannot take the
next life. A late creation may; then the next life has begun before it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from odradek.model.errors import ErrorCode
from odradek.protocol.api.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from odradek.testing.history import Ending, History
from odradek.testing.scheduler import MS
from odradek.testing.workload.topics import TOPIC_UNKNOWN, Topic, TopicCreator, TopicPlan
from odradek.testing.workload.wire import WireClient

DELETE_VERSION = 6


@dataclass(slots=True, eq=False)
class TopicLives:
    """Creates a topic and, as often as its plan says, deletes it and creates it again."""

    client: WireClient
    history: History
    plan: TopicPlan
    born: Callable[[Topic], None]
    ending: Callable[[str], None]
    topics: list[Topic] = field(default_factory=list)
    _asked: int = 0

    def start(self) -> None:
        TopicCreator(self.client, self.history, self.plan, self._created).start()

    @property
    def finished(self) -> bool:
        """Whether the last life has begun."""
        return len(self.topics) > len(self.plan.spans_ms)

    def pending(self) -> str:
        """What it waits for, for a report."""
        ended = [t.label for t in self.topics if t.label in self.history.endings]
        return f"topic {self.plan.name}: {len(self.topics)} lives, {len(ended)} ended"

    def _created(self, topic_id: UUID) -> None:
        number = len(self.topics) + 1
        if any(topic.id == topic_id for topic in self.topics):
            self.history.surprise("refused", f"topic {self.plan.name} is back after its deletion")
            return
        label = self.plan.name if number == 1 else f"{self.plan.name}#{number}"
        topic = Topic(label, self.plan.name, topic_id)
        self.topics.append(topic)
        self.born(topic)
        if not self.finished:
            span_ms = self.plan.spans_ms[number - 1]
            self.client.process.post(span_ms * MS, "delete topic", self._delete)

    def _delete(self) -> None:
        topic = self.topics[-1]
        if topic.label not in self.history.endings:
            self._asked = 0
            self.history.endings[topic.label] = Ending(self.client.process.scheduler.now_ns)
            self.ending(topic.label)
        self._asked += 1
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=None, topic_id=topic.id)], timeout_ms=1500
        )
        self.client.call(request, DELETE_VERSION, DeleteTopicsResponse, self._deleted, self._again)

    def _deleted(self, response: DeleteTopicsResponse) -> None:
        error = ErrorCode(response.responses[0].error_code)
        if error in TOPIC_UNKNOWN and self._asked == 1:
            self.history.surprise("refused", f"deleting {self.topics[-1].label}: {error.name}")
        if error == ErrorCode.NONE or error in TOPIC_UNKNOWN:
            ending = self.history.endings[self.topics[-1].label]
            ending.confirmed_ns = self.client.process.scheduler.now_ns
            pause_ms = self.client.chance.between(0, 300)
            self.client.process.post(pause_ms * MS, "create topic again", self.start)
            return
        if not error.retriable and error != ErrorCode.KAFKA_STORAGE_ERROR:
            self.history.surprise("refused", f"deleting {self.topics[-1].label}: {error.name}")
        self._again()

    def _again(self) -> None:
        delay_ms = self.client.chance.between(30, 500)
        self.client.process.post(delay_ms * MS, "retry delete", self._delete)
