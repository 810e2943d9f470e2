"""One broker for a script: sends requests and raw bytes, and records outcomes under labels.

An outcome is the plain tree of the answer, or one of three words:

    closed      the broker ended the connection
    silence     it did not answer, but answers the next request on the same connection
    no answer   nothing within `PATIENCE_S`

The connection is kept until the broker closes it, and then replaced. This project's codec decodes
the answers; each is encoded again and must give the received bytes, so every answer of a real
Kafka tests the codec too.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import UUID

from interop.differential.plain import Names, Plain, plain
from odradek.broker.apis import CLIENT_ROWS
from odradek.model.errors import ErrorCode
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.delete_topics import DeleteTopicsRequest
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.frame import decode_response_header, request_parts, response_is_flexible
from odradek.protocol.generated_writer import joined
from odradek.protocol.schema import declaration

CLOSED, SILENCE, NO_ANSWER = "closed", "silence", "no answer"
PATIENCE_S = 20.0
SHORT_PATIENCE_S = 1.5
STILL_WAITING_S = 0.3
PROBE_ID = 0x70726F62
SYNC_TOPIC = "sync"


class Peer:
    """One broker.

    `versions` are those that both brokers serve, by key. `steps` is the transcript, `answered` the
    keys and versions of the requests whose answers are in it.
    """

    def __init__(self, name: str, port: int, versions: dict[int, range], seed: int = 1) -> None:
        self.name = name
        self.port = port
        self.versions = versions
        self.names = Names()
        self.random = random.Random(seed)
        self.steps: dict[str, Plain] = {}
        self.answered: set[tuple[int, int]] = set()
        self.topic_ids: dict[str, UUID] = {}
        self._socket: socket.socket | None = None
        self._correlation_id = 0
        self._begun: list[PendingRequest] = []

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def end(self) -> None:
        """Wait for the response and record it; return it, None if there was none."""
        self.close()
        for each in self._begun:
            each.close()

    def each_version(self, request: type[Any], since: int = 0) -> Iterator[int]:
        """Return the versions of an API that both brokers serve."""
        for version in self.versions[declaration(request).api]:
            if version >= since:
                yield version

    # -- asking --------------------------------------------------------------------------------

    def call(self, label: str, request: Any, version: int, *, hangs: bool = False) -> Any:
        """Send a request and record the outcome; return the response, None if there was none.

        `hangs`: one of the two brokers is known not to answer, so do not wait for long.
        """
        response, outcome = self._exchange(
            request, version, SHORT_PATIENCE_S if hangs else PATIENCE_S
        )
        self._note_answer(label, request, version, response, outcome)
        return response

    def _note_answer(
        self, label: str, request: Any, version: int, response: Any, outcome: str
    ) -> None:
        self.note(label, outcome if response is None else self.plain(response))
        if response is not None:
            self.answered.add((declaration(type(request)).api, version))

    def ask(self, request: Any, version: int) -> Any:
        """Send a request without recording it; return the response, which must come."""
        response, outcome = self._exchange(request, version)
        assert response is not None, f"{self.name} to {type(request).__name__}: {outcome}"
        self.plain(response)
        return response

    def note(self, label: str, outcome: Plain) -> None:
        """Record an outcome in the transcript."""
        assert label not in self.steps, f"two steps are called {label!r}"
        self.steps[label] = outcome

    def send_unanswered(self, label: str, request: Any, version: int) -> None:
        """Send a request without a response (produce with `acks=0`); record if the connection
        lives.
        """
        key = declaration(type(request)).api
        self.raw(
            label,
            joined(request_parts(key, version, 1, "script", [encode_bytes(request, version)])),
        )

    def raw(self, label: str, data: bytes, *, half_close: bool = False) -> None:
        """Send raw bytes, length included, and record the outcome.

        `half_close` shuts down the sending side, as is needed where `data` states a larger length.
        An answer is recorded as its bytes without the correlation id.
        """
        self.close()
        sock = self._connected()
        probe = b"" if half_close else joined(request_parts(18, 0, PROBE_ID, "probe", []))
        try:
            sock.sendall(data + probe)
            if half_close:
                sock.shutdown(socket.SHUT_WR)
            frame = self._receive()
        except TimeoutError:
            self.note(label, NO_ANSWER)
        except OSError:
            self.note(label, CLOSED)
        else:
            answered = int.from_bytes(frame[:4], "big") != PROBE_ID
            self.note(label, frame[4:].hex() if answered else SILENCE)
        self.close()

    def plain(self, response: Any) -> Plain:
        """Return the tree of a response, after learning its ids."""
        if isinstance(response, (CreateTopicsResponse, MetadataResponse)):
            for topic in response.topics:
                if topic.topic_id != ZERO_UUID and topic.name:
                    self.names.topic_is(topic.topic_id, topic.name)
                    self.topic_ids[topic.name] = topic.topic_id
        return plain(response, self.names)

    def begin(self, request: Any, version: int) -> PendingRequest:
        """Send a request on a connection of its own, without waiting: other requests may come
        first.
        """
        begun = PendingRequest(self._aside(), request, version)
        begun.send()
        self._begun.append(begun)
        return begun

    def begin_together(
        self, requests: Sequence[Any], versions: Sequence[int]
    ) -> list[PendingRequest]:
        """Send requests at once, each on a connection of its own that is open before."""
        begun = []
        for request, version in zip(requests, versions, strict=True):
            aside = self._aside()
            aside._connected()
            begun.append(PendingRequest(aside, request, version))
        for each in begun:
            each.send()
        self._begun += begun
        return begun

    def at(self, port: int) -> Peer:
        """The same transcript, with requests to another node of the cluster."""
        aside = self._aside()
        aside.port = port
        return aside

    def _aside(self) -> Peer:
        """The same broker and transcript, with a connection of its own."""
        aside = Peer(self.name, self.port, self.versions)
        aside.names, aside.steps, aside.answered = self.names, self.steps, self.answered
        return aside

    # -- state that scripts need -----------------------------------------------------------------

    def new_topic(self, name: str, partitions: int = 1, **configs: str) -> UUID:
        """Create a topic and wait until its partitions answer. Setting names have underscores."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = creatable(name, partitions, configs=settings)
        response = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=15000), 7)
        assert response.topics[0].error_code == 0, response.topics[0]
        for index in range(partitions):
            self.until_partition(name, index, ErrorCode.NONE)
        return self.topic_ids[name]

    def delete_all_topics(self) -> None:
        """Remove the topics of earlier scripts."""

        def names() -> list[str]:
            return [topic.name for topic in self.ask(MetadataRequest(topics=None), 9).topics]

        self.ask(DeleteTopicsRequest(topic_names=names(), timeout_ms=15000), 5)
        self.until(lambda: not names())

    def until_partition(self, name: str, index: int, error: int) -> None:
        """Wait until ListOffsets gives `error`: metadata reach brokers with a delay."""
        asked = ListOffsetsPartition(partition_index=index, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[asked])]
        )
        self.until(lambda: self.ask(request, 1).topics[0].partitions[0].error_code == error)

    def until(self, condition: Callable[[], bool]) -> None:
        """Send a request until the condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{self.name}: the condition does not hold"
            time.sleep(0.005)

    def ask_until(self, request: Any, version: int, condition: Callable[[Any], bool]) -> Any:
        """Send a request until the condition holds for its answer; return that answer."""
        answers: list[Any] = []

        def answered() -> bool:
            answers[:] = [self.ask(request, version)]
            return condition(answers[0])

        self.until(answered)
        return answers[0]

    def until_next_millisecond(self) -> None:
        """Wait until the broker's append times are later than all earlier ones."""
        now_ms = time.time_ns() // 1_000_000
        while time.time_ns() // 1_000_000 <= now_ms:
            time.sleep(0.0005)

    # -- bytes -----------------------------------------------------------------------------------

    def _exchange(
        self, request: Any, version: int, patience_s: float = PATIENCE_S
    ) -> tuple[Any, str]:
        try:
            self._send(request, version)
        except OSError:
            self.close()
            return None, CLOSED
        return self._answer(request, version, patience_s)

    def _send(self, request: Any, version: int) -> None:
        key = declaration(type(request)).api
        self._correlation_id += 1
        body = [encode_bytes(request, version)]
        parts = request_parts(key, version, self._correlation_id, "script", body)  # type: ignore[arg-type]
        self._connected().sendall(joined(parts))

    def _answer(self, request: Any, version: int, patience_s: float) -> tuple[Any, str]:
        try:
            self._connected().settimeout(patience_s)
            frame = self._receive()
        except TimeoutError:
            self.close()
            return None, NO_ANSWER
        except OSError:
            self.close()
            return None, CLOSED
        key = declaration(type(request)).api
        correlation_id, position = decode_response_header(frame, response_is_flexible(key, version))
        assert correlation_id == self._correlation_id
        kind = MESSAGES[key].response
        return read_and_written_again(kind, version, frame, position), ""

    def _connected(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port), PATIENCE_S)
        return self._socket

    def _receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._receive_exactly(4))
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            received = self._connected().recv(size - len(data))
            if not received:
                raise ConnectionError("end of stream")
            data += received
        return bytes(data)


class PendingRequest:
    """A request whose response may depend on other events."""

    def __init__(self, peer: Peer, request: Any, version: int) -> None:
        self._peer = peer
        self._request = request
        self._version = version

    def send(self) -> None:
        """Send the request."""
        self._peer._send(self._request, self._version)

    def waits(self, label: str) -> None:
        """Record whether it is still unanswered."""
        self._peer.note(label, "answered" if self.is_answered() else "waits")

    def is_answered(self) -> bool:
        """True if an answer is there, or comes in a short time."""
        ready, _, _ = select.select([self._peer._connected()], [], [], STILL_WAITING_S)
        return bool(ready)

    def again(self) -> None:
        """Send the same request again on the same connection, without waiting."""
        self._peer._correlation_id -= 1
        self._peer._send(self._request, self._version)

    def one(self, label: str) -> None:
        """Record the next response; others follow."""
        response, outcome = self._peer._answer(self._request, self._version, PATIENCE_S)
        self._peer.note(label, outcome if response is None else self._peer.plain(response))

    def end_unnoted(self) -> Any:
        """Wait for the response, which must come."""
        response, outcome = self._peer._answer(self._request, self._version, PATIENCE_S)
        self._peer.close()
        assert response is not None, outcome
        self._peer.plain(response)
        return response

    def close(self) -> None:
        """Close the connection."""
        self._peer.close()

    def end(self, label: str, *, hangs: bool = False) -> Any:
        """Wait for the answer and note it; the response, None if there was none."""
        peer = self._peer
        patience_s = SHORT_PATIENCE_S if hangs else PATIENCE_S
        response, outcome = peer._answer(self._request, self._version, patience_s)
        peer.close()
        peer._note_answer(label, self._request, self._version, response, outcome)
        return response


def read_and_written_again(kind: type[Any], version: int, frame: bytes, position: int) -> Any:
    """Return the response; encoding it again must give the received bytes."""
    if kind is ApiVersionsResponse and frame[position : position + 2] == b"\0\x23":
        version = 0  # UNSUPPORTED_VERSION has a version 0 body for any requested version.
    response = decode(kind, version, frame, position)
    assert encode_bytes(response, version) == frame[position:], (kind.__name__, version)
    return response


def creatable(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    *,
    configs: dict[str, str | None] | dict[str, str] | None = None,
    assignments: dict[int, list[int]] | None = None,
) -> CreatableTopic:
    """Return a topic to create."""
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assignments or {}).items()
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )


def served_versions(port: int) -> dict[int, range]:
    """Return the versions that a broker serves."""
    asking = Peer("asking", port, {})
    response = asking.ask(ApiVersionsRequest(), 0)
    asking.close()
    return {row.api_key: range(row.min_version, row.max_version + 1) for row in response.api_keys}


def common_versions(port: int) -> dict[int, range]:
    """Return the versions of Kafka's APIs that both this project and a broker serve, by API key."""
    theirs = served_versions(port)
    return {
        row.key: range(
            max(row.min_version, theirs[row.key].start),
            min(row.max_version + 1, theirs[row.key].stop),
        )
        for row in CLIENT_ROWS
        if not row.is_own
    }
