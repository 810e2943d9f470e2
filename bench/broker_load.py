"""What is measured of one running broker: each function drives it and says what that took.

Every function returns the figures of one measurement as a dict; CPU is the broker's, from the
kernel's account of the process, which a busy machine disturbs less than rates.
"""

from __future__ import annotations

import itertools
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

import raw_client
from odradek.log.checkpoints import RECOVERY_POINT_FILE
from odradek.log.durable_ends import DURABLE_ENDS_FILE
from peers import ON_ITS_CORE, Node, Odradek, PeerKafka, cpu_s, pss_mib, started

Figures = dict[str, float]
GB = 1e9
SINK = Path(__file__).with_name("sink.py")
_numbers = itertools.count()


def new_topic(node: Node) -> str:
    topic = f"bench-{next(_numbers)}"
    raw_client.create_topic(node.port, topic)
    return topic


def single_records(node: Node, connections: int, seconds: float, acks: int = 1) -> Figures:
    """One record of 100 bytes per request, one request under way on each connection."""
    request = raw_client.produce_frame(new_topic(node), 100, acks)
    raw_client.single_records(node.port, request, connections, seconds / 10)
    cpu, start = cpu_s(node.pid), time.perf_counter()
    requests = raw_client.single_records(node.port, request, connections, seconds)
    cpu, elapsed = cpu_s(node.pid) - cpu, time.perf_counter() - start
    return {"cpu_us": cpu / requests * 1e6, "per_s": requests / elapsed}


def produce(node: Node, size: int, records: int, topic: str) -> Figures:
    """Big batches of confluent-kafka: acks=1, linger 20 ms."""
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{node.port}",
            "acks": 1,
            "linger.ms": 20,
            "enable.idempotence": False,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 512_000,
        }
    )
    value = bytes(range(256)) * (size // 256 + 1)
    value = value[:size]
    producer.list_topics(topic)
    cpu, start = cpu_s(node.pid), time.perf_counter()
    left = records
    while left:
        try:
            producer.produce(topic, value)
            left -= 1
        except BufferError:
            producer.poll(0.01)
    if producer.flush(60):
        raise RuntimeError("not all records were acknowledged in a minute")
    cpu, elapsed = cpu_s(node.pid) - cpu, time.perf_counter() - start
    return {
        "cpu_s_per_gb": cpu / (records * size / GB),
        "mb_per_s": records * size / elapsed / 1e6,
        "cpu_us_per_record": cpu / records * 1e6,
    }


def idempotent_sender(node: Node) -> Callable[[int], None]:
    """Return a function that sends so many records of 100 bytes to a new topic and waits for them,
    by librdkafka's idempotent producer: one record in a batch, five in flight."""
    topic = new_topic(node)
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{node.port}",
            "enable.idempotence": True,
            "linger.ms": 0,
            "batch.num.messages": 1,
        }
    )

    def send(count: int) -> None:
        for number in range(count):
            producer.produce(topic, b"x" * 100, partition=0)
            if number % 1_000 == 999:
                producer.flush()
        producer.flush()

    return send


def recycled_pages(directory: Path, size: int) -> None:
    """Write and remove a file of `size` bytes: the memory it had is what is handed out next.

    A virtual machine's kernel pays several times as much for a page that its host has to find
    first as for one just freed; without this, who is measured second gets the pages of the first.
    """
    path = directory / "recycled"
    block = bytes(1 << 20)
    with path.open("wb", buffering=0) as out:
        for _ in range(-(-size // len(block))):
            out.write(block)
    path.unlink()


def produce_big(node: Node, size: int, records: int, directory: Path) -> Figures:
    """`produce` to a topic of its own, which then leaves the page cache to the next.

    In `directory` as many bytes and a half are written and removed before.
    """
    topic = new_topic(node)
    recycled_pages(directory, records * (size + 20) * 3 // 2)
    try:
        return produce(node, size, records, topic)
    finally:
        raw_client.delete_topic(node.port, topic)


def floor(directory: Path, gigabytes: float) -> Figures:
    """What the kernel alone takes: a process that receives bytes and appends them to a file.

    No broker can take less per GB on this machine, just now: most of it is the page cache, whose
    price depends on what else the machine, and its host, do with their memory.
    """
    path = directory / "floor"
    recycled_pages(directory, int(gigabytes * GB * 1.5))
    sink = subprocess.Popen([*ON_ITS_CORE, sys.executable, SINK, path], stdout=subprocess.PIPE)
    try:
        assert sink.stdout is not None
        port = int(sink.stdout.readline())
        block = bytes(range(256)) * 4096
        with raw_client.connect(port) as client:
            client.sendall(block)
            client.recv(1)
            cpu = cpu_s(sink.pid)
            for _ in range(int(gigabytes * GB / len(block))):
                client.sendall(block)
            client.shutdown(socket.SHUT_WR)
            client.recv(1)
            cpu = cpu_s(sink.pid) - cpu
        return {"cpu_s_per_gb": cpu / gigabytes}
    finally:
        sink.kill()
        sink.wait()
        if sink.stdout is not None:
            sink.stdout.close()
        path.unlink(missing_ok=True)


def consume(node: Node, topic: str, records: int, size: int) -> Figures:
    """The backlog of a topic, from the page cache."""
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{node.port}",
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    cpu, start = cpu_s(node.pid), time.perf_counter()
    got = 0
    while got < records:
        batch = consumer.consume(10_000, timeout=10)
        if not batch:
            raise RuntimeError(f"nothing for 10 s after {got} of {records} records")
        got += len(batch)
    cpu, elapsed = cpu_s(node.pid) - cpu, time.perf_counter() - start
    consumer.close()
    return {
        "cpu_s_per_gb": cpu / (got * size / GB),
        "mb_per_s": got * size / elapsed / 1e6,
    }


def ping(node: Node, count: int) -> Figures:
    """Produce to fetch, one in flight, the fetch waiting when the record comes."""
    topic = new_topic(node)
    raw_client.pings(node.port, topic, count // 10)
    times = sorted(raw_client.pings(node.port, topic, count))
    return {
        "p50_us": statistics.median(times) * 1e6,
        "p99_us": times[int(len(times) * 0.99)] * 1e6,
    }


def idle_connections(node: Node, connections: int) -> Figures:
    """Memory per connection with a fetch that waits, and how long others wait for an answer.

    `other_ms`: a record for another topic; `woken_ms`: one that all of them have waited for.
    """
    topic, other = new_topic(node), new_topic(node)
    request = raw_client.fetch_frame(topic, 1, 120_000)
    with ExitStack() as open_ones:
        before = pss_mib(node.pid)
        clients = [
            open_ones.enter_context(raw_client.connect(node.port)) for _ in range(connections)
        ]
        for client in clients:
            client.sendall(request)
        time.sleep(2)
        used = pss_mib(node.pid) - before
        with raw_client.connect(node.port) as producer:
            start = time.perf_counter()
            raw_client.await_produce(producer, other)
            answered = time.perf_counter() - start
            start = time.perf_counter()
            raw_client.await_produce(producer, topic)
        for client in clients:
            raw_client.receive(client)
        woken = time.perf_counter() - start
    return {
        "kib_per_connection": used * 1024 / connections,
        "other_ms": answered * 1e3,
        "woken_ms": woken * 1e3,
    }


def idle(node: Node, seconds: float) -> Figures:
    """Memory and CPU of a broker that nobody asks anything."""
    time.sleep(3)
    before = cpu_s(node.pid)
    time.sleep(seconds)
    return {
        "pss_mib": pss_mib(node.pid),
        "cpu_percent": (cpu_s(node.pid) - before) / seconds * 100,
    }


def start(node: Odradek | PeerKafka, idle_s: float) -> Figures:
    """From exec to the first acknowledged record; then what the broker takes doing nothing."""
    begin = time.perf_counter()
    node.spawn()
    if isinstance(node, Odradek):
        node.await_ready()
    raw_client.first_ack(node.port, "first")
    return {"start_s": time.perf_counter() - begin, **idle(node, idle_s)}


def recovery(directory: Path, settings: Mapping[str, str], gib: float, forget: bool) -> Figures:
    """Write, `kill -9`, start again: from exec to the first acknowledged record.

    `forget`: as if no flush had ever been, so that the whole log is read and checked.
    """
    node = started(Odradek(directory, settings))
    try:
        topic = new_topic(node)
        size = 1024
        produce(node, size, int(gib * 2**30 / size), topic)
        node.kill()
        if forget:
            for name in (RECOVERY_POINT_FILE, DURABLE_ENDS_FILE):
                (directory / name).unlink(missing_ok=True)
        begin = time.perf_counter()
        started(node)
        raw_client.first_ack(node.port, topic)
        return {"recovery_s": time.perf_counter() - begin}
    finally:
        node.kill()
        shutil.rmtree(directory)
