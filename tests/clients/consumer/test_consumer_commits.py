"""Which offsets our consumer commits at our broker, and when."""

from __future__ import annotations

import pytest

from clients.consumer.written import LONG_S, NewTopic, Produce
from odradek.client.blocking.consumer import Consumer
from odradek.model.topics import TopicPartition
from odradek.testing.broker import Broker


class TestCommitting:
    def test_a_commit_covers_the_records_that_were_returned(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, *[b"%d" % n for n in range(10)])
        partition = TopicPartition(topic, 0)

        def begin() -> Consumer[bytes, bytes]:
            return Consumer(
                topic,
                brokers=broker.bootstrap,
                group=topic,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            )

        def committed(consumer: Consumer[bytes, bytes]) -> int:
            found = consumer.committed(partition)[partition]
            assert found is not None
            return found.offset

        with begin() as consumer:
            records = consumer.consume(4, LONG_S)
            assert [record.offset for record in records] == [0, 1, 2, 3]
            consumer.commit(records[1])
            assert committed(consumer) == 2
            consumer.commit()
            assert committed(consumer) == 4
            consumer.commit({partition: 3})
        with begin() as consumer:
            record = consumer.poll(LONG_S)
            assert record is not None
            assert record.offset == 3
            batch = next(consumer.batches(max_records=2, max_wait=LONG_S))
            consumer.commit(batch)
            assert committed(consumer) == 6

    def test_close_commits_automatically_and_not_the_record_that_failed(
        self, broker: Broker, new_topic: NewTopic, produce: Produce
    ) -> None:
        topic = new_topic()
        produce(topic, *[b"%d" % n for n in range(10)])

        def read(count: int, *, fail: bool) -> list[int]:
            offsets: list[int] = []
            with Consumer(
                topic, brokers=broker.bootstrap, group=topic, auto_offset_reset="earliest"
            ) as consumer:
                for record in consumer:
                    offsets.append(record.offset)
                    if len(offsets) == count:
                        if fail:
                            raise RuntimeError("the handler broke")
                        break
            return offsets

        assert read(3, fail=False) == [0, 1, 2]
        with pytest.raises(RuntimeError, match="the handler broke"):
            read(3, fail=True)
        assert read(1, fail=False) == [5], "the record whose handling failed is read again"
