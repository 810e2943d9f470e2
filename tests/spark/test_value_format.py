"""Values decoded by the source equal those of Spark's `from_json`."""

import json

import confluent_kafka
import kafka
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from odradek.spark.json.columns import JsonColumns
from odradek.spark.json.schema import nullable, parse_schema
from odradek.spark.json.times import zone_of
from spark import json_texts

TEXTS = 2000
ZONE = "spark.sql.session.timeZone"

SCHEMAS = (
    "a int, b string, c struct<a: int, d: struct<a: int, b: string>>, k double",
    "a tinyint, b smallint, c bigint, k float, z double, g boolean, n array<int>, "
    "o array<array<string>>",
    "a map<string, int>, b map<string, string>, c map<string, struct<a: int, k: string>>, "
    "k array<struct<a: int, b: array<int>>>, z map<string, array<map<string, int>>>",
    "a decimal(5,2), b decimal(38,10), c binary, k array<decimal(3,1)>, "
    "z struct<a: decimal(10,0), b: double, c: array<binary>>",
)
TIMES = "a timestamp, b date, c timestamp_ntz, k array<timestamp>, z struct<a: timestamp, b: date>"


@pytest.fixture
def session_zone(spark):
    """Sets the time zone of the session for a test."""
    before = spark.conf.get(ZONE)
    yield lambda name: spark.conf.set(ZONE, name)
    spark.conf.set(ZONE, before)


def as_numbers(kind: pa.DataType) -> pa.DataType:
    """Return the type with times as numbers: Spark's range of times exceeds Python's."""
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, as_numbers(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", as_numbers(kind.value_type)))
    return pa.map_(pa.string(), as_numbers(kind.item_type)) if pa.types.is_map(kind) else kind


def exact(structs: pa.Array) -> list[str]:
    """Return values so that all differences show, such as -0.0 and 0.0."""
    return [repr(each) for each in structs.cast(as_numbers(structs.type)).to_pylist()]


def from_json(spark, ddl, values):
    frame = spark.createDataFrame(pa.table({"value": pa.array(values, pa.binary())}))
    found = frame.select(f.from_json(f.col("value").cast("string"), ddl).alias("data")).toArrow()
    return found.column("data").combine_chunks()


def decoder(ddl, zone="UTC"):
    return JsonColumns(parse_schema(ddl), lambda: zone_of(zone))


def compare(spark, ddl, values, zone="UTC"):
    """Compare the results of all texts; some have an error, and some have none."""
    structs, errors = decoder(ddl, zone).decode(pa.array(values, pa.binary()))
    wrong = [
        (value, want, got)
        for value, want, got in zip(
            values, exact(from_json(spark, ddl, values)), exact(structs), strict=True
        )
        if want != got
    ]
    assert sorted(wrong, key=lambda each: len(each[0]))[:3] == []
    assert 0 < errors.null_count < len(values)


@pytest.mark.parametrize("ddl", SCHEMAS)
def test_valid_and_invalid_texts_decode_as_from_json(spark, ddl):
    @settings(
        max_examples=1, derandomize=True, database=None, deadline=None, phases=[Phase.generate]
    )
    @given(seed=st.integers(0, 2**32))
    def check(seed):
        compare(spark, ddl, json_texts.texts(parse_schema(ddl), TEXTS, seed))

    check()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "+05:30"])
def test_times_equal_those_of_from_json_in_the_session_zone(spark, session_zone, zone):
    session_zone(zone)
    late = [b'{"a":"%d-%02d-15 12:00:00"}' % date for date in ((2037, 7), (2038, 1), (2040, 7))]
    compare(spark, TIMES, [*late, *json_texts.texts(parse_schema(TIMES), TEXTS, 7)], zone)


def test_values_at_the_edges_of_their_types(spark):
    ddl = "x float, b binary, m decimal(5,2), n int"
    floats = [
        *(b"3.4028235e38", b"-3.4028235e38", b"3.40282347e+38", b"3.5e38", b"16777217", b"7e-46"),
        b"3.40282356779733661637539395458142568447e38",
        b"3.40282356779733661637539395458142568448e38",
        b"1.0000000596046447753906250000000000001",
    ]
    others = [
        *(
            b'{"b":"AAAA="}',
            b'{"b":"AA=="}',
            b'{"b":"A","b":"AAAA","n":1}',
            b'{"m":"1e%s"}' % (b"0" * 4301),
        ),
        *(b" " * 60_000, b"{" + b" " * 60_000 + b"}", b'{"n":1,"' + b'\\"' * 50_001 + b'":1}'),
    ]
    compare(spark, ddl, [*(b'{"x":%s}' % text for text in floats), *others])


def test_texts_that_only_one_parser_accepts(spark):
    ddl = "a int, d double, e decimal(28,0), _corrupt_record string"
    deep = [b'{"z":' + b"[" * depth + b"]" * depth + b',"a":1}' for depth in (998, 999, 1000)]
    long = [b'{"z":' + b"1" * digits + b',"a":1}' for digits in (999, 1000, 1001)]
    long += [b'{"z":0.' + b"1" * digits + b',"a":1}' for digits in (999, 1000, 1001)]
    names = [b'{"' + b"n" * size + b'":2,"a":1}' for size in (50_000, 50_001)]
    others = [
        *(b'{"a":1},"v":{"a":2}', b'{"a":1}}\n{"v":{"a":2}', b'{"a":1},"w":2', b'{"a":1}}'),
        *(b'{"z":Inf,"a":1}', b'{"z":-Inf,"a":1}', b'{"z":-NaN,"a":1}', b'{"z":NaN,"a":1}'),
        *(b'{"a":1}\0', b'{"a":1}}\0', b'{"z":"Inf","a":1}', b"null", b" null\n", b"", b" "),
        *(b'{"d":-0}', b'{"d":-0.0}', b'{"d":1e400}', b'{"a":1,"a":2}', b'{"a":1,"a":"x"}'),
        *(b'{"e":99999999999999999999999999990}', b'{"a":1.0}', b'{"a":1e2}', b'{"a":-0}'),
    ]
    compare(spark, ddl, [*deep, *long, *names, *others])


SAME_DDL = (
    *("a int", "struct<a:int>", "a: int, b string", "1a int", "`a``b c` int", "a int,b long"),
    *(
        "a decimal, b decimal(3), c numeric(5,2), d dec(4, 0)",
        "select int, from string, struct int",
    ),
    *("a array<struct<x: int>>, b map<string, array<int>>", "a int /* x */, -- y\n b\tint"),
    "a int not null comment 'x\\ny' , b struct<c: string not null comment 'it''s'>",
    *("a int comment \"q\" 'r'", "a int comment r'\\n'", "a int comment '\\%\\x\\101\\u0041\\0'"),
    "A BOOLEAN, b BYTE, c tinyint, d Short, e smallint, f integer, g bigint, h long, i real",
    "a timestamp_ltz, b timestamp_ntz, c timestamp without time zone, d date, e binary, f float",
    "a timestamp with local time zone, b double",
)
NO_DDL = (
    *("a", "a int,", ",a int", "a int b int", "a-b int", "é int", "2020 int", "1e5 int", "1L int"),
    *(
        "a int not",
        "a int not null not null",
        "a int comment",
        "a int comment x",
        "a foo",
        "a.b int",
    ),
    *(
        "a decimal(39,1)",
        "a decimal(3,5)",
        "a decimal(",
        "a array",
        "a array<>",
        "a map<int>",
        "a <",
    ),
    *(
        "a struct<b int",
        "a struct<b int>>",
        "a int default 5",
        "`a int",
        "a int comment 'x",
        "a int)",
    ),
)


def test_schemas_are_parsed_as_by_spark(spark):
    for ddl in SAME_DDL:
        assert parse_schema(ddl) == StructType.fromDDL(ddl), ddl
        assert parse_schema(StructType.fromDDL(ddl).json()) == StructType.fromDDL(ddl)
    for ddl in NO_DDL:
        with pytest.raises(ValueError):
            parse_schema(ddl)
        with pytest.raises(Exception):  # noqa: B017  Spark has several.
            StructType.fromDDL(ddl)


def test_columns_of_a_topic(spark, read, topics, session_zone):
    session_zone("America/New_York")
    topic = topics.create()
    topic.produce('{"a": 1, "t": "2020-01-01 00:00:00"}', None, '{"a": "x", "b": [1]}', "{", b"")
    ddl = "a int not null comment 'one', b array<bigint>, t timestamp"
    options = {"valueFormat": "JSON", "VALUESCHEMA": ddl, "includeHeaders": "true"}
    frame = read(topic, **options).orderBy("offset")
    plain = read(topic).schema.names
    assert frame.schema.names == [*plain, "data", "error", "headers"]
    assert frame.schema["data"].dataType == nullable(StructType.fromDDL(ddl))
    rows = frame.select("value", "data.a", "data.b", f.unix_seconds("data.t"), "data", "error")
    found = [tuple(row) for row in rows.collect()]
    assert [row[:4] for row in found] == [
        (bytearray(b'{"a": 1, "t": "2020-01-01 00:00:00"}'), 1, None, 1577854800),
        (None, None, None, None),
        (bytearray(b'{"a": "x", "b": [1]}'), None, [1], None),
        (bytearray(b"{"), None, None, None),
        (bytearray(b""), None, None, None),
    ]
    assert [row[4] is None for row in found] == [False, True, False, False, True]
    assert [row[5] for row in found] == [
        None,
        None,
        "a: there is a string ('x') where int should be",
        "the text ends too early (character 1)",
        "the value is empty",
    ]


def test_bad_records_say_why_and_leave_the_others_as_they_are(spark, read, topics):
    topic = topics.create(max_message_bytes=20_000_000)
    large = b'{"a": 7, "s": "' + b"x" * 10_000_000
    bad = {
        b"no JSON": "'no' is no value (character 2)",
        b'{"a": "one", "s": "x"}': "a: there is a string ('one') where int should be",
        b'{"s": "x"}': None,
        large + b'"}': None,
        large: "the text ends too early (character 10000015)",
        '{"a": 3, "s": "é"}'.encode("latin-1"): "byte 15 is 0xe9, not UTF-8: read as U+FFFD",
        None: None,
        b"": "the value is empty",
    }
    good = b'{"a": 1, "s": "good"}'
    client = confluent_kafka.Producer(
        {"bootstrap.servers": topic.bootstrap, "message.max.bytes": 20_000_000, "logger": None}
    )
    for value in bad:
        client.produce(topic.name, value, key=None, partition=0)
        client.produce(topic.name, good, key=b"key", partition=0)
        client.flush()
    public = kafka.KafkaProducer(bootstrap_servers=topic.bootstrap)
    assert public.send(topic.name, good, key=b"no timestamp", timestamp_ms=-1).get().offset == 16
    public.close()

    ddl = "a int, s string"
    frame = read(topic, valueFormat="json", valueSchema=ddl)
    expected = f.from_json(f.col("value").cast("string"), ddl)
    rows = (
        frame.select("key", "offset", "error", "data", expected.alias("expected"))
        .orderBy("offset")
        .collect()
    )
    assert [row.data == row.expected for row in rows] == [True] * 17
    assert [row.error for row in rows[:16:2]] == list(bad.values())
    assert {(tuple(row.data), row.error) for row in rows[1::2]} == {((1, "good"), None)}
    assert [bytes(row.key) for row in rows if row.key] == [*[b"key"] * 8, b"no timestamp"]
    assert tuple(rows[16].data) == (1, "good")


def test_a_stream_decodes_values(spark, stream, topics, tmp_path):
    topic = topics.create()
    topic.produce(*(json.dumps({"n": number}) for number in range(10)), '{"n": 1e9}')
    frame = stream(topic, valueFormat="json", valueSchema="n int").select("data.n", "error")
    writer = frame.writeStream.format("memory").queryName("decoded").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path)).start().awaitTermination()
    rows = spark.table("decoded").collect()
    assert sorted(row.n for row in rows if row.error is None) == list(range(10))
    assert [row.n for row in rows if row.error is not None] == [None]


def test_a_type_that_cannot_be_decoded_is_refused(read, topics):
    with pytest.raises(
        Exception, match="valueSchema 'a variant' cannot be used: there is 'variant'"
    ):
        read(topics.missing(), valueFormat="json", valueSchema="a variant")
