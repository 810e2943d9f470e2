"""Our producer as ratios to other clients, on our broker, on the same machine in the same run.

    python -m bench producer -- [--rounds 5] [--quick] [--only WORD]

Records of 100 bytes, acks=1 where a row does not say all, one partition; the broker on one core
with `log.durability=os`, the client in a process of its own on the other. Rounds interleave the
clients; a ratio is the median of the pairwise ones, with the smallest and the largest. Every
measurement is appended to `bench/results/producer.jsonl`.

`as librdkafka batches`: with its own default of a million bytes in a batch; otherwise each client
has its own defaults, and a linger of 5 ms (pings: none). That the metrics are counted is part of
each row of ours; to see what counting costs, compare with the rows of an older commit. An empty
Python function called for each record, outside of the producer, is the least that a method of an
interceptor can cost.
"""

from __future__ import annotations

from client_rounds import Client, Comparison, Row
from odradek import Admin

COUNT, SLOW_COUNT, PINGS = 500_000, 50_000, 3_000
LARGE = ("batch.size=1000000",)
LINGER = ("linger.ms=5",)
NO_LINGER = ("linger.ms=0",)

CONFLUENT = Client("confluent-kafka:plain", COUNT, LINGER)
FUTURE = Client("odradek:future", COUNT)
METERED = Client("odradek:metered", COUNT)
LARGE_FUTURE = Client("odradek:future", COUNT, LARGE)
INTERCEPTED = Client("odradek:intercepted", COUNT)
CALLED = Client("odradek:called", COUNT)
ON_SEND = Client("odradek:on_send", COUNT)
ON_BOTH = Client("odradek:on_both", COUNT)
FIXED_BUFFERS = Client(
    "odradek:future", COUNT, ("send.buffer.bytes=131072", "receive.buffer.bytes=32768")
)
AIOKAFKA = Client("aiokafka:", records=SLOW_COUNT)
KAFKA_PYTHON = Client("kafka-python:", records=SLOW_COUNT)
IDEMPOTENT = Client("odradek.acks-all:idempotent", COUNT)
TRANSACTIONAL = Client("odradek.acks-all:transactional", COUNT)
OUR_PING = Client("odradek:ping", PINGS, NO_LINGER)
THEIR_PING = Client("confluent-kafka:ping", PINGS, NO_LINGER)

ROWS = (
    Row("per record, future / confluent-kafka", "rate", FUTURE, CONFLUENT, 0.6, True),
    Row("the same, as librdkafka batches", "rate", LARGE_FUTURE, CONFLUENT, 0.6, True),
    Row(
        "with callbacks / confluent-kafka's",
        "rate",
        Client("odradek:callback", COUNT, LARGE),
        Client("confluent-kafka:callback", COUNT, LINGER),
        0.6,
        True,
    ),
    Row(
        "send_many / per record", "rate", Client("odradek:many", COUNT, LARGE), CONFLUENT, 1.2, True
    ),
    Row(
        "send_arrow / per record",
        "rate",
        Client("odradek:arrow", COUNT, LARGE),
        CONFLUENT,
        1.2,
        True,
    ),
    Row("awaited / aiokafka", "rate", Client("odradek.aio:", COUNT), AIOKAFKA, 4.0, True),
    Row("future / aiokafka", "rate", FUTURE, AIOKAFKA, 4.0, True),
    Row("future / kafka-python", "rate", FUTURE, KAFKA_PYTHON, 8.0, True),
    Row("metrics read every 0.1 s / never", "rate", METERED, FUTURE, 0.98, True),
    Row("CPU, future / confluent-kafka", "cpu_us", FUTURE, CONFLUENT, 1.5, False),
    Row("CPU, future / aiokafka", "cpu_us", FUTURE, AIOKAFKA, 0.5, False),
    Row("CPU, interceptor without methods / none", "cpu_us", INTERCEPTED, FUTURE, 1.1, False),
    Row(
        "CPU, an empty function called for each record / none", "cpu_us", CALLED, FUTURE, 1.1, False
    ),
    Row("CPU, one that returns each record / none", "cpu_us", ON_SEND, FUTURE, 1.1, False),
    Row("CPU, one told of the outcome too / none", "cpu_us", ON_BOTH, FUTURE, 1.1, False),
    Row("send.buffer.bytes=131072 / the system's", "rate", FIXED_BUFFERS, FUTURE, 1.0, True),
    Row(
        "acks=all, a commit every 100 ms / idempotent",
        "rate",
        TRANSACTIONAL,
        IDEMPOTENT,
        0.95,
        True,
    ),
    Row("ping p50 / confluent-kafka", "p50_us", OUR_PING, THEIR_PING, 1.5, False),
    Row("ping p99 / confluent-kafka", "p99_us", OUR_PING, THEIR_PING, 1.5, False),
)


def prepare(bootstrap: str) -> None:
    with Admin(brokers=bootstrap) as admin:
        admin.create_topic("bench")


if __name__ == "__main__":
    Comparison("produce_load.py", "producer.jsonl", prepare, ROWS).main(__doc__)
