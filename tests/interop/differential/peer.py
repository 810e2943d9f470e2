"""One broker as a script sees it: requests and raw bytes go out, outcomes are noted under a label.

An outcome is the plain tree of the answer, or one of three words:

    closed      the broker ended the connection
    silence     it did not answer, and answers the next request on the same connection
    no answer   nothing at all within `PATIENCE_S`

The connection is kept until a broker closes it, and then replaced. Answers are decoded with this
project's own codec; each is written again and must give the bytes that came, so that every answer
of a real Kafka is a test of the codec too.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from interop.differential.plain import Names, Plain, plain
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
SETTLED_WITHIN_S = 20.0
PROBE_ID = 0x70726F62
SYNC_TOPIC = "sync"


class Peer:
    """`versions` are those that both brokers serve, by key. `steps` is the transcript, `answered`
    the keys and versions of the requests whose answers are in it.
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
        self._begun: list[Begun] = []

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def end(self) -> None:
        """Close every connection."""
        self.close()
        for each in self._begun:
            each.close()

    def each_version(self, request: type[Any], since: int = 0) -> Iterator[int]:
        """The versions of an API that both brokers serve."""
        for version in self.versions[declaration(request).api]:
            if version >= since:
                yield version

    # -- asking --------------------------------------------------------------------------------

    def call(self, label: str, request: Any, version: int, *, hangs: bool = False) -> Any:
        """Ask and note the outcome; the response, None if there was none. `hangs`: one of the two
        is known not to answer, so do not wait for long.
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
        """Ask without noting; the response, which there must be."""
        response, outcome = self._exchange(request, version)
        assert response is not None, f"{self.name} to {type(request).__name__}: {outcome}"
        self.plain(response)
        return response

    def note(self, label: str, outcome: Plain) -> None:
        """Put an outcome into the transcript."""
        assert label not in self.steps, f"two steps are called {label!r}"
        self.steps[label] = outcome

    def send_unanswered(self, label: str, request: Any, version: int) -> None:
        """Send what has no answer (produce with `acks=0`); note whether the connection lives."""
        key = declaration(type(request)).api
        self.raw(
            label,
            joined(request_parts(key, version, 1, "script", [encode_bytes(request, version)])),
        )

    def raw(self, label: str, data: bytes, *, half_close: bool = False) -> None:
        """Send bytes as they are, length prefix included, and note what the broker does.

        `half_close` says that no more will come, as is needed where `data` announces more.
        An answer is noted as its bytes without the correlation id.
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
        """The tree of a response, with the ids that it tells of learned first."""
        if isinstance(response, (CreateTopicsResponse, MetadataResponse)):
            for topic in response.topics:
                if topic.topic_id != ZERO_UUID and topic.name:
                    self.names.topic_is(topic.topic_id, topic.name)
                    self.topic_ids[topic.name] = topic.topic_id
        return plain(response, self.names)

    def begin(self, request: Any, version: int) -> Begun:
        """Ask on a connection of its own, without waiting for the answer: it may take others."""
        aside = Peer(self.name, self.port, self.versions)
        aside.names, aside.steps, aside.answered = self.names, self.steps, self.answered
        aside._send(request, version)
        begun = Begun(aside, request, version)
        self._begun.append(begun)
        return begun

    # -- state that scripts need -----------------------------------------------------------------

    def new_topic(self, name: str, partitions: int = 1, **configs: str) -> UUID:
        """Create a topic and wait until its partitions answer. Setting names with underscores."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic = creatable(name, partitions, configs=settings)
        response = self.ask(CreateTopicsRequest(topics=[topic], timeout_ms=15000), 7)
        assert response.topics[0].error_code == 0, response.topics[0]
        for index in range(partitions):
            self.until_partition(name, index, ErrorCode.NONE)
        return self.topic_ids[name]

    def delete_all_topics(self) -> None:
        """Start afresh, whatever was run before."""

        def names() -> list[str]:
            return [topic.name for topic in self.ask(MetadataRequest(topics=None), 9).topics]

        self.ask(DeleteTopicsRequest(topic_names=names(), timeout_ms=15000), 5)
        self.until(lambda: not names())

    def until_partition(self, name: str, index: int, error: ErrorCode) -> None:
        """Wait until asking a partition for its end gives `error`: metadata reach brokers late."""
        asked = ListOffsetsPartition(partition_index=index, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=name, partitions=[asked])]
        )
        self.until(lambda: self.ask(request, 1).topics[0].partitions[0].error_code == error)

    def until(self, settled: Callable[[], bool]) -> None:
        """Ask until it is so."""
        deadline = time.monotonic() + SETTLED_WITHIN_S
        while not settled():
            assert time.monotonic() < deadline, f"{self.name} does not settle"
            time.sleep(0.005)

    def until_next_millisecond(self) -> None:
        """What the broker stamps from here on is younger than all it has stamped."""
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
        parts = request_parts(key, version, self._correlation_id, "script", body)
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


class Begun:
    """A request whose answer may take until something else has happened."""

    def __init__(self, peer: Peer, request: Any, version: int) -> None:
        self._peer = peer
        self._request = request
        self._version = version

    def waits(self, label: str) -> None:
        """Note whether it is still without an answer."""
        ready, _, _ = select.select([self._peer._connected()], [], [], STILL_WAITING_S)
        self._peer.note(label, "answered" if ready else "waits")

    def again(self) -> None:
        """Ask the same once more, on the same connection, without waiting."""
        self._peer._correlation_id -= 1
        self._peer._send(self._request, self._version)

    def one(self, label: str) -> None:
        """Note the next answer; there are others to come."""
        response, outcome = self._peer._answer(self._request, self._version, PATIENCE_S)
        self._peer.note(label, outcome if response is None else self._peer.plain(response))

    def end_unnoted(self) -> Any:
        """Wait for the answer, which there must be."""
        response, outcome = self._peer._answer(self._request, self._version, PATIENCE_S)
        self._peer.close()
        assert response is not None, outcome
        self._peer.plain(response)
        return response

    def close(self) -> None:
        """Give up."""
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
    """The response; what our codec writes for it must be what came."""
    if kind is ApiVersionsResponse and frame[position : position + 2] == b"\0\x23":
        version = 0  # whatever was asked: UNSUPPORTED_VERSION is told in version 0
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
    """A topic to create."""
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
    """What a broker says it serves."""
    asking = Peer("asking", port, {})
    response = asking.ask(ApiVersionsRequest(), 0)
    asking.close()
    return {row.api_key: range(row.min_version, row.max_version + 1) for row in response.api_keys}
