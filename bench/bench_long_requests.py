"""Long requests: how long others wait for an answer while one with 190,000 elements is handled.

    python -m bench long_requests -- [--quick] [--only WORD]
    KAFKA_CLASSPATH=...     Kafka's jars, if they are not to be asked of Maven

A second connection sends ApiVersions, one after the other, until the long request is answered.
Every measurement is appended to `bench/results/long_requests.jsonl`.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench_broker import OS, Bench, Shown, compare
from odradek.protocol.api.api_versions import ApiVersionsRequest
from odradek.protocol.api.describe_groups import DescribeGroupsRequest
from odradek.protocol.api.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.codec import encode
from odradek.protocol.frame import request_parts
from odradek.protocol.generated_writer import joined
from odradek.protocol.schema import declaration
from peers import Node, Odradek, PeerKafka, started

RESULTS = Path(__file__).parent / "results" / "long_requests.jsonl"
ELEMENTS = 190_000
LONG_REQUESTS = {
    "Metadata of unknown topics": (
        MetadataRequest(
            topics=[MetadataRequestTopic(name=f"t{n}") for n in range(ELEMENTS)],
            allow_auto_topic_creation=False,
        ),
        9,
    ),
    "ListOffsets of unknown partitions": (
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name="t",
                    partitions=[
                        ListOffsetsPartition(partition_index=n, timestamp=-1)
                        for n in range(ELEMENTS)
                    ],
                )
            ],
        ),
        7,
    ),
    "DescribeGroups of unknown groups": (
        DescribeGroupsRequest(groups=[f"g{n}" for n in range(ELEMENTS)]),
        5,
    ),
}
SHORT = (ApiVersionsRequest(), 0)


class LongRequestBench(Bench):
    """The same, with long requests."""

    results = RESULTS
    subject = "long requests"

    @contextmanager
    def brokers(self) -> Iterator[list[Node]]:
        """Ours and Kafka's."""
        nodes: list[Node] = [
            Odradek(self.directory(), OS),
            PeerKafka(self.directory(), self.jars, {}),
        ]
        try:
            yield [started(node) for node in nodes]
        finally:
            for node in nodes:
                node.kill()


def frame(request: Any, version: int) -> bytes:
    key = declaration(type(request)).api
    return joined(request_parts(key, version, 1, "bench", encode(request, version)))


def connected(node: Node) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", node.port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(frame(*SHORT))
    answer(made)
    return made


def answer(connection: socket.socket) -> None:
    """Receive one response."""
    left = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    while left:
        left -= len(connection.recv(min(left, 1 << 20)))


def others_wait(node: Node, long: bytes) -> dict[str, float]:
    """Send one long request; return the times of short ones until its answer begins, in ms."""
    slow, quick = connected(node), connected(node)
    short = frame(*SHORT)
    began = time.perf_counter()
    slow.setblocking(True)
    slow.sendall(long)
    times_ms: list[float] = []
    while not select.select([slow], [], [], 0)[0]:
        asked = time.perf_counter()
        quick.sendall(short)
        answer(quick)
        times_ms.append((time.perf_counter() - asked) * 1000)
    answer(slow)
    total_ms = (time.perf_counter() - began) * 1000
    slow.close()
    quick.close()
    times_ms.sort()
    return {
        "max_ms": times_ms[-1],
        "p99_ms": times_ms[len(times_ms) * 99 // 100],
        "total_ms": total_ms,
    }


def all_rows(bench: LongRequestBench) -> None:
    with bench.brokers() as nodes:
        for name, (request, version) in LONG_REQUESTS.items():
            if not bench.wanted(name):
                continue
            long = frame(request, version)
            bench.pairs_of(
                name,
                [
                    Shown("max_ms", "ms, the longest wait of others"),
                    Shown("p99_ms", "ms, p99 of others"),
                    Shown("total_ms", "ms, the long request"),
                ],
                partial(others_wait, long=long),
                nodes,
            )


if __name__ == "__main__":
    sys.exit(compare(LongRequestBench, __doc__, all_rows))
