"""A broker in memory, without sockets and threads: it runs only when the test says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from odradek.broker.dispatch import Dispatcher
from odradek.broker.node import Node
from odradek.config.broker import BrokerConfig
from odradek.log.memory_disk import MemoryDisk
from odradek.model.byte_ranges import ByteRange, FileSlice
from odradek.model.env import SYSTEM_BUFFERS, Env, SocketBuffers, Transport
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.codec import decode, encode
from odradek.protocol.frame import decode_response_header, request_parts, response_is_flexible
from odradek.protocol.record_batch_builder import build
from odradek.timing import SystemTimer

T = TypeVar("T")
NOW_MS = 1_700_000_000_000
Work = tuple[Callable[[], Any], Callable[[Any], None], Callable[[BaseException], None]]


class Clock:
    def __init__(self) -> None:
        self.passed_ms = 0

    def monotonic_ms(self) -> int:
        return self.passed_ms

    def monotonic_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ms(self) -> int:
        return NOW_MS + self.passed_ms


class ServerSocket:
    address = ("127.0.0.1", 9092)

    def close(self) -> None:
        """Nothing to close."""


class NoNetwork:
    """A network without connections."""

    def listen(
        self,
        host: str,
        port: int,
        accepted: Callable[[Transport], None],
        buffers: SocketBuffers = SYSTEM_BUFFERS,
    ) -> ServerSocket:
        return ServerSocket()


class SentRequest:
    """The exchange of one request, with the response to it."""

    peer = ("127.0.0.1", 50_000)
    connection = None
    connection_number = 1

    def __init__(self, request: Any, version: int) -> None:
        self.key = next(row.key for row in MESSAGES.values() if row.request is type(request))
        self.version = version
        parts = request_parts(self.key, version, 1, "test", encode(request, version))
        self.frame = b"".join(bytes(part) for part in parts)[4:]  # type: ignore[arg-type]
        self.parts: Sequence[Any] | None = None
        self.closed: str | None = None
        self.waiting: Any = None
        self.held = False
        self.abandoned: Callable[[], None] | None = None

    @property
    def answered(self) -> bool:
        return self.parts is not None

    def respond(self, parts: Sequence[Any]) -> None:
        assert self.parts is None, "answered twice"
        self.parts = parts
        self.abandoned = self.waiting = None

    def no_response(self) -> None:
        self.respond(())

    def close_connection(self, reason: str) -> None:
        self.closed = reason

    def end_connection(self, reason: str) -> None:
        self.closed = reason

    def hold(self) -> None:
        self.held = True

    def release(self) -> None:
        self.held = False

    def answer(self, expect: type[T]) -> T:
        assert self.parts is not None, "not answered yet"
        data = b""
        for part in self.parts:
            data += part.read() if isinstance(part, FileSlice) else bytes(part)
            if isinstance(part, FileSlice):
                part.release()
        frame = data[4:]
        _, position = decode_response_header(frame, response_is_flexible(self.key, self.version))
        return decode(expect, self.version, frame, position)


class MemoryBroker:
    """A started node; `run_until_idle` runs what is due now, `pass_time` what is due until then."""

    def __init__(self, disk: MemoryDisk | None = None, **settings: str) -> None:
        self.disk = disk if disk is not None else MemoryDisk()
        self.clock = Clock()
        self.timer = SystemTimer(0)
        self.soon: list[Callable[[], None]] = []
        self.work: list[Work] = []
        env = Env(self.clock, Random(1), NoNetwork(), self.disk, self, self.soon.append)  # type: ignore[arg-type]
        values = {name.replace("_", "."): value for name, value in settings.items()}
        config = BrokerConfig.load({"log.dirs": "/data", **values}, "the test")
        self.node = Node(config, env, self.timer, own_host="own.example")
        self.node.start()
        self.dispatcher = Dispatcher(self.node.broker)
        self.run_until_idle()

    def submit(
        self,
        work: Callable[[], Any],
        done: Callable[[Any], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self.work.append((work, done, failed))

    def run_work(self) -> None:
        """Run the oldest piece of work and its callback."""
        work, done, failed = self.work.pop(0)
        try:
            result = work()
        except Exception as error:
            failed(error)
        else:
            done(result)

    def run_round(self) -> None:
        """One round of the loop: the callbacks that were queued when it began."""
        soon, self.soon[:] = list(self.soon), []
        for callback in soon:
            callback()

    def run_soon(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def run_until_idle(self) -> None:
        while self.soon or self.work:
            self.run_soon()
            if self.work:
                self.run_work()

    def pass_time(self, milliseconds: int) -> None:
        """Advance the clock from deadline to deadline, and run until idle at each."""
        end = self.clock.passed_ms + milliseconds
        while True:
            deadline = self.timer.next_deadline_ms()
            self.clock.passed_ms = end if deadline is None else min(end, max(deadline, 0))
            self.timer.advance_clock(self.clock.passed_ms)
            self.run_until_idle()
            if self.clock.passed_ms == end and (deadline is None or deadline > end):
                return

    def send(self, request: Any, version: int) -> SentRequest:
        """Send a request and run nothing."""
        asked = SentRequest(request, version)
        self.dispatcher.received(asked)
        return asked

    def call(self, request: Any, version: int, expect: type[T]) -> T:
        """Send a request, run until idle, and return its response."""
        asked = self.send(request, version)
        self.run_until_idle()
        return asked.answer(expect)

    def create(self, name: str, partitions: int = 1, configs: Sequence[Any] = ()) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=list(configs),
        )
        answer = self.call(
            CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7, CreateTopicsResponse
        )
        assert answer.topics[0].error_code == 0, answer

    def produce(
        self,
        topic: str,
        *,
        index: int = 0,
        count: int = 1,
        size: int = 10,
        acks: int = -1,
        timeout_ms: int = 5000,
    ) -> SentRequest:
        data = build([(None, b"." * size, [], NOW_MS + n) for n in range(count)])
        partition = PartitionProduceData(index=index, records=ByteRange(data, 0, len(data)))
        request = ProduceRequest(
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
        )
        return self.send(request, 9)

    def produce_and_wait(self, topic: str, **given: int) -> int:
        """Produce, run until idle, and return the error code."""
        asked = self.produce(topic, **given)
        self.run_until_idle()
        return asked.answer(ProduceResponse).responses[0].partition_responses[0].error_code
