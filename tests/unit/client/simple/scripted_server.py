"""A server on a real socket that answers by script: what the client tests talk to.

`answers` maps a request class to a function of (request, version) that returns a response, `DROP`
(close the connection), `SILENCE` (never answer) or raw bytes to send as the frame's content.
ApiVersions and Metadata are answered by default: one node, and the topics it was given.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from odradek.protocol.api.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.api.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.compile import decode, encode
from odradek.protocol.frame import response_parts
from odradek.protocol.header import decode_request_header, response_is_flexible
from odradek.protocol.messages import MESSAGES

DROP = object()
SILENCE = object()
Answer = Callable[[Any, int], Any]


class ScriptedServer:
    """Serves connections on threads until closed. `seen`: (request, version) as they came."""

    def __init__(
        self, answers: Mapping[type, Answer] | None = None, topics: Mapping[str, int] | None = None
    ) -> None:
        self.answers: dict[type, Answer] = {
            ApiVersionsRequest: self.api_versions,
            MetadataRequest: self.metadata,
            **(answers or {}),
        }
        self.topics = dict(topics or {})
        self.versions = {key: api.versions for key, api in MESSAGES.items()}
        self.seen: list[tuple[Any, int]] = []
        self.connections: list[socket.socket] = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def requests(self, kind: type) -> list[Any]:
        return [request for request, _ in self.seen if isinstance(request, kind)]

    def accept(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(int.from_bytes(size, "big"))
                header, position = decode_request_header(frame)
                version = header.api_version
                api = MESSAGES[header.api_key]
                request = None
                if api.versions[0] <= version <= api.versions[1]:
                    request = decode(api.request, version, frame, position)
                self.seen.append((request, version))
                answer = self.answers[api.request](request, version)
                if answer is SILENCE:
                    continue
                if answer is DROP:
                    return
                if isinstance(answer, bytes):
                    content = answer
                else:
                    if isinstance(answer, tuple):
                        answer, version = answer
                    body = encode(answer, version)
                    flexible = response_is_flexible(header.api_key, version)
                    parts = response_parts(header.correlation_id, body, flexible)
                    content = b"".join(bytes(part) for part in parts)
                connection.sendall(content)

    def api_versions(self, request: Any, version: int) -> ApiVersionsResponse:
        ranges = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        return ApiVersionsResponse(error_code=0, api_keys=ranges)

    def metadata(self, request: MetadataRequest, version: int) -> MetadataResponse:
        wanted = list(self.topics) if request.topics is None else [t.name for t in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)],
            topics=[self.topic(name) for name in wanted],
        )

    def topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(error_code=3, name=name, partitions=[])
        partitions = [
            MetadataResponsePartition(
                error_code=0, partition_index=n, leader_id=1, replica_nodes=[1], isr_nodes=[1]
            )
            for n in range(self.topics[name])
        ]
        topic_id = UUID(int=1 + sorted(self.topics).index(name))
        return MetadataResponseTopic(
            error_code=0, name=name, topic_id=topic_id, partitions=partitions
        )

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.listening.close()
        for connection in self.connections:
            connection.close()
