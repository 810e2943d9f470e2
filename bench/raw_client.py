"""A small client that costs little: frames are encoded once and sent again and again over epoll.

The same bytes go to every broker, so what differs is the broker. The versions are served by Odradek
and Apache Kafka both: Produce v11, Fetch v12, CreateTopics v7, DeleteTopics v5.
"""

from __future__ import annotations

import itertools
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.codec import decode, encode
from odradek.protocol.frame import decode_response_header, request_parts, response_is_flexible
from odradek.protocol.generated_writer import joined
from odradek.protocol.record_batch_builder import build
from odradek.protocol.schema import declaration

PRODUCE, FETCH, CREATE_TOPICS, DELETE_TOPICS = 11, 12, 7, 5
DELETED_SOON = CreatableTopicConfig(name="file.delete.delay.ms", value="500")
LENGTH = struct.Struct(">i")
ERROR_AT_END = struct.Struct(">hqqq")
"""What ends a partition of a Produce response before its two empty arrays: error and offsets."""
Frame = bytes


def frame(request: object, version: int, correlation_id: int = 1) -> Frame:
    """A whole request, with its length."""
    key = declaration(type(request)).api
    return bytes(
        joined(request_parts(key, version, correlation_id, "bench", encode(request, version)))
    )


def produce_frame(topic: str, size: int, acks: int, partitions: Sequence[int] = (0,)) -> Frame:
    """One record of `size` bytes for each of some partitions."""
    batch = build([(None, b"x" * size, (), int(time.time() * 1000))])
    data = [PartitionProduceData(index=each, records=batch) for each in partitions]
    return frame(
        ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=topic, partition_data=data)],
        ),
        PRODUCE,
    )


def fetch_frame(topic: str, offset: int, max_wait_ms: int) -> Frame:
    """Partition 0 from `offset`, or what comes within `max_wait_ms`; no session."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return frame(
        FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic=topic, partitions=[wanted])],
        ),
        FETCH,
    )


def connect(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def receive(client: socket.socket) -> bytes:
    """The next response, without its length. `ConnectionError` at the end of the stream."""
    head = client.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        raise ConnectionError("closed by the broker")
    return client.recv(LENGTH.unpack(head)[0], socket.MSG_WAITALL)


def answer(client: socket.socket, response: type[Any], version: int) -> Any:
    """The next response, decoded."""
    return decoded(receive(client), response, version)


def decoded(data: bytes, response: type[Any], version: int) -> Any:
    flexible = response_is_flexible(declaration(response).api, version)
    return decode(response, version, data, decode_response_header(data, flexible)[1])


def create_topic(port: int, topic: str) -> None:
    """With one partition; waits until it takes records."""
    with connect(port) as client:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=1,
            replication_factor=1,
            assignments=[],
            configs=[DELETED_SOON],
        )
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000, validate_only=False)
        while True:
            client.sendall(frame(request, CREATE_TOPICS))
            created = answer(client, CreateTopicsResponse, CREATE_TOPICS)
            error = created.topics[0].error_code
            if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                break
            time.sleep(0.01)
        await_produce(client, topic)


def delete_topic(port: int, topic: str) -> None:
    """Its files go soon after, and with them their share of the page cache."""
    with connect(port) as client:
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
        client.sendall(frame(request, DELETE_TOPICS))
        [deleted] = answer(client, DeleteTopicsResponse, DELETE_TOPICS).responses
        if deleted.error_code != ErrorCode.NONE:
            raise RuntimeError(f"topic {topic} was not deleted: {deleted.error_code}")


def await_produce(client: socket.socket, topic: str) -> None:
    """Until a record is acknowledged."""
    request = produce_frame(topic, 100, 1)
    while True:
        client.sendall(request)
        if produce_error(client) == ErrorCode.NONE:
            return
        time.sleep(0.005)


def produce_error(client: socket.socket) -> int:
    """The error of the first partition in the next response, to a Produce."""
    produced = answer(client, ProduceResponse, PRODUCE)
    error: int = produced.responses[0].partition_responses[0].error_code
    return error


def first_ack(port: int, topic: str) -> None:
    """From no connection to the first acknowledged record of a new topic (or one that exists)."""
    while True:
        try:
            create_topic(port, topic)
        except OSError:
            time.sleep(0.005)
        else:
            return


def single_records(port: int, request: Frame, connections: int, seconds: float) -> int:
    """Keep one request under way on each connection; how many were answered."""
    return single_records_of([(port, request)], connections, seconds)


def opened(
    requests: Sequence[tuple[int, Frame]], connections: int
) -> list[tuple[socket.socket, Frame]]:
    """Open connections, each with the request that it sends: the requests take turns."""
    turns = itertools.islice(itertools.cycle(requests), connections)
    return [(connect(port), request) for port, request in turns]


def single_records_of(
    requests: Sequence[tuple[int, Frame]], connections: int, seconds: float
) -> int:
    """The same with several requests, each for its port, in turns among the connections."""
    epoll = select.epoll()
    clients = {client.fileno(): (client, each) for client, each in opened(requests, connections)}
    for client, request in clients.values():
        epoll.register(client, select.EPOLLIN)
        client.sendall(request)
    answered = 0
    end = time.monotonic() + seconds
    size = 0
    while time.monotonic() < end:
        for fd, _ in epoll.poll():
            client, request = clients[fd]
            data = client.recv(4096)
            if len(data) != size:
                if size or not data:
                    raise RuntimeError(f"an answer of {len(data)} bytes, not {size}: {data!r}")
                size = len(data)
            client.send(request)
            answered += 1
    for client, _ in clients.values():
        client.close()
    epoll.close()
    return answered


def paced_records_of(
    requests: Sequence[tuple[int, Frame]], connections: int, seconds: float, per_s: float
) -> int:
    """Send so many requests a second, evenly, in turns among the connections; how many were
    answered. A connection whose answer has not come lets its turn pass.
    """
    epoll = select.epoll()
    clients = opened(requests, connections)
    by_fd = {client.fileno(): client for client, _ in clients}
    for client in by_fd.values():
        epoll.register(client, select.EPOLLIN)
    waiting: set[int] = set()
    answered = sent = 0
    start = time.monotonic()
    while (passed := time.monotonic() - start) < seconds:
        while sent < passed * per_s:
            client, request = clients[sent % connections]
            sent += 1
            if client.fileno() not in waiting:
                waiting.add(client.fileno())
                client.sendall(request)
        for fd, _ in epoll.poll(max(0.0, sent / per_s - (time.monotonic() - start))):
            receive(by_fd[fd])
            waiting.remove(fd)
            answered += 1
    for client, _ in clients:
        client.close()
    epoll.close()
    return answered


def pings(port: int, topic: str, count: int) -> list[float]:
    """Times from sending one record of 100 bytes to having fetched it, in seconds."""
    times = []
    request = produce_frame(topic, 100, 1)
    with connect(port) as producer, connect(port) as consumer:
        producer.sendall(request)
        produced = answer(producer, ProduceResponse, PRODUCE)
        offset = produced.responses[0].partition_responses[0].base_offset + 1
        for number in range(count):
            consumer.sendall(fetch_frame(topic, offset + number, 10_000))
            start = time.perf_counter()
            producer.sendall(request)
            data = receive(consumer)
            times.append(time.perf_counter() - start)
            fetched = decoded(data, FetchResponse, FETCH)
            assert fetched.responses[0].partitions[0].error_code == ErrorCode.NONE
            receive(producer)
    return times
