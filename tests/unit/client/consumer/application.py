"""An application that reads with a `ConsumerCore` in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from odradek.client.consumer.consumer_core import ConsumerCore
from odradek.client.consumer.record import Record
from odradek.client.deserializers import Deserializers, deserializer
from odradek.client.engine import Engine
from odradek.client.errors import DecodeError, KafkaError
from odradek.config.consumer import ConsumerConfig
from odradek.model.topics import TopicPartition
from odradek.testing.scripted import ClientSide, ScriptedCluster, raise_bug
from odradek.testing.scripted_logs import ScriptedLogs

ORDERS = TopicPartition("orders", 0)
SECOND = 1000


def one_topic(
    brokers: int = 1, leaders: tuple[int, ...] = (1,), *, sessions: bool = True
) -> tuple[ScriptedCluster, ScriptedLogs]:
    """Return a cluster with the topic `orders`, and the logs of its partitions."""
    cluster = ScriptedCluster(brokers=brokers)
    cluster.create("orders", leaders=leaders)
    return cluster, ScriptedLogs(cluster, sessions=sessions)


class Application:
    """One consumer, with the records and errors it returned. Everything runs in the client's
    process.
    """

    def __init__(
        self,
        cluster: ScriptedCluster,
        value: object = bytes,
        on_error: Callable[[DecodeError], object] | None = None,
        name: str = "reader",
        seen_as: Callable[[ConsumerConfig], Any] = lambda config: config,
        **settings: object,
    ) -> None:
        self.cluster = cluster
        self.side: ClientSide = cluster.client(name)
        self.woken = 0
        self.on_wake: Callable[[], object] = lambda: None
        self.records: list[Record[object, object]] = []
        self.errors: list[Exception] = []
        given = {"bootstrap_servers": cluster.bootstrap, "auto_offset_reset": "earliest"}
        config = ConsumerConfig.load({**given, **settings})
        self.consumer = ConsumerCore(
            Engine(self.side.env, self.side.timer, config, on_bug=raise_bug),
            seen_as(config),
            Deserializers(deserializer(bytes), deserializer(value), on_error),
            self.side.process.call_soon,
            self._wake,
        )
        self.side.do(self.consumer.engine.start)
        self.side.do(self.consumer.start)
        self.collector = self.consumer.collector
        self.subscriptions = self.consumer.subscriptions

    def _wake(self) -> None:
        self.woken += 1
        self.on_wake()

    def assign(
        self,
        partitions: Iterable[tuple[str, int]],
        starts: Mapping[Any, int] | None = None,
        ends: Mapping[Any, int] | None = None,
    ) -> None:
        """Assign partitions, with the offsets to start and stop at."""
        self.side.do(
            lambda: self.consumer.assign(
                [TopicPartition(*p) for p in partitions],
                {TopicPartition(*p): offset for p, offset in (starts or {}).items()},
                {TopicPartition(*p): offset for p, offset in (ends or {}).items()},
            )
        )
        self.collector.refresh()

    def seek(self, partition: tuple[str, int], offset: int) -> None:
        self.side.do(lambda: self.consumer.seek(TopicPartition(*partition), offset))
        self.collector.refresh()

    def pause(self, *partitions: tuple[str, int]) -> None:
        self.side.do(lambda: self.consumer.pause([TopicPartition(*p) for p in partitions]))
        self.collector.refresh()

    def resume(self, *partitions: tuple[str, int]) -> None:
        self.side.do(lambda: self.consumer.resume([TopicPartition(*p) for p in partitions]))
        self.collector.refresh()

    def poll(self) -> Record[object, object] | None:
        """Poll once: a record, an error (in `errors`), or None."""
        return self.side.do(self._poll)

    def _poll(self) -> Record[object, object] | None:
        collector = self.collector
        collector.attention = False
        if self.consumer.errors:
            self.errors.append(self.consumer.errors.popleft())
            collector.attention = bool(self.consumer.errors)
            return None
        try:
            record = collector.next_record()
        except KafkaError as error:
            self.errors.append(error)
            return None
        if record is not None:
            self.records.append(record)
        return record

    def drain(self) -> int:
        """Return all available records; the result is their number."""
        before = len(self.records)
        errors = len(self.errors)
        while self.poll() is not None or len(self.errors) > errors:
            errors = len(self.errors)
        return len(self.records) - before

    def read(self, count: int, limit_ms: int = 60 * SECOND) -> list[Record[object, object]]:
        """Poll until `count` more records have come; return these."""
        before = len(self.records)

        def enough() -> bool:
            while len(self.records) - before < count:
                if self.poll() is None:
                    return False
            return True

        self.cluster.until(enough, limit_ms)
        return self.records[before:]

    def fail(self, limit_ms: int = 120 * SECOND) -> Exception:
        """Poll until there is an error; return it."""
        before = len(self.errors)

        def failed() -> bool:
            self.drain()
            return len(self.errors) > before

        self.cluster.until(failed, limit_ms)
        return self.errors[before]

    @property
    def values(self) -> list[object]:
        return [record.value for record in self.records]

    @property
    def places(self) -> list[tuple[int, int]]:
        """Partition and offset of each record, in order of arrival."""
        return [(record.partition, record.offset) for record in self.records]

    def position(self, partition: tuple[str, int]) -> int:
        return self.subscriptions.state(TopicPartition(*partition)).position.offset

    def consumed(self, partition: tuple[str, int]) -> int:
        return self.subscriptions.state(TopicPartition(*partition)).position.consumed


def rows(*values: bytes) -> list[tuple[bytes | None, bytes | None, list[tuple[str, bytes]], int]]:
    """Records of a batch, one for each value."""
    return [(None, value, [], 1000 + index) for index, value in enumerate(values)]


def numbered(
    first: int, count: int
) -> list[tuple[bytes | None, bytes, list[tuple[str, bytes]], int]]:
    """Records whose values are numbers."""
    return [(None, b"%d" % number, [], 1000) for number in range(first, first + count)]
