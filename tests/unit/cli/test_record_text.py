"""Records as text and back: the verbs of kcat and rpk, and lossless JSON."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli import record_json
from odradek.cli.record_format import BadTemplate, CliRecord, Template
from odradek.cli.record_input import read_records

RECORD = CliRecord(
    "flights", 2, 1031, 1_769_860_800_000, b"UA", b"\x00\xff late", [("a", b"1"), ("b", None)], 7
)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("%t[%p]@%o", b"flights[2]@1031"),
        (r"%k\t%s\n", b"UA\t\x00\xff late\n"),
        (r"%k\x00%v", b"UA\x00\x00\xff late"),
        ("%K %S %V", b"2 7 7"),
        ("%T %T{rfc3339}", b"1769860800000 2026-01-31T12:00:00.000Z"),
        ("%v{hex} %k{base64}", b"00ff206c617465 VUE="),
        ("%h (%H)", b"a=1,b= (2)"),
        ("100%% of epoch %e", b"100% of epoch 7"),
        ("%%{hex}%%%p%%", b"%{hex}%2%"),
        ("ünï", "ünï".encode()),
    ],
)
def test_a_verb_is_replaced_by_its_part_of_the_record(template: str, text: bytes) -> None:
    assert Template(template).render(RECORD) == text


def test_null_is_an_empty_text_or_the_given_text() -> None:
    assert Template("%k|%v|%K").render(CliRecord()) == b"||-1"
    assert Template("%k|%v|%K", null=b"NULL").render(CliRecord()) == b"NULL|NULL|-1"


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (-1, b""),
        (0, b"1970-01-01T00:00:00.000Z"),
        (253_402_300_799_999, b"9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, b"253402300800000"),
        (1_769_860_800_000_000, b"1769860800000000"),
        (2**63 - 1, b"9223372036854775807"),
    ],
)
def test_a_time_after_the_year_9999_is_printed_as_a_number(timestamp_ms: int, text: bytes) -> None:
    """Such as microseconds in place of milliseconds; the records after it are still printed."""
    assert Template("%T{rfc3339}").render(CliRecord(timestamp_ms=timestamp_ms)) == text


@pytest.mark.parametrize(
    "template", ["%", "100% sure", "%q", "%k{shout}", "%p{hex}", r"\q", r"\x4"]
)
def test_an_invalid_template_is_refused(template: str) -> None:
    with pytest.raises(BadTemplate):
        Template(template)


def read(template: str, text: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [(one.key, one.value) for one in read_records(template, io.BytesIO(text))]


def test_text_is_read_by_the_template_that_wrote_it() -> None:
    assert read(r"%k %v\n", b"a 1 2\nb \nc 3") == [(b"a", b"1 2"), (b"b", b""), (b"c", b"3")]
    assert read(r"%v\n", b"") == []
    assert read("%v", b"a\nb\n") == [(None, b"a\nb\n")]
    assert read(r"<%k;%v>", b"<a;1><b;2>") == [(b"a", b"1"), (b"b", b"2")]
    assert read(r"%%%k%%%%%v%%\n", b"%a%%1%\n%b%%2%\n") == [(b"a", b"1"), (b"b", b"2")]


def test_partition_time_and_headers_are_read() -> None:
    (one,) = read_records(r"%p %T %h %v\n", io.BytesIO(b"3 1700 a=1,b=2 x\n"))
    assert one == CliRecord("", 3, -1, 1700, None, b"x", [("a", b"1"), ("b", b"2")])


@pytest.mark.parametrize("template", ["no verb", "%%", "%k%v", "%o %v", "%K", "%v{hex}", "%v %"])
def test_a_template_that_cannot_be_read_is_refused(template: str) -> None:
    with pytest.raises(BadTemplate):
        list(read_records(template, io.BytesIO(b"x")))


def test_text_that_does_not_match_the_template_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a number"):
        list(read_records(r"%p %v\n", io.BytesIO(b"three x\n")))
    with pytest.raises(ValueError, match="%p is 2147483648"):
        list(read_records(r"%p %v\n", io.BytesIO(b"2147483647 x\n2147483648 x\n")))
    with pytest.raises(ValueError, match="%T is -2"):
        list(read_records(r"%T %v\n", io.BytesIO(b"-1 x\n-2 x\n")))
    with pytest.raises(ValueError, match="ends within a record"):
        list(read_records(r"%k %v\n", io.BytesIO(b"k1 v1\nk2")))


blobs = st.none() | st.binary(max_size=20)
shown = st.builds(
    CliRecord,
    topic=st.text("abc.-", max_size=5),
    partition=st.integers(-1, 9),
    offset=st.integers(0, 2**40),
    timestamp_ms=st.integers(-1, 2**41),
    key=blobs,
    value=blobs,
    headers=st.lists(st.tuples(st.text(max_size=4), blobs), max_size=3),
)


@given(shown)
def test_json_round_trips_every_byte(record: CliRecord) -> None:
    line = record_json.encode(record)
    assert b"\n" not in line
    again = record_json.decode(line)
    again.offset = record.offset
    assert again == record


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "not JSON"),
        (b"[1]", "not a record"),
        (b'{"id":1,"amount":5}', "no field 'amount'.*leave out --json"),
        (b'{"key":"a","vlaue":3}', "no field 'vlaue'"),
        (b'{"key":"a"}', "no value .null is one."),
        (b'{"value":1,"partition":"x"}', "partition"),
        (b'{"value_base64":"?"}', "base64"),
        (b'{"value":1,"headers":[1]}', "headers"),
        (b'{"value":1,"headers":[{"key":"h","vlaue":2}]}', "headers have no field 'vlaue'"),
        (b'{"value":1,"headers":[{"key":"h"}]}', "header 'h' has no value .null is one."),
        (b'{"value":1,"value_base64":"AA=="}', "both value and value_base64"),
        (b'{"key":null,"key_base64":"AA==","value":1}', "both key and key_base64"),
        (
            b'{"value":1,"headers":[{"key":"h","value":1,"value_base64":"AA=="}]}',
            "both value and value_base64",
        ),
        (b'{"value":1,"partition":2147483648}', "partition is 2147483648"),
        (b'{"value":1,"partition":-2}', "partition is -2"),
        (b'{"value":1,"timestamp":9223372036854775808}', "timestamp is 9223372036854775808"),
        (b'{"value":1,"timestamp":-1000}', "timestamp is -1000"),
    ],
)
def test_bad_json_is_refused_with_the_reason(line: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        record_json.decode(line)


def test_a_value_of_other_json_is_sent_as_its_text() -> None:
    assert record_json.decode(b'{"value":{"a":1}}').value == b'{"a":1}'
