"""A reader that only waits is woken for every record, whatever brokers do.

A bounded read runs against scripted brokers: records are appended, leaders move, brokers die,
fetches fail, sessions are forgotten, while the application only waits in a poll. Only the
consumer's own signals wake it. It must get each record once and in order, and the end of the read
after the last one.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.consumer.application.poll_loop import RecordBuffer, run_now
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from unit.client.consumer.application import numbered
from unit.client.consumer.simulated_reader import FOREVER_MS, Reader

LEADERS = (1, 2, 1)
PASSING = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
]

partitions = st.integers(0, len(LEADERS) - 1)
moments_ms = st.integers(0, 4000)
actions = st.one_of(
    st.tuples(st.just("append"), partitions, st.integers(1, 12)),
    st.tuples(st.just("append"), partitions, st.integers(1, 12)),
    st.tuples(st.just("fail"), partitions, st.sampled_from(PASSING)),
    st.tuples(st.just("move"), partitions, st.integers(1, 2)),
    st.tuples(st.just("forget"), st.just(0), st.just(0)),
    st.tuples(st.just("restart"), st.integers(1, 2), st.integers(1, 2000)),
)


class WaitingReader:
    """One reader, and the events planned while it waits."""

    def __init__(self, prefetch_max_bytes: int) -> None:
        self.reader = Reader(
            LEADERS,
            brokers=2,
            prefetch_max_bytes=prefetch_max_bytes,
            max_partition_fetch_bytes=400,
            request_timeout_ms=2000,
            metadata_max_age_ms=FOREVER_MS,
        )
        self.keys = [TopicPartition("orders", number) for number in range(len(LEADERS))]
        self.due = dict.fromkeys(range(len(LEADERS)), 0)
        self.ends = dict.fromkeys(self.keys, 0)
        self.down: set[int] = set()

    def plan(self, at_ms: int, action: str, first: int, second: int) -> None:
        """Plan an event at a time."""
        if action == "append":
            self.ends[self.keys[first]] += second
        self.reader.later(at_ms, lambda: getattr(self, action)(first, second))

    def append(self, partition: int, count: int) -> None:
        log = self.reader.logs[self.keys[partition]]
        epoch = self.reader.cluster.topics["orders"].epochs[partition]
        log.append(numbered(log.end, count), epoch)

    def fail(self, partition: int, code: ErrorCode) -> None:
        self.reader.logs[self.keys[partition]].errors.append(code)

    def move(self, partition: int, leader: int) -> None:
        self.reader.cluster.move("orders", partition, leader)

    def forget(self, _: int, __: int) -> None:
        self.reader.logs.sessions.clear()

    def restart(self, node_id: int, after_ms: int) -> None:
        if node_id not in self.down:
            self.down.add(node_id)
            self.reader.cluster[node_id].stop()
            self.reader.later(after_ms, lambda: self.come_back(node_id))

    def come_back(self, node_id: int) -> None:
        self.down.discard(node_id)
        self.reader.cluster[node_id].start()

    def got(self, partition: int, offset: int, value: object) -> None:
        assert offset == self.due[partition], f"{partition}: {offset}, not {self.due[partition]}"
        assert value == b"%d" % offset
        self.due[partition] += 1

    def read(self, at_once: int) -> None:
        """Read to the end, one record or many at a time."""
        self.reader.application.assign(
            self.keys, starts=dict.fromkeys(self.keys, 0), ends=self.ends
        )
        more = True
        while more:
            buffer = RecordBuffer(self.reader.application.collector, at_once)
            if at_once == 1:
                record = self.reader.poll()
                found = [] if record is None else [record]
                more = record is not None
            else:
                more = run_now(self.reader.poll_loop.fill(buffer, None))
                found = buffer.records
            for each in found:
                self.got(each.partition, each.offset, each.value)


@settings(max_examples=80)
@given(
    st.lists(st.tuples(moments_ms, actions), min_size=3, max_size=30),
    st.sampled_from([1, 150, 400, 3000, 1 << 20]),
    st.sampled_from([1, 7]),
)
def test_a_waiting_reader_gets_each_record_once_and_then_the_end(
    script: list[tuple[int, tuple[str, int, int]]], prefetch_max_bytes: int, at_once: int
) -> None:
    waiting = WaitingReader(prefetch_max_bytes)
    for at_ms, (action, first, second) in script:
        waiting.plan(at_ms, action, first, second)
    waiting.read(at_once)
    assert list(waiting.due.values()) == list(waiting.ends.values())
