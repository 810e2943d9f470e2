"""The options of the Spark source and sink: meaning, defaults, precedence and errors."""

import dataclasses
import pickle
from typing import Any

import pytest

from odradek.config.client import AdminConfig
from odradek.model.topics import TopicPartition
from odradek.spark import option_table
from odradek.spark.offsets import EARLIEST, LATEST
from odradek.spark.options import (
    OffsetLimit,
    OptionReader,
    Subscription,
    missing_partitions,
    read_options,
    settings_for,
    write_options,
)

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}
T0, T1 = TopicPartition("flights", 0), TopicPartition("flights", 1)


def batch(**options):
    return read_options(
        {**BASE, **{k.replace("__", "."): v for k, v in options.items()}}, streaming=False
    )


def stream(**options):
    return read_options({**BASE, **options}, streaming=True)


def test_defaults_are_those_of_sparks_kafka_source():
    read, follow = batch(), stream()
    assert read.starting.all_at == EARLIEST
    assert read.ending.all_at == LATEST
    assert follow.starting.all_at == LATEST
    assert read.fail_on_data_loss
    assert not read.include_headers
    assert not read.read_committed


def test_names_are_case_insensitive_and_options_can_travel():
    options = read_options(
        {"KAFKA.bootstrap.SERVERS": "h:1", "SUBSCRIBE": "b, a,a", "includeheaders": "TRUE"},
        streaming=False,
    )
    assert options.subscription == Subscription(topics=("a", "b"))
    assert options.include_headers
    assert pickle.loads(pickle.dumps(options)) == options


def test_assign_reads_the_partitions_that_it_names_once():
    options = read_options(
        {"kafka.bootstrap.servers": "h:1", "assign": '{"flights": [1, 0, 1]}'}, streaming=True
    )
    assert options.subscription.assignment == (T0, T1)


def test_timestamps_take_precedence_over_offsets():
    given = {
        "startingOffsets": "earliest",
        "startingOffsetsByTimestamp": '{"flights": {"0": 7}}',
        "startingTimestamp": "1000",
    }
    assert batch(**given).starting == OffsetLimit("startingTimestamp", timestamp=1000)
    del given["startingTimestamp"]
    assert batch(**given).starting.timestamps == {T0: 7}
    del given["startingOffsetsByTimestamp"]
    assert batch(**given).starting.all_at == EARLIEST


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("250", 250), ("250ms", 250), ("10s", 10_000), ("15m", 900_000), ("2 h", 7_200_000)],
)
def test_a_duration_is_read_with_and_without_unit(text, milliseconds):
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"flights": {"0": -1}}'}, "cannot be latest"),
        ({"startingOffsets": '{"flights": {"0": -3}}'}, "below -2"),
        ({"startingOffsets": "newest"}, "startingOffsets must be earliest, latest or JSON"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"endingOffsets": '{"flights": {"0": -2}}'}, "cannot be earliest"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp must be a whole number"),
        ({"startingOffsetsByTimestamp": '{"flights": {"0": -5}}'}, "negative timestamp"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss must be true or false"),
        ({"minPartitions": "0"}, "minPartitions must be a whole number of at least 1"),
        ({"subscribePattern": "x"}, "exactly one of"),
        ({"kafka.security.protocol": "SASL_SSL"}, "this client supports only PLAINTEXT"),
        ({"kafka.metadata.max.age.ms": "soon"}, "soon"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit cannot be given: where a"),
        ({"kafka.fetch.message.max.bytes": "9"}, "is written kafka.max.partition.fetch.bytes here"),
        ({"startingofsets": "latest"}, r"'startingofsets'; did you mean startingOffsets\?"),
        ({"kafka.fetch.max.byte": "1"}, r"kafka\.fetch\.max\.byte:.*did you mean fetch\.max\.byte"),
        ({"xyzzy": "1"}, "it has kafka.bootstrap.servers, kafka.client.id"),
        ({"kafka.isolation.level": "serializable"}, "must be one of"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "must be one of"),
    ],
)
def test_an_invalid_option_is_refused_by_name(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_options({**BASE, **options}, streaming=False)


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp"])
def test_a_stream_has_no_end(option):
    with pytest.raises(ValueError, match="a stream has no end"):
        read_options({**BASE, option: "5" if "Time" in option else "latest"}, streaming=True)


def test_a_cluster_and_a_subscription_are_needed():
    with pytest.raises(ValueError, match=r"kafka\.bootstrap\.servers is missing"):
        read_options({"subscribe": "t"}, streaming=False)
    with pytest.raises(ValueError, match=r"exactly one of .* \(given: none\)"):
        read_options({"kafka.bootstrap.servers": "h:1"}, streaming=False)
    with pytest.raises(ValueError, match="no regular expression"):
        read_options({"kafka.bootstrap.servers": "h:1", "subscribePattern": "("}, streaming=False)


def test_offsets_per_partition_must_name_exactly_what_is_read():
    limit = OffsetLimit("startingOffsets", offsets={T0: 5})
    assert missing_partitions(limit, [T0]) is None
    assert "lacks flights-1" in str(missing_partitions(limit, [T0, T1]))
    assert "has flights-0, which is not read" in str(missing_partitions(limit, [T1]))
    assert missing_partitions(OffsetLimit("startingOffsets", all_at=LATEST), [T0]) is None


def test_options_of_a_write_are_read_and_acks_1_is_refused():
    options = write_options(
        {**BASE, "topic": "out", "kafka.compression.type": "ZSTD"}, streaming=True
    )
    assert (options.topic, options.compression, options.idempotence) == ("out", "zstd", True)
    with pytest.raises(ValueError, match=r"kafka\.acks must be one of all, -1"):
        write_options({**BASE, "kafka.acks": "1"}, streaming=True)


def test_unanswered_requests_of_a_write():
    name = "kafka.max.in.flight.requests.per.connection"
    for given, expected in (
        ({}, 5),
        ({name: "2"}, 2),
        ({"kafka.enable.idempotence": "false"}, 1),
        ({"kafka.enable.idempotence": "false", name: "5"}, 5),
    ):
        assert write_options({**BASE, **given}, streaming=True).max_in_flight == expected
    for wrong, bound in (("0", "at least 1"), ("6", "at most 5")):
        with pytest.raises(ValueError, match=f"{name} must be a whole number of {bound}, not"):
            write_options({**BASE, name: wrong}, streaming=True)


def test_a_misspelt_option_of_a_write_is_refused_too():
    with pytest.raises(ValueError, match="did you mean topic"):
        write_options({**BASE, "topik": "out"}, streaming=True)


def test_options_for_another_use_or_for_spark_itself_are_accepted():
    given = {"querYname": "q", "groupIdPrefix": "g", "topic": "out", "maxOffsetsPerTrigger": "5"}
    expected = dataclasses.replace(batch(), max_offsets_per_trigger=5, group_id_prefix="g")
    assert batch(**given) == expected
    assert write_options({**BASE, **given}, streaming=True).topic == "out"


def test_other_client_settings_are_passed_to_the_clients(caplog):
    given = {
        "kafka.metadata.max.age.ms": "9",
        "KAFKA.fetch_wait_max_ms": "7",
        "kafka.linger.ms": "3",
    }
    read = read_options({**BASE, **given}, streaming=False).client
    assert dict(read.settings) == {"metadata.max.age.ms": "9", "fetch.max.wait.ms": "7"}
    assert "without effect here: kafka.linger.ms" in caplog.text
    written = write_options({**BASE, **given}, streaming=True).client
    assert dict(written.settings) == {"metadata.max.age.ms": "9", "linger.ms": "3"}
    assert settings_for(written.settings, AdminConfig) == {"metadata.max.age.ms": "9"}


def test_the_table_has_exactly_the_options_that_are_read(monkeypatch):
    asked: dict[str, Any] = {}

    def noting(kind):
        method = getattr(OptionReader, kind)

        def wrapped(self, name, default=None, *more):
            asked[name] = default if asked.get(name) is None else asked[name]
            return method(self, name, *([] if kind == "text" else [default]), *more)

        return wrapped

    for kind in ("text", "integer", "boolean", "duration_ms", "choice"):
        monkeypatch.setattr(OptionReader, kind, noting(kind))
    batch(assign='{"t": [0]}', subscribe="")
    batch()
    write_options(BASE, streaming=True)
    assert set(asked) == set(option_table.option_names())
    for option in option_table.OPTIONS:
        default = asked[option.name]
        if option.name == "maxTriggerDelay":
            assert (option.default, default) == ("15m", 15 * 60_000)
        elif default is not None:
            assert option.default == str(default).lower()
        assert option.doc.endswith((".", "`."))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"valueFormat": "json"}, "needs valueSchema"),
        ({"valueSchema": "a int"}, "needs valueFormat=json"),
        ({"valueFormat": "avro", "valueSchema": "a int"}, "valueFormat must be one of json"),
        ({"valueFormat": "json", "valueSchema": "a variant"}, "valueSchema 'a variant' cannot be"),
    ],
)
def test_a_value_format_needs_a_schema_and_the_reverse(given, reason):
    with pytest.raises(ValueError, match=reason):
        batch(**given)


def test_the_schema_of_values_travels_with_the_options():
    options = batch(valueFormat="JSON", valueSchema="a int")
    assert options.value_schema.names == ["a"]
    assert pickle.loads(pickle.dumps(options)) == options


EXACTLY_ONCE = {**BASE, "topic": "out", "delivery": "exactly_once"}


def test_a_stream_that_writes_exactly_once_needs_nothing_else():
    options = write_options(EXACTLY_ONCE, streaming=True)
    assert options.exactly_once
    assert (options.transactional_id_prefix, options.batch_id) == (None, None)
    assert (options.ledger_topic, options.ledger_starts_at) == ("odradek-spark-ledger", 0)


def test_a_batch_write_says_what_it_is():
    given = {**EXACTLY_ONCE, "transactionalIdPrefix": "nightly", "batchId": "20"}
    options = write_options(given, streaming=False)
    assert (options.transactional_id_prefix, options.batch_id) == ("nightly", 20)
    next_one = write_options({**given, "batchId": "21", "topic": "other"}, streaming=False)
    assert options.of_clients() == next_one.of_clients()


@pytest.mark.parametrize(
    ("given", "streaming", "complaint"),
    [
        ({"delivery": "twice"}, True, "delivery must be one of at_least_once, exactly_once"),
        ({"delivery": "at_least_once", "batchId": "1"}, False, "batchId needs delivery=exactly"),
        ({"batchId": "1"}, True, "batchId is for batch writes"),
        ({}, False, "needs transactionalIdPrefix"),
        ({"transactionalIdPrefix": "nightly"}, False, "needs batchId"),
        ({"transactionalIdPrefix": "a.1.0"}, True, "cannot be used"),
        ({"transactionalIdPrefix": "a\0"}, True, "cannot be used"),
        ({"transactionalIdPrefix": ""}, True, "cannot be used"),
        ({"kafka.enable.idempotence": "false"}, True, "kafka.enable.idempotence=true"),
        ({"kafka.transactional.id": "x"}, True, "say delivery and transactionalIdPrefix"),
    ],
)
def test_options_that_do_not_fit_exactly_once_are_refused(given, streaming, complaint):
    with pytest.raises(ValueError, match=complaint):
        write_options({**EXACTLY_ONCE, **given}, streaming=streaming)
