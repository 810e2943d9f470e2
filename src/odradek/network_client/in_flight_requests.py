"""InFlightRequests: the requests sent to each node that are not answered yet.

A node answers in order, so a response belongs to the oldest request that expects one. Requests that
expect none (produce with `acks=0`) are over when the last of their bytes was written.

    add ─► per node, oldest first ─┬─ complete_next: a response came
                                   ├─ written: those without a response
                                   └─ clear: the connection is lost, all of them, in order

A `ClientRequest` is a request with its handler and, later, its outcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from odradek.network_client.api_versions import Codec
from odradek.network_client.errors import KafkaError

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
        """The request as it was given to `NetworkClient.send`."""
        self.handler = handler
        self.created_ms = created_ms
        self.sent_ms = created_ms
        """When it was written; until then, when it was created."""
        self.timeout_ms = timeout_ms
        self.deadline_ms = created_ms + timeout_ms
        self.expects_response = expects_response
        self.correlation_id = -1
        """Counts beyond the 31 bits of the wire, so that it is also the order of sending."""
        self.codec: Codec | None = None
        """The version in which it was sent, and how to read its response."""
        self.response: Any = None
        self.error: KafkaError | None = None
        self.done = False

    @property
    def was_sent(self) -> bool:
        """True if a node may have received it."""
        return self.codec is not None

    @property
    def version(self) -> int:
        """The version in which it was sent; -1 if it was not."""
        return -1 if self.codec is None else self.codec.version

    def finish(self, response: Any, error: KafkaError | None) -> None:
        """Set the outcome and call the handler."""
        assert not self.done, "a request ends once"
        self.done = True
        self.response = response
        self.error = error
        self.handler(self)


class InFlightRequests:
    """Per node, the requests that expect a response, and those that expect none."""

    def __init__(self, max_in_flight: int) -> None:
        self.max_in_flight = max_in_flight
        """max.in.flight.requests.per.connection."""
        self._expecting_response: dict[int, deque[ClientRequest]] = {}
        self._expecting_none: dict[int, deque[ClientRequest]] = {}

    def count(self, node_id: int) -> int:
        """Return the number of requests in flight to the node."""
        answered = self._expecting_response.get(node_id)
        written = self._expecting_none.get(node_id)
        return (len(answered) if answered else 0) + (len(written) if written else 0)

    @property
    def total(self) -> int:
        """The number of requests in flight to all nodes. Any thread."""
        queues = [*self._expecting_response.values(), *self._expecting_none.values()]
        return sum(map(len, queues))

    def can_send_more(self, node_id: int) -> bool:
        """True if another one fits under the limit."""
        return self.count(node_id) < self.max_in_flight

    def add(self, request: ClientRequest) -> None:
        """Add a request that is being written."""
        queues = self._expecting_response if request.expects_response else self._expecting_none
        queue = queues.get(request.node_id)
        if queue is None:
            queues[request.node_id] = queue = deque()
        queue.append(request)

    def complete_next(self, node_id: int) -> ClientRequest | None:
        """Take out the request that a response belongs to; None if there is none."""
        queue = self._expecting_response.get(node_id)
        return queue.popleft() if queue else None

    def written(self, node_id: int) -> list[ClientRequest]:
        """Take out, in order, the requests without a response: all bytes were written."""
        queue = self._expecting_none.get(node_id)
        if not queue:
            return []
        done = list(queue)
        queue.clear()
        return done

    def clear(self, node_id: int) -> list[ClientRequest]:
        """Take out all requests in the order of sending: the connection is lost."""
        lost = [*self._expecting_none.pop(node_id, ()), *self._expecting_response.pop(node_id, ())]
        lost.sort(key=correlation_id_of)
        return lost

    def has_unwritten(self, node_id: int) -> bool:
        """True if a request that expects no response is still being written."""
        return bool(self._expecting_none.get(node_id))

    def next_to_time_out(self, node_id: int) -> ClientRequest | None:
        """Return the request that times out first; None if nothing is in flight."""
        found: ClientRequest | None = None
        for queues in (self._expecting_response, self._expecting_none):
            for request in queues.get(node_id, ()):
                if found is None or request.deadline_ms < found.deadline_ms:
                    found = request
        return found


def correlation_id_of(request: ClientRequest) -> int:
    """Return the sort key for the order of sending."""
    return request.correlation_id
