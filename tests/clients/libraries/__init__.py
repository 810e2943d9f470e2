"""The client libraries of Python behind one common interface.

    with library.producer(bootstrap, codec="zstd", idempotent=True) as producer:
        offsets = producer.send(topic, [(partition, record), ...])  # all acknowledged
    with library.consumer(bootstrap, topic, partitions=2) as consumer:
        rows = consumer.read(count)                                 # assigned, from the beginning
    with library.admin(bootstrap) as admin:
        admin.create(topic, partitions)

Attributes state what a library cannot do. `LARGE` is the largest request that all may send and
`SMALL_FETCH` the bytes they fetch per partition, so a record may be larger than a fetch.
"""

from __future__ import annotations

from clients.libraries.aio import Aiokafka
from clients.libraries.confluent import ConfluentKafka
from clients.libraries.kafka_python import KafkaPython
from clients.libraries.library import LONG_WAIT_MS, PATIENCE_S, Library, Row

__all__ = ["LIBRARIES", "LONG_WAIT_MS", "PATIENCE_S", "Library", "Row"]

LIBRARIES = (ConfluentKafka(), KafkaPython(), Aiokafka())
