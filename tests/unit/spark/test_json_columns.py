"""Batches of JSON values: those that msgspec reads, those decoded one by one, and the reasons of
nulls. `tests/spark/test_value_format.py` compares the results with Spark's `from_json`.
"""

import random
import zoneinfo
from datetime import UTC
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.types import DecimalType, StructField, StructType

from odradek.demo.pipeline import FLIGHT
from odradek.spark.json import times
from odradek.spark.json.columns import JsonColumns
from odradek.spark.json.records import RecordParser
from odradek.spark.json.schema import SchemaError, parse_schema

FLIGHT_VALUE = (
    b'{"year":2013,"month":1,"day":1,"dep_time":517,"sched_dep_time":515,"dep_delay":2,'
    b'"arr_time":null,"carrier":"UA","flight":1545,"tailnum":null,"time_hour":"2013-01-01T10:00:00Z"}'
)
TYPED = "n int, d double, t timestamp, u timestamp_ntz, e date, b binary, m decimal(5,2)"
TYPED_VALUE = (
    b'{"n":1,"d":1.5,"t":"2020-01-02T03:04:05.5+01:00","u":"2020-01-02 03:04:05","b":"aGk=",'
    b'"e":"2020-02-29","m":1.25}'
)


def columns(ddl):
    return JsonColumns(parse_schema(ddl), lambda: UTC)


def decoded(ddl, *values):
    structs, errors = columns(ddl).decode(pa.array(values, pa.binary()))
    return structs.to_pylist(), errors.to_pylist()


@pytest.fixture
def one_by_one(monkeypatch):
    """Return the records that are decoded one by one."""
    seen = []
    parse = RecordParser.parse

    def note(self, data):
        seen.append(data)
        return parse(self, data)

    monkeypatch.setattr(RecordParser, "parse", note)
    return seen


@pytest.mark.parametrize(("ddl", "value"), [(FLIGHT, FLIGHT_VALUE), (TYPED, TYPED_VALUE)])
def test_records_of_the_schema_are_read_together(one_by_one, ddl, value):
    structs, errors = decoded(ddl, value, None, value)
    assert one_by_one == []
    assert errors == [None] * 3
    assert structs[1] is None
    assert structs[0] == structs[2]
    assert None not in [structs[0][name] for name in parse_schema(ddl).names if name in "ndtuebm"]


def test_words_in_place_of_numbers_are_decoded_one_by_one(one_by_one):
    """Jackson reads NaN, Infinity and -Infinity, and no other words."""
    words = [b"NaN", b"Infinity", b"-Infinity", b"Inf", b"-Inf", b"-NaN"]
    values = [b'{"n":1,"d":' + word + b"}" for word in words]
    structs, errors = decoded("n int, d double", b'{"n":2,"d":-1}', *values)
    assert one_by_one == values
    assert [error is None for error in errors] == [True] * 4 + [False] * 3
    assert structs[0] == {"n": 2, "d": -1.0}


LONG = b'{"z":' + b"1" * 1001 + b',"n":1}'
"""A number with more digits than Jackson takes."""


@pytest.mark.parametrize(
    "bad", [b"{", b'{"n":"x"}', b'{"n":99999999999}', b'{"n":1.0}', b"{'n':1}", b'{"d":-0.0}', LONG]
)
def test_only_records_that_do_not_match_the_schema_are_decoded_one_by_one(one_by_one, bad):
    values = [b'{"n":%d,"d":0.5}' % number for number in range(2500)]
    for row in (0, 17, 1500, 2499):
        values[row] = bad
    structs, _ = decoded("n int, d double", *values)
    assert one_by_one == [bad] * 4
    for row, value in enumerate(values):
        if value != bad:
            assert structs[row] == {"n": row, "d": 0.5}


def test_a_value_with_line_breaks_or_two_records_shifts_no_other_record():
    values = [b'{"n":%d}' % number for number in range(50)]
    for row, value in {3: b'{"n":3}}\n{"v":{"n":4}', 9: b'{"n":9}}\0', 20: b'{"n":20}\n'}.items():
        values[row] = value
    structs, errors = decoded("n int", *values)
    assert [each["n"] for each in structs] == list(range(50))
    assert errors == [None] * 50


def just_above(number):
    """Return a text that is read as this number, and is a little more."""
    digits, _, exponent = str(Decimal(number)).partition("E")
    return (digits + "." * ("." not in digits) + "0" * 20 + "1e" + (exponent or "0")).encode()


FLOATS = [
    *(b"3.4028235e38", b"-3.4028235e38", b"3.40282347e+38", b"3.5e38", b"1e400", b"1e-400"),
    b"3.40282356779733661637539395458142568447e38",
    b"3.40282356779733661637539395458142568448e38",
    *(b"16777217", b"16777219", b"-16777217", b"0", b"-0", b"-0.0", b"1e-45", b"7e-46"),
    *map(just_above, (1 + 2**-24, 1.5 * 2**-149, 2.5 * 2**-149, 2**-126 - 2**-150)),
]
BINARIES = [
    *(b"AAAA=", b"AA==", b"AAA", b"AAA=", b"A", b"", b"AAAA", b"AA==AAAA", b"A A=", b"\\u0041AAA"),
]
DECIMALS = [
    *(b"1.5", b"1.255", b"1.5e2", b"1000", b"99999", b"-0", b"-0.00", b"1e-400", b"1E4"),
    *(
        b'"1.5"',
        b'"1,5"',
        b'"01"',
        b'"+1"',
        b'" 1"',
        b'""',
        b'"1e%s"' % (b"0" * 4301),
        b'"1e2147483648"',
    ),
]
DEEP = b"[" * 600 + b"]" * 600
LIMITS = [
    *(b" " * 60_000, b"{" + b" " * 60_000 + b"}", b'{"n":1,"' + b'\\"' * 50_001 + b'":1}'),
    *(b'{"n":1,"z":"' + b"[" * 1001 + b'"}', b'{"n":1,"z":[%s,%s]}' % (DEEP, DEEP)),
    *(
        b'{"n":1,"z":"\\"","y":' + b"[" * 1001 + b"]" * 1001 + b"}",
        b'{"n":1,"z":"' + b"7" * 1001 + b'"}',
    ),
    *(b'{"z":' + b"1" * 1001 + b',"n":1}', b'{"z":[' + b"1," * 1000 + b'1],"n":1}'),
]
TWICE = [
    *(
        b'{"b":"A","b":"AAAA","n":1}',
        b'{"b":"AAAA","n":1,"b":"AAAA"}',
        b'{"n":1,"s":{"b":"A","b":"AAAA"}}',
    ),
    *(
        b'{"s":{"b":"A"},"n":1,"s":{"b":"AAAA"}}',
        b'{"b":"A","\\u0062":"AAAA"}',
        b'{"d":"x","d":"2020-01-01"}',
    ),
    *(
        b'{"n":"x","n":1}',
        b'{"n":1,"n":null}',
        b'{"d":"2020-01-01","d":"x"}',
        b'{"e":["x"],"e":["1"]}',
    ),
]


@pytest.mark.parametrize(
    ("ddl", "values"),
    [
        ("x float", [b'{"x":%s}' % text for text in FLOATS]),
        ("x array<struct<y: float>>", [b'{"x":[{"y":%s}]}' % text for text in FLOATS]),
        ("b binary", [b'{"b":"%s"}' % text for text in BINARIES]),
        ("m decimal(5,2)", [b'{"m":%s}' % text for text in DECIMALS]),
        ("m array<decimal(3,3)>", [b'{"m":[%s,0.125]}' % text for text in DECIMALS]),
        ("n int", LIMITS),
        ("b binary, n int, s struct<b: binary>", TWICE),
        ("n int, d date, e array<decimal(3,1)>, _corrupt_record string", TWICE),
    ],
)
def test_doubtful_values_have_the_results_of_records_decoded_one_by_one(ddl, values):
    together, one_by_one = columns(ddl), columns(ddl)
    one_by_one.decoder = None
    found, wanted = (each.decode(pa.array(values, pa.binary())) for each in (together, one_by_one))
    assert [*map(repr, found[0].to_pylist())] == [*map(repr, wanted[0].to_pylist())]
    if "n int, d date" not in ddl:
        assert found[1].to_pylist() == wanted[1].to_pylist()


def test_the_largest_float_is_no_infinity():
    structs, errors = decoded("x float", *(b'{"x":%s}' % text for text in FLOATS[:8]))
    largest = 2.0**128 - 2.0**104
    infinity = float("inf")
    values = [each["x"] for each in structs]
    assert values == [largest, -largest, largest, infinity, infinity, 0, largest, infinity]
    assert errors == [None] * 8


def test_local_times_after_2037_have_the_summer_time_of_their_zone():
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    decoder = JsonColumns(parse_schema("t timestamp"), lambda: zone)
    values = [b'{"t":"%d-07-01 12:00:00"}' % year for year in (2037, 2038, 2040, 2100)]
    structs, _ = decoder.decode(pa.array(values, pa.binary()))
    assert [each["t"].astimezone(UTC).hour for each in structs.to_pylist()] == [10] * 4


def test_an_error_names_the_path_of_the_field():
    nested = "a int, s struct<x: array<struct<y: boolean>>>, m map<string, int>, b binary, e date"
    _, errors = decoded(
        nested,
        b'{"a":300000000000}',
        b'{"s":{"x":[{"y":true},{"y":"no"}]}}',
        b'{"m":{"k":""}}',
        b'{"a":1,"s":tru}',
        b'{"e":"2019-02-29"}',
        b"[]",
        b"",
    )
    assert errors == [
        "a: 300000000000 is out of the range of int",
        "s.x[1].y: there is a string ('no') where boolean should be",
        "m['k']: there is a string, an empty one, where int should be",
        "'tru' is no value (character 14)",
        "e: '2019-02-29' is no such time: day is out of range for month",
        "there is an array where an object should be",
        "the value is empty",
    ]


def test_slices_of_batches_are_decoded_like_whole_ones():
    values = [b'{"n":%d}' % number for number in range(100)]
    random.Random(1).shuffle(values)
    values[50], values[60] = b'{"n":50,"z":"\xff"}', b'{"z":' + b"1" * 1001 + b',"n":60}'
    whole = columns("n int").decode(pa.array([*values, b"{"], pa.binary()))[0]
    part = columns("n int").decode(pa.array([*values, b"{"], pa.binary()).slice(40, 30))[0]
    assert part.equals(whole.slice(40, 30))


@pytest.mark.parametrize(
    ("ddl", "reason"),
    [
        ("", "the schema has no fields"),
        ("a int, a string", "two fields of the same name"),
        ("a map<int, int>", "a is a map with keys that are no strings"),
        ("a struct<b: struct<>>", "a.b has no fields"),
        ("_corrupt_record int", "_corrupt_record has to be a string"),
        ("a interval", "there is 'interval' at character 3, where one of the types"),
        ("a-b int", "`backquotes`"),
        ("a decimal(40)", "more than 38 digits"),
        (StructType([StructField("a", DecimalType(5, -2))]).json(), "has no such digits"),
        ('{"type": "struct"}', "no JSON of a StructType"),
    ],
)
def test_schemas_that_cannot_be_decoded_are_refused(ddl, reason):
    with pytest.raises(SchemaError, match=reason):
        parse_schema(ddl)


def test_bytes_that_are_not_utf_8_are_an_error():
    values = ['{"s": "é"}'.encode(), '{"s": "é"}'.encode("latin-1"), '{"s": 1}'.encode("utf-16")]
    structs, errors = decoded("s string", b'{"s":"a","z":"\xff"}', *values)
    assert structs == [{"s": "a"}, {"s": "é"}, {"s": "\ufffd"}, {"s": None}]
    assert errors == [
        "byte 14 is 0xff, not UTF-8: read as U+FFFD",
        None,
        "byte 7 is 0xe9, not UTF-8: read as U+FFFD",
        "there is '\ufffd' where a value should be (character 1); "
        "byte 0 is 0xff, not UTF-8: read as U+FFFD",
    ]


def test_the_names_of_zones_are_read_once_however_many_are_unknown(monkeypatch):
    reads = []

    def available_timezones():
        reads.append(1)
        return zoneinfo.available_timezones()

    monkeypatch.setattr(times, "available_timezones", available_timezones)
    times.known_zones.cache_clear()
    values = [f'{{"t": "2020-01-02 03:04:05 X{n}/Y"}}'.encode() for n in range(3)]
    structs, _ = decoded("t timestamp", *values, b'{"t": "2020-01-02 03:04:05 Asia/Tokyo"}')
    assert [each["t"] is None for each in structs] == [True, True, True, False]
    assert len(reads) == 1
