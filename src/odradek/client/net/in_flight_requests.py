"""InFlightRequests: what was sent to each node and is not answered yet. The one place that knows.

A node answers in the order it was asked, so the oldest request that expects an answer is the one a
response belongs to. Requests that expect none (produce with `acks=0`) are over when the last of
their bytes was written.

    add ─► per node, oldest first ─┬─ complete_next: a response came
                                   ├─ written: those without an answer
                                   └─ clear: the connection is gone, all of them, in order

A `ClientRequest` is a request, the place where its outcome is put, and who wants to know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from odradek.client.errors import KafkaError
from odradek.client.net.api_versions import Codec

RequestHandler = Callable[["ClientRequest"], None]


class ClientRequest:
    """A request with its outcome. Exactly one of `response` and `error` is set when `handler` is
    called, once; neither for a request that expects no answer."""

    __slots__ = (
        "codec",
        "correlation_id",
        "created_ms",
        "deadline_ms",
        "done",
        "error",
        "expects_response",
        "handler",
        "node_id",
        "request",
        "response",
        "sent_ms",
        "timeout_ms",
    )

    def __init__(
        self,
        node_id: int,
        request: Any,
        handler: RequestHandler,
        created_ms: int,
        timeout_ms: int,
        expects_response: bool,
    ) -> None:
        self.node_id = node_id
        self.request = request
        """What was asked, as it was given to `NetworkClient.send`."""
        self.handler = handler
        self.created_ms = created_ms
        self.sent_ms = created_ms
        """When it was written; before, when it was given."""
        self.timeout_ms = timeout_ms
        self.deadline_ms = created_ms + timeout_ms
        self.expects_response = expects_response
        self.correlation_id = -1
        """Counts on beyond what fits the wire, so that it is also the order of sending."""
        self.codec: Codec | None = None
        """The version in which it was sent, and how to read the answer."""
        self.response: Any = None
        self.error: KafkaError | None = None
        self.done = False

    @property
    def was_sent(self) -> bool:
        """Whether a node may have got it."""
        return self.codec is not None

    @property
    def version(self) -> int:
        """The version it was sent in; -1 if it was not."""
        return -1 if self.codec is None else self.codec.version

    def finish(self, response: Any, error: KafkaError | None) -> None:
        """The outcome; tells the handler."""
        assert not self.done, "a request ends once"
        self.done = True
        self.response = response
        self.error = error
        self.handler(self)


class InFlightRequests:
    """Per node: those that will be answered, and those that only have to be written."""

    def __init__(self, max_in_flight: int) -> None:
        self.max_in_flight = max_in_flight
        """max.in.flight.requests.per.connection."""
        self._expecting_response: dict[int, deque[ClientRequest]] = {}
        self._expecting_none: dict[int, deque[ClientRequest]] = {}

    def count(self, node_id: int) -> int:
        """How many are in flight to the node."""
        answered = self._expecting_response.get(node_id)
        written = self._expecting_none.get(node_id)
        return (len(answered) if answered else 0) + (len(written) if written else 0)

    @property
    def total(self) -> int:
        """How many are in flight to all nodes."""
        return sum(map(len, self._expecting_response.values())) + sum(
            map(len, self._expecting_none.values())
        )

    def can_send_more(self, node_id: int) -> bool:
        """Whether another one fits under the limit."""
        return self.count(node_id) < self.max_in_flight

    def add(self, request: ClientRequest) -> None:
        """It is being written."""
        queues = self._expecting_response if request.expects_response else self._expecting_none
        queue = queues.get(request.node_id)
        if queue is None:
            queues[request.node_id] = queue = deque()
        queue.append(request)

    def complete_next(self, node_id: int) -> ClientRequest | None:
        """A response came: the request it belongs to; None if nothing was asked."""
        queue = self._expecting_response.get(node_id)
        return queue.popleft() if queue else None

    def written(self, node_id: int) -> list[ClientRequest]:
        """All bytes were written: take out what expects no answer, in order."""
        queue = self._expecting_none.get(node_id)
        if not queue:
            return []
        done = list(queue)
        queue.clear()
        return done

    def clear(self, node_id: int) -> list[ClientRequest]:
        """The connection is gone: take out all, in the order they were sent."""
        gone = [*self._expecting_none.pop(node_id, ()), *self._expecting_response.pop(node_id, ())]
        gone.sort(key=correlation_id_of)
        return gone

    def has_unwritten(self, node_id: int) -> bool:
        """Whether something is being written that will not be answered."""
        return bool(self._expecting_none.get(node_id))

    def next_to_time_out(self, node_id: int) -> ClientRequest | None:
        """The one that times out first; None if nothing is in flight."""
        found: ClientRequest | None = None
        for queues in (self._expecting_response, self._expecting_none):
            for request in queues.get(node_id, ()):
                if found is None or request.deadline_ms < found.deadline_ms:
                    found = request
        return found


def correlation_id_of(request: ClientRequest) -> int:
    """The order in which requests were sent."""
    return request.correlation_id
