"""One member of a group, of any client library, as a process of its own.

    python group_member.py LIBRARY BOOTSTRAP GROUP TOPIC STRATEGY SESSION_MS [INSTANCE_ID]

It reports events as lines of JSON, and closes cleanly at a line, or the end, of its standard input
(so no member outlives the test that started it).

{"owned": [0, 3]}     after every rebalance, its partitions
{"read": ["a", "b"]}  the values of records, in order
    {"raised": "..."}     an error raised by a poll
    {"called": "assigned", "with": [0]}   a call of its rebalance listener (odradek and Java only)
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEARTBEAT_MS = 500
POLL_S = 0.1

ended = threading.Event()


def report(**what: object) -> None:
    """Print a line for the test."""
    print(json.dumps(what), flush=True)


def read(values: Iterable[bytes | None]) -> None:
    text = [(value or b"").decode() for value in values]
    if text:
        report(read=text)


def owned(partitions: Iterable[Any]) -> None:
    report(owned=sorted(partition.partition for partition in partitions))


@dataclass(frozen=True)
class MemberParameters:
    """The parameters of a member."""

    bootstrap: str
    group: str
    topic: str
    strategy: str
    session_ms: int
    instance: str | None


def dotted(wish: MemberParameters) -> dict[str, str | int]:
    """Return the settings under Kafka's names."""
    settings: dict[str, str | int] = {
        "bootstrap.servers": wish.bootstrap,
        "group.id": wish.group,
        "partition.assignment.strategy": wish.strategy,
        "session.timeout.ms": wish.session_ms,
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 200,
    }
    if wish.instance is not None:
        settings["group.instance.id"] = wish.instance
    return settings


def keywords(wish: MemberParameters, assignors: dict[str, Any]) -> dict[str, Any]:
    """Return the settings as keywords of kafka-python and aiokafka."""
    return {
        "bootstrap_servers": wish.bootstrap,
        "group_id": wish.group,
        "partition_assignment_strategy": [assignors[wish.strategy]],
        "session_timeout_ms": wish.session_ms,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 200,
        **({} if wish.instance is None else {"group_instance_id": wish.instance}),
    }


def odradek_member(wish: MemberParameters) -> None:
    from odradek import Consumer

    with Consumer(dotted(wish)) as consumer:

        def reporting(occasion: str) -> Callable[[object, Sequence[Any]], None]:
            def changed(_: object, partitions: Sequence[Any]) -> None:
                report(called=occasion, **{"with": sorted(each.partition for each in partitions)})
                changes.set()

            return changed

        changes = threading.Event()
        consumer.subscribe(
            [wish.topic],
            on_assign=reporting("assigned"),
            on_revoke=reporting("revoked"),
            on_lost=reporting("lost"),
        )
        while not ended.is_set():
            read(record.value for record in consumer.consume(500, POLL_S))
            if changes.is_set():
                changes.clear()
                owned(consumer.assignment())


def odradek_aio_member(wish: MemberParameters) -> None:
    from odradek.aio import Consumer

    async def run() -> None:
        changes = asyncio.Event()

        async def changed(_: object, partitions: Sequence[Any]) -> None:
            changes.set()

        async with Consumer(dotted(wish)) as consumer:
            await consumer.subscribe(
                [wish.topic], on_assign=changed, on_revoke=changed, on_lost=changed
            )
            while not ended.is_set():
                read(record.value for record in await consumer.consume(500, POLL_S))
                if changes.is_set():
                    changes.clear()
                    owned(await consumer.assignment())

    asyncio.run(run())


def confluent_member(wish: MemberParameters) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(dotted(wish))
    before: list[int] = [-1]
    consumer.subscribe([wish.topic])
    while not ended.is_set():
        messages = consumer.consume(500, POLL_S)
        for message in messages:
            if message.error():
                report(raised=str(message.error()))
        read(message.value() for message in messages if not message.error())
        now = sorted(partition.partition for partition in consumer.assignment())
        if now != before:
            before = now
            report(owned=now)
    consumer.close()


def kafka_python_member(wish: MemberParameters) -> None:
    from kafka import KafkaConsumer
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    sys.path.append(str(Path(__file__).parents[1]))  # As a script it finds only what is beside it.
    from clients.kafka_python_defects import survive_leaving_brokers

    survive_leaving_brokers()
    known = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }
    consumer = KafkaConsumer(**keywords(wish, known))
    consumer.subscribe([wish.topic])
    poll_until_ended(
        lambda: (each.value for rows in consumer.poll(100).values() for each in rows),
        lambda: sorted(partition.partition for partition in consumer.assignment()),
    )
    consumer.close()


def poll_until_ended(
    poll: Callable[[], Iterable[bytes | None]], assignment: Callable[[], list[int]]
) -> None:
    """Poll, and report records and changes, until told to end."""
    before: list[int] = [-1]
    while not ended.is_set():
        read(poll())
        now = assignment()
        if now != before:
            before = now
            report(owned=now)


def aiokafka_member(wish: MemberParameters) -> None:
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

    known = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "sticky": StickyPartitionAssignor,
    }

    async def run() -> None:
        consumer = AIOKafkaConsumer(**keywords(wish, known))
        consumer.subscribe([wish.topic])
        await consumer.start()
        before: list[int] = [-1]
        while not ended.is_set():
            rows = await consumer.getmany(timeout_ms=100)
            read(each.value for batch in rows.values() for each in batch)
            now = sorted(partition.partition for partition in consumer.assignment())
            if now != before:
                before = now
                report(owned=now)
        await consumer.stop()

    asyncio.run(run())


LIBRARIES: dict[str, Callable[[MemberParameters], None]] = {
    "odradek": odradek_member,
    "odradek.aio": odradek_aio_member,
    "confluent-kafka": confluent_member,
    "kafka-python": kafka_python_member,
    "aiokafka": aiokafka_member,
}


def main() -> None:
    library, bootstrap, group, topic, strategy, session_ms, *instance = sys.argv[1:]

    def await_end() -> None:
        sys.stdin.readline()
        ended.set()

    threading.Thread(target=await_end, daemon=True).start()
    instance_id = instance[0] if instance else None
    LIBRARIES[library](
        MemberParameters(bootstrap, group, topic, strategy, int(session_ms), instance_id)
    )


if __name__ == "__main__":
    main()
