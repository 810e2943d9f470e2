"""Producing many records at once: lists, confluent-kafka's batches, and Arrow data."""

from __future__ import annotations

import pyarrow as pa
import pytest

from clients.producer.read_back import LONG_S, read, values
from odradek import Producer
from odradek.client.errors import ClientClosed, SerializationError


def test_produce_batch_works_as_in_confluent_kafka(broker, topic):
    told = []

    def tell(error, delivery):
        told.append((error, delivery.partition))

    messages = [
        {"value": "a", "key": "k", "partition": 1},
        {"value": {"no": "bytes"}},
        {"value": b"c", "timestamp": 5, "headers": {"h": b"x"}, "callback": lambda *_: None},
    ]
    with Producer(brokers=broker.bootstrap) as producer:
        assert producer.produce_batch(topic, messages, 2, on_delivery=tell) == 2  # type: ignore[arg-type]
        assert [type(message.get("_error")) for message in messages] == [  # type: ignore[attr-defined]
            type(None),
            SerializationError,
            type(None),
        ]
        messages[1]["value"] = "b"  # type: ignore[index]
        assert producer.produce_batch(topic, messages[1:2], partition=0) == 1  # type: ignore[arg-type]
        assert "_error" not in messages[1]  # type: ignore[operator]
        with pytest.raises(TypeError, match="give a dict of callback, headers, key"):
            producer.produce_batch(topic, [{"value": "x"}, {"valeu": "x"}])
    assert told == [(None, 1)]
    found = [(m.partition(), m.value(), m.key(), m.headers()) for m in read(broker, topic, 3)]
    assert found == [(0, b"b", None, None), (1, b"a", b"k", None), (2, b"c", None, [("h", b"x")])]
    with pytest.raises(ClientClosed):
        producer.produce_batch(topic, messages)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("messages", "refused"),
    [
        (
            (message for message in [{"value": "x"}]),
            TypeError,
        ),  # An iterator can be read only once.
        ([{"value": "x"}, {"valeu": "x"}], TypeError),
        ([{"value": "x"}, "x"], TypeError),
        ([{"value": "x"}, {"value": "x", "partition": "0"}], TypeError),
        ([{"value": "x"}, {"value": "x", "partition": -7}], ValueError),
    ],
)
def test_produce_batch_takes_nothing_of_invalid_messages(broker, topic, messages, refused):
    with Producer(brokers=broker.bootstrap) as producer:
        with pytest.raises(refused):
            producer.produce_batch(topic, messages)
        assert len(producer) == 0


def test_send_many_delivers_all_records(broker, topic):
    with Producer(brokers=broker.bootstrap, batch_size=1_000, buffer_memory=4_000) as producer:
        deliveries = producer.send_many(
            topic,
            [f"v{number}" for number in range(1_000)],
            keys=[f"k{number % 7}" for number in range(1_000)],
            headers={"h": "x"},
        )
        ranges = deliveries.result(LONG_S)
    assert len(deliveries) == sum(found.records for found in ranges) == 1_000
    messages = read(broker, topic, 1_000)
    assert {message.headers()[0] for message in messages} == {("h", b"x")}
    assert sorted(values(messages)) == sorted(b"v%d" % number for number in range(1_000))


def test_send_many_refuses_another_number_of_keys(broker, topic):
    with Producer(brokers=broker.bootstrap) as producer, pytest.raises(ValueError, match="1 keys"):
        producer.send_many(topic, ["a", "b"], keys=["k"])


@pytest.mark.parametrize("one", ["abc", b"abc", bytearray(b"abc"), {"a": 1, "b": 2, "c": 3}])
def test_send_many_refuses_a_single_value_or_key(broker, topic, one):
    with Producer(brokers=broker.bootstrap, key="json", value="json") as producer:
        with pytest.raises(TypeError, match=r"values.*What to do: give a list"):
            producer.send_many(topic, one)
        with pytest.raises(TypeError, match=r"keys.*What to do: give a list"):
            producer.send_many(topic, [1, 2, 3], keys=one)
        assert len(producer) == 0
        assert len(producer.send_many(topic, ("a", "bc"), keys=("k", "k"))) == 2


def test_send_arrow_takes_keys_headers_partitions_and_timestamps_from_columns(broker, topic):
    table = pa.table(
        {
            "payload": ["a", None, "c", "d"],
            "id": pa.array([b"1", b"2", None, b"4"], pa.large_binary()),
            "tags": pa.array(
                [[{"key": "x", "value": b"y"}], None, [], [{"key": "n", "value": None}]],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "where": pa.array([0, 1, 2, 0], pa.int16()),
            "when": pa.array([1, 2, 3, 4], pa.timestamp("s")),
        }
    )
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send_arrow(
            topic,
            table,
            key="id",
            value="payload",
            headers="tags",
            partition="where",
            timestamp="when",
        ).result(LONG_S)
        producer.send_arrow(topic, table.slice(2), value="payload", partition=2).result(LONG_S)
    found = [
        (m.partition(), m.key(), m.value(), m.headers(), m.timestamp()[1])
        for m in read(broker, topic, 6)
    ]
    assert found[:4] == [
        (0, b"1", b"a", [("x", b"y")], 1_000),
        (0, b"4", b"d", [("n", None)], 4_000),
        (1, b"2", None, None, 2_000),
        (2, None, b"c", None, 3_000),
    ]
    assert [row[2] for row in found[4:]] == [b"c", b"d"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.dictionary(pa.int8(), pa.string()),
    ],
    ids=str,
)
def test_send_arrow_takes_columns_of_many_types(broker, topic, kind):
    texts = ["a", "bb", None, "", "a"]
    array = pa.array([None if t is None else t.encode() for t in texts], pa.binary())
    wanted = kind.value_type if pa.types.is_dictionary(kind) else kind
    plain = array.cast(pa.string()).cast(wanted) if wanted != pa.binary() else array
    column = plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain
    batch = pa.record_batch({"value": column}).slice(1)
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send_arrow(topic, batch, partition=0).result(LONG_S)
    assert values(read(broker, topic, 4)) == [b"bb", None, b"", b"a"]


def test_send_arrow_writes_rows_as_json(broker, topic):
    table = pa.table({"k": ["x", "y"], "a": [1, 2], "b": ["p", None]})
    with Producer(brokers=broker.bootstrap) as producer:
        producer.send_arrow(topic, table, key="k", value="json", partition=0).result(LONG_S)
    found = [(m.key(), m.value()) for m in read(broker, topic, 2)]
    assert found == [(b"x", b'{"a":1,"b":"p"}'), (b"y", b'{"a":2,"b":null}')]


@pytest.mark.parametrize(
    ("data", "arguments", "said"),
    [
        (pa.table({"value": ["x"]}), {"value": "vlaue"}, "did you mean 'value'"),
        (pa.table({"a": [1]}), {}, 'no column .value.*value="json" for a JSON object'),
        (pa.table({"value": [1]}), {}, "cannot be a column of int64"),
        (pa.table({"value": ["x"], "h": [1]}), {"headers": "h"}, "headers of records"),
        (pa.table({"value": ["x"], "p": ["y"]}), {"partition": "p"}, "partition of records"),
        ([1, 2], {}, "exports no Arrow data"),
        (pa.array([b"1"]), {}, "a BinaryArray exports no rows of named columns.*give a table"),
        (pa.chunked_array([[b"1"]]), {}, "a ChunkedArray exports no rows.*give a table"),
    ],
)
def test_send_arrow_refuses_invalid_data(broker, topic, data, arguments, said):
    producer = Producer(brokers=broker.bootstrap)
    with producer, pytest.raises(SerializationError, match=said):
        producer.send_arrow(topic, data, **arguments)


def test_send_arrow_refuses_a_column_not_given_by_name(broker, topic):
    producer = Producer(brokers=broker.bootstrap)
    with producer, pytest.raises(TypeError, match=r'names no column: give .*value="json"'):
        producer.send_arrow(topic, pa.table({"id": [1]}), value=["id"])  # type: ignore[arg-type]
