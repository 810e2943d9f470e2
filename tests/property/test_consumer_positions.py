"""A consumer neither skips nor repeats records, whatever brokers and applications do.

A random script runs against scripted brokers: records are appended, leaders move, brokers die,
fetches fail, sessions are forgotten; the application polls one record or many at a time, seeks,
pauses, resumes, and is interrupted. After each seek, records must come from there on, each once and
in order.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.client.consumer.application.poll_loop import RecordBuffer
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.testing.scripted import ScriptedCluster
from odradek.testing.scripted_logs import ScriptedLogs
from unit.client.consumer.application import Application

PARTITIONS = 3
PASSING = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]

partitions = st.integers(0, PARTITIONS - 1)
pauses_ms = st.sampled_from([0, 3, 40, 700])
"""Time between steps: none, less than a fetch takes, a fetch, the longest wait of a fetch."""
actions = st.one_of(
    st.tuples(st.just("append"), partitions, st.integers(1, 12)),
    st.tuples(st.just("fail"), partitions, st.sampled_from(PASSING)),
    st.tuples(st.just("move"), partitions, st.integers(1, 2)),
    st.tuples(st.just("forget"), st.just(0), st.just(0)),
    st.tuples(st.just("restart"), st.integers(1, 2), st.integers(0, 3000)),
    st.tuples(st.just("poll"), st.just(0), st.integers(1, 8)),
    st.tuples(st.just("consume"), st.just(0), st.integers(1, 8)),
    st.tuples(st.just("interrupt"), st.just(0), st.integers(1, 8)),
    st.tuples(st.just("seek"), partitions, st.integers(0, 20)),
    st.tuples(st.just("pause"), partitions, st.just(0)),
    st.tuples(st.just("resume"), partitions, st.just(0)),
)


class ReaderScript:
    """One consumer, and the record expected next of each partition."""

    def __init__(self) -> None:
        self.cluster = ScriptedCluster(brokers=2)
        self.cluster.create("orders", leaders=[1, 2, 1])
        self.logs = ScriptedLogs(self.cluster)
        self.consumer = Application(
            self.cluster,
            max_partition_fetch_bytes=400,
            prefetch_max_bytes=3000,
            request_timeout_ms=2000,
        )
        self.keys = [TopicPartition("orders", number) for number in range(PARTITIONS)]
        self.consumer.assign(self.keys, starts=dict.fromkeys(self.keys, 0))
        self.due = [0] * PARTITIONS
        self.paused: set[int] = set()
        for partition in range(PARTITIONS):
            for _ in range(4):
                self.append(partition, 3)

    def got(self, partition: int, offset: int, value: object) -> None:
        assert partition not in self.paused, f"{partition} is paused"
        assert offset == self.due[partition], f"{partition}: {offset}, not {self.due[partition]}"
        assert value == b"%d" % offset
        self.due[partition] += 1

    # Events.

    def append(self, partition: int, count: int) -> None:
        log = self.logs[self.keys[partition]]
        epoch = self.cluster.topics["orders"].epochs[partition]
        first = log.end
        log.append([(None, b"%d" % (first + i), [], 0) for i in range(count)], epoch)

    def fail(self, partition: int, code: ErrorCode) -> None:
        self.logs[self.keys[partition]].errors.append(code)

    def move(self, partition: int, leader: int) -> None:
        self.cluster.move("orders", partition, leader)

    def forget(self, _: int, __: int) -> None:
        self.logs.sessions.clear()

    def restart(self, node_id: int, after_ms: int) -> None:
        self.cluster[node_id].stop()
        self.cluster.run(after_ms)
        self.cluster[node_id].start()

    def poll(self, _: int, count: int) -> None:
        for _ in range(count):
            record = self.consumer.poll()
            if record is not None:
                self.got(record.partition, record.offset, record.value)

    def consume(self, _: int, count: int) -> None:
        self.consumer.collector.mark_consumed()
        buffer = RecordBuffer(self.consumer.collector, count)
        self.consumer.side.do(buffer.add)
        for record in buffer.records:
            self.got(record.partition, record.offset, record.value)
        for partition, at in buffer.batch().offsets.items():
            assert at.offset == self.due[partition.partition]

    def interrupt(self, _: int, count: int) -> None:
        """Interrupt a poll, as Ctrl-C does; the records it collected are put back."""
        collector = self.consumer.collector
        collector.mark_consumed()
        buffer = RecordBuffer(collector, count)
        self.consumer.side.do(buffer.add)
        places = collector.undo()
        self.consumer.side.do(lambda: self.consumer.consumer.move_back(places))
        collector.refresh()

    def seek(self, partition: int, offset: int) -> None:
        to = min(offset, self.logs[self.keys[partition]].end)
        self.consumer.seek(self.keys[partition], to)
        self.due[partition] = to

    def pause(self, partition: int, _: int) -> None:
        self.consumer.pause(self.keys[partition])
        self.paused.add(partition)

    def resume(self, partition: int, _: int) -> None:
        self.consumer.resume(self.keys[partition])
        self.paused.discard(partition)

    def end(self) -> None:
        """End all faults, and read all remaining records."""
        for partition in range(PARTITIONS):
            self.resume(partition, 0)
            self.logs[self.keys[partition]].errors.clear()
        ends = [self.logs[key].end for key in self.keys]

        def caught_up() -> bool:
            self.poll(0, 20)
            return self.due == ends

        self.cluster.until(caught_up, 60_000)
        assert self.consumer.errors == []
        assert [self.consumer.position(key) for key in self.keys] == ends


@settings(max_examples=80)
@given(st.lists(st.tuples(actions, pauses_ms), min_size=5, max_size=40))
def test_a_consumer_gets_each_record_once_and_in_order(
    script: list[tuple[tuple[str, int, int], int]],
) -> None:
    story = ReaderScript()
    for (action, first, second), pause_ms in script:
        getattr(story, action)(first, second)
        story.cluster.run(pause_ms)
    story.end()
