"""Our consumer as ratios to other clients, on our broker, on the same machine in the same run.

    python -m bench consumer -- [--rounds 5] [--quick] [--only WORD]

A backlog of records of 100 bytes in one partition, batched as librdkafka does; the broker on one
core with `log.durability=os`, the client in a process of its own on the other, with its own
defaults. Rounds interleave the clients; a ratio is the median of the pairwise ones, with the
smallest and the largest. Every measurement is appended to `bench/results/consumer.jsonl`.
"""

from __future__ import annotations

from confluent_kafka import Producer

from client_rounds import Client, Comparison, Row
from odradek import Admin

COUNT, SLOW_COUNT, PINGS = 1_000_000, 100_000, 2_000
LONG_S = 60.0
PER_TRANSACTION = 1_000

POLL = Client("odradek:poll", records=COUNT)
ITERATE = Client("odradek:iterate", records=COUNT)
INTERCEPTED = Client("odradek:intercepted", records=COUNT)
FIXED_BUFFERS = Client("odradek:fixed-buffers", records=COUNT)
ARROW = Client("odradek:arrow", records=COUNT)
CONSUME = Client("odradek:consume", records=COUNT)
COMMITTED = Client("odradek:committed", records=COUNT // 10 * 9)
UNCOMMITTED = Client("odradek:uncommitted", records=COUNT)
AWAITED = Client("odradek.aio:iterate", records=COUNT)
CONFLUENT = Client("confluent-kafka:consume", records=COUNT)
CONFLUENT_POLL = Client("confluent-kafka:poll", records=COUNT)
AIOKAFKA = Client("aiokafka:getmany", records=COUNT)
AIOKAFKA_EACH = Client("aiokafka:iterate", records=SLOW_COUNT)
KAFKA_PYTHON = Client("kafka-python:", records=SLOW_COUNT)
OUR_PING = Client("odradek:ping", records=PINGS)
THEIR_PING = Client("confluent-kafka:ping", records=PINGS)

ROWS = (
    Row("per record, poll / confluent consume()", "rate", POLL, CONFLUENT, 0.6, True),
    Row("many, consume / confluent consume()", "rate", CONSUME, CONFLUENT, 0.6, True),
    Row("poll / confluent poll()", "rate", POLL, CONFLUENT_POLL, 0.6, True),
    Row("arrow / confluent consume()", "rate", ARROW, CONFLUENT, 2.0, True),
    Row("per record, poll / aiokafka getmany", "rate", POLL, AIOKAFKA, 1.0, True),
    Row("awaited iteration / aiokafka's", "rate", AWAITED, AIOKAFKA_EACH, 1.0, True),
    Row("per record, poll / kafka-python", "rate", POLL, KAFKA_PYTHON, 4.0, True),
    Row("CPU, poll / confluent consume()", "cpu_us", POLL, CONFLUENT, 1.5, False),
    Row("CPU, poll / aiokafka getmany", "cpu_us", POLL, AIOKAFKA, 0.5, False),
    Row("CPU, one interceptor / none", "cpu_us", INTERCEPTED, POLL, 1.1, False),
    Row(
        "CPU, read_committed, 10 % aborted / uncommitted",
        "cpu_us",
        COMMITTED,
        UNCOMMITTED,
        1.1,
        False,
    ),
    Row("receive.buffer.bytes=65536 / the system's", "rate", FIXED_BUFFERS, ITERATE, 1.0, True),
    Row("ping p50 / confluent-kafka", "p50_us", OUR_PING, THEIR_PING, 1.5, False),
    Row("ping p99 / confluent-kafka", "p99_us", OUR_PING, THEIR_PING, 1.5, False),
)


def fill(bootstrap: str) -> None:
    """Write both backlogs."""
    fill_plain(bootstrap)
    fill_transactions(bootstrap)


def fill_plain(bootstrap: str) -> None:
    """Write the backlog without transactions: one record more than is measured."""
    with Admin(brokers=bootstrap) as admin:
        for topic in ("bench", "bench-ping"):
            admin.create_topic(topic)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "acks": 1})
    for _ in range(COUNT + 1):
        while True:
            try:
                producer.produce("bench", b"x" * 100, partition=0)
            except BufferError:
                producer.poll(0.05)
            else:
                break
    assert producer.flush(LONG_S) == 0


def fill_transactions(bootstrap: str) -> None:
    """As many records in transactions of `PER_TRANSACTION`, of which every tenth is aborted; the
    first and the last are committed, each with a record more."""
    with Admin(brokers=bootstrap) as admin:
        admin.create_topic("bench-transactions")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "bench"})
    producer.init_transactions(LONG_S)
    count = COUNT // PER_TRANSACTION
    for number in range(count):
        producer.begin_transaction()
        more = number in (0, count - 1)
        for _ in range(PER_TRANSACTION + more):
            producer.produce("bench-transactions", b"x" * 100, partition=0)
        if number % 10 == 5:
            assert producer.flush(LONG_S) == 0
            producer.abort_transaction(LONG_S)
        else:
            producer.commit_transaction(LONG_S)


if __name__ == "__main__":
    Comparison("consume_load.py", "consumer.jsonl", fill, ROWS).main(__doc__)
