"""The exactly-once sink: tasks and drivers that are lost, a ledger that is, and Spark's own ways to
write. Read back with confluent-kafka, committed records only.

The tests without a session play tasks and driver themselves, with the protocol of the writers.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark.errors import PySparkException

from clients.wire import RawConnection
from odradek.client.errors import KafkaError as KafkaClientError
from odradek.client.errors import ProducerFenced
from odradek.protocol.api.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from odradek.spark import producers
from odradek.spark.commit_protocol import Task
from odradek.spark.exactly_once import driver as drivers
from odradek.spark.exactly_once import ledger_topic, reading
from odradek.spark.exactly_once.errors import (
    LedgerAhead,
    LedgerGone,
    LedgerNotCompacted,
    PrefixInUse,
    RowsMissing,
)
from odradek.spark.exactly_once.protocol import ExactlyOnce
from odradek.spark.exactly_once.reading import LogAdmin, LogCalls, log_admin_of
from odradek.spark.options import write_options
from odradek.spark.task_writer import TaskWriter
from odradek.testing.broker import Broker
from spark.conftest import Topic, Topics


def committed(topic: Topic, partitions: int = 1) -> list[int]:
    return sorted(int(value) for value in topic.committed(partitions))


class Query:
    """A streaming query, whose tasks and drivers the test plays."""

    def __init__(self, topic, **options):
        self.id = str(uuid.uuid4())
        self.topic = topic
        self.options = write_options(
            {
                "kafka.bootstrap.servers": topic.bootstrap,
                "topic": topic.name,
                "delivery": "exactly_once",
                **options,
            },
            streaming=True,
        )

    @property
    def protocol(self):
        return ExactlyOnce.on_driver(self.options)

    def task(self, batch_id, values, partition=0, attempt=0):
        """Run a task to its end; return its report."""
        writer = TaskWriter(
            self.options, self.protocol, Task(self.id, batch_id, partition, attempt)
        )
        return writer.write([pa.record_batch({"value": [str(each) for each in values]})])

    def begin(self, batch_id, partition=0, attempt=0):
        """Run a task up to its first row; return its producer."""
        return self.protocol.setup_task(Task(self.id, batch_id, partition, attempt))

    def commit(self, batch_id, *reports):
        self.protocol.commit(batch_id, reports)

    def new_driver(self):
        """The driver's process is gone; the next one knows nothing."""
        drivers._drivers.clear()

    def time_out(self, report):
        """Have a broker abort a transaction, as it does after its timeout."""
        found = report.transaction
        admin = log_admin_of(self.options.client)
        admin.fence_producers([found.transactional_id(report.batch.prefix)])


@pytest.fixture
def query(topics):
    return Query(topics.create())


def test_rows_are_read_when_the_driver_has_committed_them(query):
    first, second = query.task(0, [1, 2]), query.task(0, [3], partition=1)
    query.commit(0, first, second)
    query.commit(1, query.task(1, [4]))
    assert committed(query.topic) == [1, 2, 3, 4]


def test_a_task_without_rows_has_no_transaction(query):
    report = query.task(0, [])
    assert report.transaction is None
    query.commit(0, report)
    query.commit(1, query.task(1, [1]))
    assert committed(query.topic) == [1]


def test_attempts_that_do_not_count_are_aborted(query):
    """Killed, retried or denied: Spark does not tell the driver of them."""
    query.task(0, [1], attempt=0)
    counted = query.task(0, [1], attempt=1)
    query.task(0, [1, 2], attempt=2)
    query.commit(0, counted)
    assert committed(query.topic) == [1]


def test_an_attempt_whose_first_row_comes_after_its_batch_is_refused(query, monkeypatch):
    fenced = []
    fence = LogCalls._fence

    def counted(calls, transactional_id):
        fenced.append(transactional_id)
        return fence(calls, transactional_id)

    monkeypatch.setattr(LogCalls, "_fence", counted)
    for batch_id in range(3):
        # The attempts of the first and the last batch have the same id.
        losers = [] if batch_id == 1 else [query.begin(batch_id, attempt=1)]
        query.commit(batch_id, query.task(batch_id, [batch_id]))
        for each in losers:
            with pytest.raises(ProducerFenced):
                each.producer.send(query.topic.name, b"99").result()
            each.producer.close(0)
        assert len(fenced) == (1, 1, 2)[batch_id], "an id is fenced once for each who has it"
        assert committed(query.topic) == list(range(batch_id + 1))
    assert log_admin_of(query.options.client).list_transactions(states="Ongoing") == []


def test_a_driver_lost_before_its_decision_has_written_nothing(query):
    query.task(0, [1, 2])
    query.task(0, [3], partition=1)
    query.new_driver()
    query.commit(0, query.task(0, [1, 2, 3]))
    assert committed(query.topic) == [1, 2, 3]


def test_a_replay_of_a_decided_batch_writes_nothing(query, monkeypatch):
    """The driver dies between the decision and the first EndTxn, and Spark cuts the batch
    differently."""
    reports = [query.task(0, [1, 2]), query.task(0, [3], partition=1)]
    with monkeypatch.context() as patch:
        patch.setattr(drivers.BatchDriver, "_end", died)
        with pytest.raises(Died):
            query.commit(0, *reports)
    query.new_driver()
    again = query.task(0, [3, 2, 1])
    assert again.drained
    query.commit(0, again)
    assert committed(query.topic) == [1, 2, 3]


def test_rows_that_were_aborted_after_the_decision_are_copied(query, monkeypatch):
    reports = [query.task(0, range(100)), query.task(0, [100], partition=1)]
    with monkeypatch.context() as patch:
        patch.setattr(drivers.BatchDriver, "_end", died)
        with pytest.raises(Died):
            query.commit(0, *reports)
    query.time_out(reports[0])
    for _ in range(2):
        query.new_driver()
        query.commit(0, query.task(0, [1]))
        assert committed(query.topic) == [*range(101)]


class Died(Exception):
    pass


def died(*_):
    raise Died


def test_an_abort_after_the_decision_leaves_it(query, monkeypatch):
    """Spark aborts a batch whose commit failed, whatever the reason."""
    report = query.task(0, [1])
    with monkeypatch.context() as patch:
        patch.setattr(drivers.BatchDriver, "_end", died)
        with pytest.raises(Died):
            query.commit(0, report)
    query.protocol.abort("micro-batch 0", 0, [report])
    query.new_driver()
    query.commit(0, query.task(0, [1]))
    assert committed(query.topic) == [1]


def test_an_abort_before_the_decision_ends_what_was_written(query):
    report = query.task(0, [1])
    query.task(0, [2], partition=1)
    query.protocol.abort("micro-batch 0", 0, [report])
    assert committed(query.topic) == []


def test_the_slower_of_two_drivers_stops_or_follows(query):
    slow = query.task(0, [1, 2])
    query.commit(0, query.task(0, [1, 2], attempt=1))
    older = dict(drivers._drivers)
    query.new_driver()
    query.commit(1, query.task(1, [3]))
    newer = dict(drivers._drivers)
    drivers._drivers.update(older)
    with pytest.raises(LedgerAhead, match=r"has decided batch 1.*ledgerStartsAt to 2"):
        query.commit(0, slow)
    query.protocol.abort("micro-batch 0", 0, [slow])
    drivers._drivers.update(newer)
    query.commit(2, query.task(2, [4]))
    assert committed(query.topic) == [1, 2, 3, 4]


@pytest.mark.parametrize("batch_id", [0, 1])
def test_a_query_with_the_prefix_of_another_one_stops_with_the_way_out(topics, batch_id):
    prefix = f"shared-{uuid.uuid4()}"
    first, second = (Query(topics.create(), transactionalIdPrefix=prefix) for _ in range(2))
    first.commit(0, first.task(0, [1]))
    with pytest.raises(
        PrefixInUse,
        match=rf"decided batch 0 of {prefix} for the streaming query {first.id}, and batch "
        rf"{batch_id} of {prefix} is of the query {second.id}.*ledgerStartsAt to 1",
    ):
        second.task(batch_id, [2])
    assert committed(second.topic) == []
    second.options = replace(second.options, ledger_starts_at=1)
    second.commit(0, second.task(0, [2]))
    second.commit(1, second.task(1, [3]))
    assert committed(first.topic) == [1]
    assert committed(second.topic) == [3]


def test_of_two_queries_with_one_prefix_the_later_driver_stops(topics):
    prefix = f"shared-{uuid.uuid4()}"
    first, second = (Query(topics.create(), transactionalIdPrefix=prefix) for _ in range(2))
    slow = second.task(0, [2], attempt=1)
    first.commit(0, first.task(0, [1]))
    with pytest.raises(PrefixInUse):
        second.commit(0, slow)
    second.protocol.abort("micro-batch 0", 0, [slow])
    assert committed(first.topic) == [1]
    assert committed(second.topic) == []


def test_a_ledger_without_the_query_stops_it_with_the_way_out(query):
    with pytest.raises(LedgerGone, match=r"nothing about odradek-spark-.*ledgerStartsAt to 5"):
        query.task(5, [1])
    query.options = replace(query.options, ledger_starts_at=5)
    query.commit(5, query.task(5, [1]))
    query.commit(6, query.task(6, [2]))
    assert committed(query.topic) == [1, 2]


def test_batches_before_the_start_of_the_ledger_are_read_and_not_written(query):
    query.options = replace(query.options, ledger_starts_at=2)
    report = query.task(1, [1])
    assert report.drained
    query.commit(1, report)
    query.commit(2, query.task(2, [2]))
    assert committed(query.topic) == [2]


def test_a_ledger_topic_that_is_deleted_stops_the_query(topics):
    name = f"ledger-{uuid.uuid4().hex[:8]}"
    query = Query(topics.create(), ledgerTopic=name)
    query.commit(0, query.task(0, [1]))
    kept = query.protocol
    topics.missing(name).delete()
    ledger_topic._checked.clear()
    query.new_driver()
    writer = TaskWriter(query.options, kept, Task(query.id, 1, 0, 0))
    with pytest.raises(LedgerGone, match=f"ledger topic {name} was deleted"):
        writer.write([pa.record_batch({"value": ["2"]})])
    # The driver has made a new one, where the next batch is not the first.
    with pytest.raises(LedgerGone, match="batch 1 is not its first"):
        query.task(1, [2])


@pytest.mark.parametrize("starts_at", [0, 7])
def test_a_ledger_topic_that_is_deleted_stops_a_replay_of_its_first_batch(topics, starts_at):
    name = f"ledger-{uuid.uuid4().hex[:8]}"
    query = Query(topics.create(), ledgerTopic=name, ledgerStartsAt=str(starts_at))
    query.commit(starts_at, query.task(starts_at, [1]))
    topics.missing(name).delete()
    for attempt in range(2):  # The first driver that is refused must not hide it from the next.
        ledger_topic._checked.clear()
        query.new_driver()
        report = query.task(starts_at, [1], attempt=attempt)
        with pytest.raises(LedgerGone, match=r"the ledger has none.*another transactionalIdPrefix"):
            query.commit(starts_at, report)
        query.protocol.abort("the batch", starts_at, [report])
    assert committed(query.topic) == [1]
    query.options = replace(
        query.options, transactional_id_prefix=f"{name}-again", ledger_starts_at=starts_at + 1
    )
    query.commit(starts_at, query.task(starts_at, [1]))
    query.commit(starts_at + 1, query.task(starts_at + 1, [2]))
    assert committed(query.topic) == [1, 2]


def test_a_ledger_topic_that_is_not_compacted_is_refused(topics):
    ledger = topics.create(cleanup_policy="delete")
    query = Query(topics.create(), ledgerTopic=ledger.name)
    with pytest.raises(LedgerNotCompacted, match=r"cleanup.policy=delete.*Nothing was written"):
        query.task(0, [1])


def test_a_ledger_topic_that_is_deleted_before_the_decision_leaves_nothing_decided(topics):
    name = f"ledger-{uuid.uuid4().hex[:8]}"
    query = Query(topics.create(), ledgerTopic=name)
    query.commit(0, query.task(0, [1]))
    report = query.task(1, [2])
    kept = query.protocol
    topics.missing(name).delete()
    for step in (
        lambda: kept.commit(1, [report]),
        lambda: kept.abort("micro-batch 1", 1, [report]),
    ):
        query.new_driver()
        with pytest.raises(LedgerGone, match=r"nothing of this batch was decided.*ledgerStartsAt"):
            step()
    query.time_out(report)
    ledger_topic._checked.clear()
    query.options = replace(
        query.options, transactional_id_prefix=f"{name}-again", ledger_starts_at=1
    )
    query.commit(1, query.task(1, [2], attempt=1))
    assert committed(query.topic) == [1, 2]


def lose_after_the_decision(query, monkeypatch, *values):
    """Decide batch 0, have its transaction aborted, and lose the driver."""
    report = query.task(0, values)
    with monkeypatch.context() as patch:
        patch.setattr(drivers.BatchDriver, "_end", died)
        with pytest.raises(Died):
            query.commit(0, report)
    query.time_out(report)
    query.new_driver()


def test_records_deleted_before_they_are_copied_stop_the_query(query, monkeypatch):
    lose_after_the_decision(query, monkeypatch, 1, 2, 3)
    query.topic.delete_records(2)
    wanted = r"0 of its 1 transactions are in .* Not in: task 0 \(3 records.*ledgerStartsAt to 1"
    with pytest.raises(RowsMissing, match=wanted):
        query.commit(0, query.task(0, [1]))
    query.options = replace(query.options, ledger_starts_at=1)
    query.commit(1, query.task(1, [4]))
    assert committed(query.topic) == [4]


@pytest.mark.parametrize("again", ["gone", "made again"])
def test_a_topic_deleted_before_the_end_of_the_batch_stops_the_query(
    topics, query, monkeypatch, again
):
    monkeypatch.setattr(reading, "DELETED_AFTER_MS", 200)
    query.commit(0, query.task(0, [1]))
    report = query.task(1, [2])
    query.topic.delete()
    if again == "made again":
        until_created(topics, query.topic.name)
    wanted = rf"0 of its 1 .*topics {query.topic.name}, .*task 0 .1 records.*ledgerStartsAt to 2"
    with pytest.raises(RowsMissing, match=wanted):
        query.commit(1, report)
    query.new_driver()
    with pytest.raises(RowsMissing, match=wanted):
        query.commit(1, query.task(1, [2]))
    if again == "gone":
        until_created(topics, query.topic.name)
    query.options = replace(query.options, ledger_starts_at=2)
    query.commit(2, query.task(2, [3]))
    assert committed(query.topic) == [3]


def test_a_topic_made_again_between_two_batches_is_written_to(topics, query):
    query.commit(0, query.task(0, [1]))
    query.topic.delete()
    until_created(topics, query.topic.name)
    query.commit(1, query.task(1, [2]))
    assert committed(query.topic) == [2]


@pytest.mark.parametrize("again", ["gone", "made again"])
def test_a_topic_deleted_after_the_decision_stops_the_query(topics, query, monkeypatch, again):
    monkeypatch.setattr(reading, "DELETED_AFTER_MS", 200)
    lose_after_the_decision(query, monkeypatch, 1)
    query.topic.delete()
    if again == "made again":
        until_created(topics, query.topic.name)
    with pytest.raises(RowsMissing, match=r"Nobody can tell of task 0.*ledgerStartsAt to 1"):
        query.commit(0, query.task(0, [1]))


def until_created(topics, name):
    """Create a topic whose name is still in use for a moment."""
    while True:
        try:
            return topics.create(name=name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def test_a_topic_deleted_while_a_task_writes_fails_the_task_with_the_way_out():
    with Broker(settings={"auto.create.topics.enable": False}) as broker:
        timeouts = {"kafka.delivery.timeout.ms": 2000, "kafka.request.timeout.ms": 1000}
        query = Query(Topics(broker.bootstrap).create(), **timeouts)
        query.commit(0, query.task(0, [1]))
        query.topic.delete()
        with pytest.raises(KafkaClientError, match=f"{query.topic.name}.*What to do"):
            query.task(1, [2])


def test_ends_over_a_connection_older_than_the_writers_commit_at_once(monkeypatch, caplog):
    """A coordinator refuses them before transaction version 2: they might be late ones."""
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
    made = []

    def new_admin(options):
        made.append(LogAdmin(options))
        return made[-1]

    monkeypatch.setattr(drivers, "LogAdmin", new_admin)
    with Broker() as broker:
        with RawConnection(broker.bootstrap) as wire:
            wire.ask(UpdateFeaturesRequest(feature_updates=[update]), 2, UpdateFeaturesResponse)
        query = Query(Topics(broker.bootstrap).create())
        for batch_id in range(3):
            # The driver is older than the producer of the task, but for the last batch.
            if batch_id < 2:
                producers._cached.clear()
            report = query.task(batch_id, [batch_id])
            assert report.transaction.transaction_version == 1
            before = len(made)
            query.commit(batch_id, report)
            assert len(made) - before == (0, 1, 0)[batch_id], "connections newer than the writer's"
        assert committed(query.topic) == [0, 1, 2]
    assert "written again" not in caplog.text


def test_a_decision_of_many_tasks_has_several_records(topics, monkeypatch):
    from odradek.spark.exactly_once import ledger

    monkeypatch.setattr(ledger, "RANGES_IN_PART", 2)
    query = Query(topics.create())
    reports = [query.task(0, [n], partition=n) for n in range(5)]
    with monkeypatch.context() as patch:
        patch.setattr(drivers.BatchDriver, "_end", died)
        with pytest.raises(Died):
            query.commit(0, *reports)
    query.time_out(reports[3])
    query.new_driver()
    query.commit(0, query.task(0, [0]))
    assert committed(query.topic) == [*range(5)]


def test_a_stream_from_topic_to_topic(topics, stream, bootstrap, tmp_path):
    source, target = topics.create(2), topics.create(2)

    def copy():
        query = (
            stream(source, maxOffsetsPerTrigger=4)
            .selectExpr("value")
            .writeStream.format("odradek")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", target.name)
            .option("delivery", "exactly_once")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    source.produce(*range(5))
    copy()
    source.produce(5, 6, partition=1)
    copy()
    assert committed(target, 2) == [*range(7)]


def test_a_batch_write_of_one_number_is_written_once(spark, topics, bootstrap):
    target = topics.create()
    prefix = f"nightly-{uuid.uuid4().hex[:8]}"

    def save(batch_id, *numbers):
        rows = spark.createDataFrame([(str(n),) for n in numbers], "value string")
        writer = rows.write.format("odradek").mode("append").option("topic", target.name)
        writer.option("kafka.bootstrap.servers", bootstrap).options(
            delivery="exactly_once", transactionalIdPrefix=prefix, batchId=batch_id
        ).save()

    save(0, 1, 2)
    save(0, 2, 1)
    save(3, 3)
    with pytest.raises(PySparkException, match=r"has decided batch 3"):
        save(2, 4)
    assert committed(target) == [1, 2, 3]


def test_each_save_of_a_foreach_batch_function_has_its_prefix(topics, stream, bootstrap, tmp_path):
    source, some, others = topics.create(), topics.create(), topics.create()
    source.produce(*range(4))
    name = uuid.uuid4().hex[:8]

    def write(rows, batch_id):
        for target, condition in ((some, "value < 2"), (others, "value >= 2")):
            writer = rows.where(f"cast(cast(value as string) as int) {condition[6:]}").select(
                "value"
            )
            writer.write.format("odradek").mode("append").options(
                **{"kafka.bootstrap.servers": bootstrap},
                topic=target.name,
                delivery="exactly_once",
                transactionalIdPrefix=f"{name}-{target.name}",
                batchId=batch_id,
            ).save()

    def run():
        writing = stream(source).writeStream.foreachBatch(write).trigger(availableNow=True)
        started = writing.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        started.awaitTermination()
        assert started.exception() is None

    run()
    # As if Spark had died before it logged the micro-batch.
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    run()
    assert committed(some) == [0, 1]
    assert committed(others) == [2, 3]
