"""The methods of the stream reader, called directly without a running Spark."""

import json
import shutil

import confluent_kafka
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from odradek import Admin
from odradek.client.errors import ApiTimeout, UnknownTopicOrPartition
from odradek.model.topics import TopicPartition
from odradek.spark.initial_offsets import DIRECTORY
from odradek.spark.options import read_options, write_options
from odradek.spark.producers import take_producer
from odradek.spark.reader import BatchReader
from odradek.spark.stream_reader import StreamReader
from odradek.spark.topics import DataLoss

ALL = ReadAllAvailable()


@pytest.fixture
def reader(bootstrap):
    readers = []

    def make(topic, **options):
        given = {"startingOffsets": "earliest", **options}
        if topic is not None:
            given["subscribe"] = topic.name
        given["kafka.bootstrap.servers"] = bootstrap
        readers.append(StreamReader(read_options(given, streaming=True)))
        return readers[-1]

    yield make
    for one in readers:
        one.stop()


def of(topic, *offsets):
    return {topic.name: {str(n): offset for n, offset in enumerate(offsets)}}


def plain(offset):
    """Return an offset without its notes, as Spark's own source reads it."""
    return {name: partitions for name, partitions in offset.items() if "@" not in name}


def planned(reader, start, end):
    return [
        (r.partition, r.start, r.end) for task in reader.partitions(start, end) for r in task.ranges
    ]


def test_start_and_end_of_a_stream(topics, reader):
    topic = topics.create(2)
    topic.produce("a", "b")
    follow = reader(topic)
    assert follow.initialOffset() == of(topic, 0, 0)
    assert plain(follow.latestOffset(of(topic, 0, 0), ALL)) == of(topic, 2, 0)
    assert follow.reportLatestOffset() == of(topic, 2, 0)
    assert planned(follow, of(topic, 0, 0), of(topic, 2, 0)) == [(0, 0, 2)]


def test_latest_stays_at_the_first_answer(topics, reader):
    topic = topics.create()
    follow = reader(topic, startingOffsets="latest")
    topic.produce("a")
    assert follow.initialOffset() == of(topic, 1)
    topic.produce("b")
    assert follow.initialOffset() == of(topic, 1)


def test_a_query_with_a_movable_start_has_an_empty_first_batch(topics, reader):
    """The first batch is empty, so that the offset log of Spark has the start of the query."""
    topic = topics.create()
    topic.produce("before")
    follow = reader(topic, startingOffsets="latest")
    start = follow.initialOffset()
    topic.produce("a", "b")
    logged = follow.latestOffset(start, ALL)
    assert "@begin" in logged
    assert plain(logged) == plain(start) == of(topic, 1)
    assert planned(follow, start, logged) == []
    again = reader(topic, startingOffsets="latest")
    moved_on = again.initialOffset()
    assert plain(moved_on) == of(topic, 3)
    assert planned(again, moved_on, logged) == []
    end = again.latestOffset(logged, ALL)
    assert planned(again, logged, end) == [(0, 1, 3)]


def test_a_first_batch_of_another_source_whose_start_may_have_moved_is_data_loss(topics, reader):
    topic = topics.create()
    topic.produce("a", "b", "c")
    again = reader(topic, startingOffsets="latest")
    start = again.initialOffset()
    with pytest.raises(DataLoss, match=r"where it began was not kept.*begin with a new checkpoint"):
        again.partitions(start, of(topic, 3))
    careless = reader(topic, startingOffsets="latest", failOnDataLoss="false")
    assert planned(careless, careless.initialOffset(), of(topic, 3)) == []


def test_a_first_batch_from_the_beginning_runs_again_if_nothing_was_trimmed(topics, reader):
    topic = topics.create()
    topic.produce("a", "b", "c")
    again = reader(topic)
    assert planned(again, again.initialOffset(), of(topic, 2)) == [(0, 0, 2)]
    topic.delete_records(1)
    again = reader(topic)
    with pytest.raises(DataLoss, match="where it began was not kept"):
        again.partitions(again.initialOffset(), of(topic, 2))


def logged_first_batch(reader, topic, place):
    """Log a first micro-batch of three records, which is to be run again."""
    topic.produce("before")
    first = reader(topic, startingOffsets="latest", checkpointLocation=place)
    start = first.initialOffset()
    topic.produce("a", "b", "c")
    return first.latestOffset(start, ALL)


def test_a_first_batch_with_a_kept_start_runs_again(topics, reader, tmp_path):
    topic = topics.create()
    logged = logged_first_batch(reader, topic, str(tmp_path))
    again = reader(topic, startingOffsets="latest", checkpointLocation=str(tmp_path))
    assert planned(again, again.initialOffset(), logged) == [(0, 1, 4)]


@pytest.mark.parametrize("change", ["more topics", "another option", "a number", "no file"])
def test_a_first_batch_whose_kept_start_is_not_found_is_data_loss(topics, reader, tmp_path, change):
    """At each restart: the first one keeps no other start."""
    topic, other = topics.create(), topics.create()
    logged = logged_first_batch(reader, topic, str(tmp_path))
    options = {"startingOffsets": "latest", "checkpointLocation": str(tmp_path)}
    if change == "more topics":
        options["subscribe"] = f"{topic.name},{other.name}"
    elif change == "another option":
        options["startingOffsets"] = json.dumps({topic.name: {"0": -1}})
    elif change == "a number":
        options["startingOffsets"] = json.dumps({topic.name: {"0": 3}})
    else:
        shutil.rmtree(tmp_path / DIRECTORY)
    for _ in range(2):
        again = reader(None, **{"subscribe": topic.name, **options})
        start = again.initialOffset()
        with pytest.raises(DataLoss, match=r"where it began was not kept.*with the options and"):
            again.partitions(start, logged)


def test_a_first_batch_may_run_again_from_an_earlier_start(topics, reader, tmp_path):
    """Other options, but nothing is skipped."""
    topic = topics.create()
    logged = logged_first_batch(reader, topic, str(tmp_path))
    again = reader(topic, checkpointLocation=str(tmp_path))
    assert planned(again, again.initialOffset(), logged) == [(0, 0, 4)]


def test_a_recreated_topic_is_data_loss_even_with_more_records(topics, reader):
    topic = topics.create()
    topic.produce("a")
    first = reader(topic)
    checkpoint = first.latestOffset(first.initialOffset(), ALL)
    topic.delete()
    topics.create(name=topic.name)
    topic.produce("x", "y", "z")
    with pytest.raises(DataLoss, match=f"topic {topic.name} was deleted and created again"):
        reader(topic).latestOffset(checkpoint, ALL)
    careless = reader(topic, failOnDataLoss="false")
    end = careless.latestOffset(checkpoint, ALL)
    assert planned(careless, checkpoint, end) == [(0, 0, 3)]
    again = reader(topic, failOnDataLoss="false")
    assert planned(again, checkpoint, end) == [(0, 0, 3)]


def test_a_topic_recreated_before_the_first_batch_is_run_again(topics, reader):
    """The start of the first batch has no ids of topics, its end has them."""
    topic = topics.create()
    topic.produce("a", "b")
    first = reader(topic)
    logged = first.latestOffset(first.initialOffset(), ALL)
    topic.delete()
    topics.create(name=topic.name)
    topic.produce("x", "y", "z")
    again = reader(topic)
    start = again.initialOffset()
    with pytest.raises(DataLoss, match=f"topic {topic.name} was deleted and created again"):
        again.partitions(start, logged)
    careless = reader(topic, failOnDataLoss="false")
    assert planned(careless, careless.initialOffset(), logged) == []
    end = careless.latestOffset(logged, ALL)
    assert planned(careless, logged, end) == [(0, 0, 3)]


def test_the_groups_offsets_are_the_end_of_the_last_finished_batch(topics, reader, bootstrap):
    topic = topics.create()
    topic.produce("a", "b")
    for options, name in (
        ({"kafka.group.id": f"shown-{topic.name}"}, f"shown-{topic.name}"),
        ({"groupIdPrefix": f"prefix-{topic.name}"}, None),
    ):
        follow = reader(topic, **options)
        follow.prepareForTriggerAvailableNow()
        end = follow.latestOffset(follow.initialOffset(), ALL)
        follow.latestOffset(end, ALL)
        with Admin(brokers=bootstrap) as admin:
            if name is None:
                listed = [group.group_id for group in admin.groups()]
                [name] = [each for each in listed if each.startswith(f"prefix-{topic.name}-")]
            [committed] = admin.group_offsets(name).values()
        assert committed.offset == 2


def test_a_failed_group_commit_does_not_stop_the_query(topics, reader, caplog):
    topic = topics.create()
    group = f"busy-{topic.name}"
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": topic.bootstrap, "group.id": group, "logger": None}
    )
    consumer.subscribe([topic.name])
    while not consumer.assignment():
        consumer.poll(0.1)
    topic.produce("a")
    follow = reader(topic, **{"kafka.group.id": group})
    follow.prepareForTriggerAvailableNow()
    end = follow.latestOffset(follow.initialOffset(), ALL)
    assert follow.latestOffset(end, ALL) == end
    consumer.close()
    assert f"cannot be committed for group {group}" in caplog.text


def test_offsets_without_new_records_are_the_same_text(topics, reader):
    topic = topics.create(12)
    follow = reader(topic)
    start = follow.initialOffset()
    assert json.dumps(follow.latestOffset(start, ALL)) == json.dumps(start)


def test_a_wait_ends_when_a_record_arrives(topics, reader):
    import threading

    topic = topics.create(3)
    follow = reader(topic)
    start = follow.initialOffset()
    follow.latestOffset(start, ALL)
    arriving = threading.Timer(0.05, topic.produce, ["a"], {"partition": 2})
    arriving.start()
    found = start
    while found == start:
        found = follow.latestOffset(start, ALL)
    arriving.join()
    assert plain(found) == of(topic, 0, 0, 1)


def test_max_offsets_per_trigger(topics, reader):
    topic = topics.create(2)
    topic.produce(*range(30))
    topic.produce(*range(10), partition=1)
    follow = reader(topic, maxOffsetsPerTrigger="20")
    assert follow.getDefaultReadLimit() == ReadMaxRows(20)
    assert plain(follow.latestOffset(of(topic, 0, 0), ReadMaxRows(20))) == of(topic, 15, 5)
    assert plain(follow.latestOffset(of(topic, 15, 5), ReadMaxRows(20))) == of(topic, 30, 10)


def test_min_offsets_per_trigger_and_max_trigger_delay(topics, reader):
    topic = topics.create()
    follow = reader(topic, minOffsetsPerTrigger="3", maxTriggerDelay="1h")
    topic.produce("at once after a start")
    assert plain(follow.latestOffset(of(topic, 0), ALL)) == of(topic, 1)
    topic.produce("a", "b")
    assert plain(follow.latestOffset(of(topic, 1), ALL)) == of(topic, 1)
    topic.produce("c")
    assert plain(follow.latestOffset(of(topic, 1), ALL)) == of(topic, 4)
    topic.produce("d")
    assert plain(follow.latestOffset(of(topic, 4), ALL)) == of(topic, 4)
    follow.last_batch_at -= 3600
    assert plain(follow.latestOffset(of(topic, 4), ALL)) == of(topic, 5)


def test_available_now_ends_at_the_end_offsets_of_its_start(topics, reader):
    topic = topics.create()
    topic.produce("a")
    follow = reader(topic)
    follow.prepareForTriggerAvailableNow()
    topic.produce("b")
    assert plain(follow.latestOffset(of(topic, 0), ALL)) == of(topic, 1)
    assert plain(follow.latestOffset(of(topic, 1), ALL)) == of(topic, 1)


def test_batches_end_at_one_record_time_in_all_partitions(topics, reader):
    """Partition 0 has ten records a second and partition 1 has one."""
    topic = topics.create(3)
    for second in range(4):
        for tenth in range(10):
            topic.produce("busy", timestamp=1_000_000 + second * 1000 + tenth * 100)
        topic.produce("calm", partition=1, timestamp=1_000_000 + second * 1000)
    follow = reader(topic, maxTimestampSpanPerTrigger="2s")
    follow.prepareForTriggerAvailableNow()
    assert plain(follow.latestOffset(of(topic, 0, 0, 0), ALL)) == of(topic, 20, 2, 0)
    assert plain(follow.latestOffset(of(topic, 20, 2, 0), ALL)) == of(topic, 40, 4, 0)
    assert plain(follow.latestOffset(of(topic, 40, 4, 0), ALL)) == of(topic, 40, 4, 0)


def test_a_gap_in_time_is_skipped_and_disorder_does_not_stall(topics, reader):
    topic = topics.create()
    for at in (1000, 9_000_000, 2000, 3000):
        topic.produce(at, timestamp=at)
    follow = reader(topic, maxTimestampSpanPerTrigger="5s")
    follow.prepareForTriggerAvailableNow()
    assert plain(follow.latestOffset(of(topic, 0), ALL)) == of(topic, 1)
    assert plain(follow.latestOffset(of(topic, 1), ALL)) == of(topic, 4)


def test_a_new_partition_is_read_from_its_beginning(topics, reader):
    topic = topics.create()
    topic.produce("a")
    follow = reader(topic)
    start = follow.initialOffset()
    topic.add_partitions(2)
    topic.produce("b", partition=1)
    follow.known_until = 0
    end = follow.latestOffset(start, ALL)
    assert plain(end) == of(topic, 1, 1)
    assert planned(follow, start, end) == [(0, 0, 1), (1, 0, 1)]


def test_a_new_partition_that_was_trimmed_before_it_was_read(topics, reader, caplog):
    """While the query runs or is down, and between the log of a micro-batch and its replay."""
    topic = topics.create()
    topic.produce("a")
    first = reader(topic)
    finished = first.latestOffset(first.initialOffset(), ALL)
    topic.add_partitions(2)
    topic.produce(*range(5), partition=1)
    first.known_until = 0
    logged = first.latestOffset(finished, ALL)
    topic.delete_records(3, partition=1)
    message = f"{topic.name}-1 was added .* its log starts at 3, not at 0.*failOnDataLoss to false"
    for running in (first, reader(topic)):
        with pytest.raises(DataLoss, match=message):
            running.latestOffset(finished, ALL)
    with pytest.raises(DataLoss, match=message):
        reader(topic).partitions(finished, logged)
    careless = reader(topic, failOnDataLoss="false")
    for _ in range(2):
        assert plain(careless.latestOffset(finished, ALL)) == of(topic, 1, 5)
        assert planned(careless, finished, logged) == [(1, 3, 5)]
    assert caplog.text.count(f"{topic.name}-1 was added") == 1


def test_a_new_topic_of_a_pattern_that_was_trimmed_before_it_was_read(topics, reader):
    topic = topics.create()
    follow = reader(None, subscribePattern=f"^{topic.name}")
    checkpoint = follow.initialOffset()
    added = topics.create(name=f"{topic.name}-added")
    added.produce("a", "b")
    follow.known_until = 0
    assert plain(follow.latestOffset(checkpoint, ALL)) == {**of(topic, 0), **of(added, 2)}
    added.delete_records(1)
    with pytest.raises(DataLoss, match=f"{added.name}-0 was added .* starts at 1, not at 0"):
        follow.latestOffset(checkpoint, ALL)


def test_a_missing_partition_is_data_loss_unless_that_may_not_fail(topics, reader):
    topic = topics.create()
    start = of(topic, 0, 7)
    with pytest.raises(DataLoss, match=f"partitions are gone: {topic.name}-1"):
        reader(topic).latestOffset(start, ALL)
    careless = reader(topic, failOnDataLoss="false")
    assert plain(careless.latestOffset(start, ALL)) == of(topic, 0)


def both(one, other):
    return {"subscribe": f"{one.name},{other.name}"}


def test_a_deleted_topic_is_named_and_can_be_dropped(topics, reader):
    """Deleted while the stream runs; noticed at once, and after a restart."""
    kept, deleted = topics.create(), topics.create()
    deleted.produce("a", "b")
    strict = reader(None, **both(kept, deleted))
    careless = reader(None, **both(kept, deleted), failOnDataLoss="false")
    start = strict.initialOffset()
    checkpoint = strict.latestOffset(start, ALL)
    careless.latestOffset(start, ALL)
    deleted.delete()
    message = (
        rf"topics are gone: {deleted.name} \(read: {deleted.name}-0 to offset 2\).*"
        "What to do: set failOnDataLoss to false to go on without them"
    )
    for running in (strict, reader(None, **both(kept, deleted))):
        with pytest.raises(DataLoss, match=message):
            running.latestOffset(checkpoint, ALL)
    with pytest.raises(DataLoss, match=message):
        reader(None, **both(kept, deleted)).partitions(start, checkpoint)
    kept.produce("c")
    for running in (careless, reader(None, **both(kept, deleted), failOnDataLoss="false")):
        running.prepareForTriggerAvailableNow()
        end = running.latestOffset(checkpoint, ALL)
        assert plain(end) == of(kept, 1)
        assert plain(running.latestOffset(end, ALL)) == of(kept, 1)
    topics.create(name=deleted.name)
    deleted.produce("d")
    again = reader(None, **both(kept, deleted), failOnDataLoss="false")
    assert planned(again, end, again.latestOffset(end, ALL)) == [(0, 0, 1)]


def test_a_topic_that_never_existed_is_refused_on_restart(topics, reader):
    topic, missing = topics.create(), topics.missing()
    with pytest.raises(UnknownTopicOrPartition, match=f"topic {missing.name}"):
        reader(None, **both(topic, missing)).latestOffset(of(topic, 0), ALL)


def test_a_checkpoint_of_a_query_over_other_topics(topics, reader):
    topic, other = topics.create(3), topics.create()
    message = (
        f"the checkpoint has {other.name}-0, which this query does not read .*{topic.name}.*"
        "give each query a checkpointLocation of its own"
    )
    with pytest.raises(DataLoss, match=message):
        reader(topic).latestOffset(of(other, 5), ALL)
    assigned = reader(None, assign=json.dumps({topic.name: [0]}))
    with pytest.raises(DataLoss, match=f"the checkpoint has {topic.name}-1, {topic.name}-2, which"):
        assigned.latestOffset(of(topic, 0, 0, 0), ALL)


def start_stream(given):
    StreamReader(read_options({**given, "subscribe": "t"}, streaming=True)).initialOffset()


def plan_batch(given):
    BatchReader(read_options({**given, "subscribe": "t"}, streaming=False)).partitions()


def begin_to_write(given):
    take_producer(write_options(given, streaming=True)).topics.partition_count("t")


@pytest.mark.parametrize("call", [start_stream, plan_batch, begin_to_write])
def test_a_timeout_without_a_broker_names_its_address(call):
    message = r"no answer within 300 ms \(default.api.timeout.ms\); last error: .*127.0.0.1:1.*"
    with pytest.raises(ApiTimeout, match=f"{message}What to do: check bootstrap.servers"):
        call({"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "300"})


def test_a_log_that_ends_before_the_next_offset(topics, reader):
    topic = topics.create()
    topic.produce("a")
    with pytest.raises(DataLoss, match="offset 5 should be next, the log ends at 1"):
        reader(topic).latestOffset(of(topic, 5), ALL)
    careless = reader(topic, failOnDataLoss="false")
    assert plain(careless.latestOffset(of(topic, 5), ALL)) == of(topic, 1)
    assert planned(careless, of(topic, 5), of(topic, 1)) == [(0, 0, 1)]


def test_a_log_that_starts_after_the_next_offset(topics, reader):
    topic = topics.create()
    topic.produce(*range(10))
    topic.delete_records(6)
    with pytest.raises(DataLoss, match="offsets 2 to 10 should be read, the log starts at 6"):
        reader(topic).partitions(of(topic, 2), of(topic, 10))
    careless = reader(topic, failOnDataLoss="false")
    assert planned(careless, of(topic, 2), of(topic, 10)) == [(0, 6, 10)]
    assert planned(careless, of(topic, 2), of(topic, 4)) == []


def test_with_assign_only_those_partitions_are_read_and_must_exist(topics, reader):
    topic = topics.create(3)
    topic.produce("a", partition=2)
    follow = reader(None, assign=json.dumps({topic.name: [2]}))
    assert follow.initialOffset() == {topic.name: {"2": 0}}
    assert plain(follow.latestOffset({topic.name: {"2": 0}}, ALL)) == {topic.name: {"2": 1}}
    absent = reader(None, assign=json.dumps({topic.name: [9]}))
    with pytest.raises(ValueError, match=f"partitions that do not exist: {topic.name}-9"):
        absent.initialOffset()


def test_offsets_that_do_not_fit_the_topic_are_refused(topics, reader):
    topic = topics.create(2)
    lacking = reader(topic, startingOffsets=json.dumps(of(topic, 0)))
    with pytest.raises(ValueError, match=f"it lacks {TopicPartition(topic.name, 1)}"):
        lacking.initialOffset()


def test_a_pattern_matches_within_names_but_not_internal_topics(topics, reader, bootstrap):
    middle = topics.create().name
    topics.create(name=f"my-{middle}.delays")
    commit_an_offset(bootstrap, middle)

    def subscribed(pattern):
        start = reader(None, subscribePattern=pattern).initialOffset()
        return {name for name in start if middle in name or name.startswith("__")}

    assert subscribed(middle) == {middle, f"my-{middle}.delays"}
    assert subscribed(rf"^\Q{middle}\E\z") == {middle}
    assert subscribed(".*") == {middle, f"my-{middle}.delays"}
    assert subscribed("__consumer_offsets") == set()


def commit_an_offset(bootstrap, topic):
    """So that the internal topic of the broker exists."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"g-{topic}", "logger": None}
    consumer = confluent_kafka.Consumer(settings)
    where = confluent_kafka.TopicPartition(topic, 0, 0)
    consumer.commit(offsets=[where], asynchronous=False)
    assert "__consumer_offsets" in consumer.list_topics(timeout=30).topics
    consumer.close()


def test_a_start_time_after_the_last_record(topics, reader):
    topic = topics.create()
    topic.produce("old", timestamp=1_000)
    with pytest.raises(ValueError, match="no record is as young"):
        reader(topic, startingTimestamp="2000").initialOffset()
    late = reader(topic, startingTimestamp="2000", startingOffsetsByTimestampStrategy="latest")
    assert late.initialOffset() == of(topic, 1)
