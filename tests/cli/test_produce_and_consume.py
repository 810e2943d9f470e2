"""`odradek produce` and `odradek consume` in a pipe: records pass through byte for byte."""

from __future__ import annotations

import json

import pytest

from cli.piping import Run, read
from odradek.cli.record_format import BYTES, NUMBERS


def test_a_value_on_the_command_line_is_one_record(run: Run) -> None:
    run("produce", "t", "hello there", "-k", "me", "-H", "a=1", "-H", "b:2")
    run("produce", "-t", "t", "as kcat has it")
    assert read(run, "t") == b"hello there\nas kcat has it\n"
    assert read(run, "t", "-n", "1", "-f", r"%k|%h|%p:%o|%V\n") == b"me|a=1,b=2|0:0|11\n"


def test_a_line_is_a_record_and_an_empty_one_too(run: Run) -> None:
    run("produce", "t", stdin=b"one\n\nthree")
    assert read(run, "t", "-f", "<%v>") == b"<one><><three>"
    run("produce", "t", "-Z", stdin=b"\n")
    assert read(run, "t", "-o", "-1", "-f", "%V%v", "--null", "none") == b"-1none"
    assert read(run, "-o", "-1", "-Z", "t") == b"NULL\n", "the topic is not the text for null"


@pytest.mark.parametrize(
    ("arguments", "good", "bad", "said"),
    [
        (["--json"], b'{"value": "a"}\n', b"{'value': 'b'}\n", "line 3: not JSON"),
        (["-f", r"%p %v\n"], b"0 a\n", b"zero b\n", "is not a number"),
    ],
)
def test_invalid_input_is_reported_with_the_number_of_written_records(
    run: Run, arguments: list[str], good: bytes, bad: bytes, said: str
) -> None:
    """So that the rest can be sent once the input is corrected."""
    error = run("produce", "t", *arguments, stdin=good * 2 + bad + good, code=1).stderr
    assert said in error and "2 records were written before it" in error
    assert read(run, "t") == b"a\na\n"
    error = run("produce", "t", *arguments, stdin=bad, code=1).stderr
    assert "nothing was written" in error


def test_a_transactional_id_writes_the_whole_input_or_nothing(run: Run) -> None:
    run("topic", "create", "whole", "-c", "max.message.bytes=200")
    arguments = ("produce", "whole", "-X", "transactional.id=whole", "-X", "batch.size=1")
    run(*arguments, stdin=b"a\nb\n")
    large = b"x" * 300
    error = run(*arguments, stdin=b"c\n" + large + b"\n", code=1).stderr
    assert "the transaction was aborted, and nothing was written" in error
    assert read(run, "whole") == b"a\nb\n"


def test_a_key_delimiter_splits_lines_that_have_it(run: Run) -> None:
    run("produce", "t", "-K", ":", stdin=b"a:1\nno key\nb:2:3\n")
    assert read(run, "t", "-f", r"%K %k=%v\n") == b"1 a=1\n-1 =no key\n1 b=2:3\n"


@pytest.mark.parametrize("delimiter", ["%", "%%", "%k", "%p{", "%{x}", "{hex}", r"\x25\n"])
def test_delimiters_are_literal_text(run: Run, delimiter: str) -> None:
    lines = f"v1{delimiter}v2{delimiter}".replace(r"\x25\n", "%\n").encode()
    run("produce", "t", "-D", delimiter, stdin=lines)
    assert read(run, "t", "-f", r"%v\n") == b"v1\nv2\n"
    assert read(run, "t", "-D", delimiter) == lines


def test_a_template_reads_what_it_wrote(run: Run) -> None:
    run("produce", "t", "-f", r"%k\t%v\n", stdin=b"a\tx y\nb\tz\n")
    assert read(run, "t", "-f", r"%k\t%v\n") == b"a\tx y\nb\tz\n"


def test_a_template_with_a_partition_selects_the_partition(run: Run) -> None:
    """`-p` takes precedence over the partition of the record; -1 selects none."""
    run("produce", "wide", "-f", r"%p %v\n", stdin=b"2 two\n1 one\n")
    run("produce", "wide", "-f", r"%p %v\n", "-p", "0", stdin=b"1 none\n")
    assert read(run, "wide", "-p", "0", "-f", r"%p %v\n") == b"0 none\n"
    assert read(run, "wide", "-p", "1", "-f", r"%p %v\n") == b"1 one\n"
    assert read(run, "wide", "-p", "2", "-f", r"%p %v\n") == b"2 two\n"
    run("produce", "wide", "-f", r"%p %v\n", "-p", "-1", stdin=b"99 anywhere\n")
    assert b"anywhere\n" in read(run, "wide")


def test_bytes_that_are_not_utf_8_pass_through_unchanged(run: Run) -> None:
    """Python has such bytes of arguments as surrogates."""
    ff, fe = "\udcff", "\udcfe"
    run("produce", "t", f"v{ff}", "-k", f"k{ff}", "-H", f"h={fe}")
    assert read(run, "t", "-f", f"{fe}%k|%v|%h") == b"\xfek\xff|v\xff|h=\xfe"
    run("produce", "t", "-K", ff, "-D", fe, stdin=b"k1\xffv1\xfek2\xffv2\xfe")
    run("produce", "t", "-K", r"\xff", stdin=b"k3\xffv3\n")
    assert read(run, "t", "-o", "1", "-f", r"%k=%v\n") == b"k1=v1\nk2=v2\nk3=v3\n"
    run("produce", "t", "v4")
    assert read(run, "t", "-o", "-1", "-f", "%k", "--null", ff) == b"\xff"


@pytest.mark.parametrize(
    "arguments",
    [
        ("produce", "\udcff", "v"),
        ("produce", "t", "v", "-H", "\udcff=v"),
        ("produce", "t", "v", "-X", "client.id=\udcff"),
        ("consume", "\udcff"),
        ("consume", "t", "-g", "\udcff"),
        ("topic", "create", "\udcff"),
        ("group", "rm", "\udcff", "-y"),
    ],
)
def test_a_name_that_is_not_utf_8_is_refused(run: Run, arguments: tuple[str, ...]) -> None:
    message = " ".join(run(*arguments, code=2).stderr.replace("client.id=", "").split())
    assert "b'\\xff' is not UTF-8: names of topics, groups, headers and settings must be" in message


def test_named_formats_are_accepted(run: Run) -> None:
    run("produce", "t", "v", "-k", "k")
    for name in ("json", "jsonl"):
        assert json.loads(read(run, "t", "-f", name))["key"] == "k"
    assert read(run, "t", "-f", "raw") == b"v\n"
    assert read(run, "t", "-f", "table").endswith(b"  k  v\n")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_json_copies_a_topic_without_loss(run: Run, codec: str) -> None:
    lines = [
        {"key": None, "value": "text", "headers": [], "timestamp": 1000},
        {"key_base64": "/w==", "value": None, "headers": [{"key": "h", "value": None}]},
        {"key": "", "value_base64": "AP8=", "headers": [{"key": "h", "value_base64": "gA=="}]},
    ]
    given = b"".join(json.dumps({"timestamp": 5, **line}).encode() + b"\n" for line in lines)  # type: ignore[dict-item]
    run("produce", "t", "--json", "-z", codec, stdin=given)
    first = read(run, "t", "--json")
    run("produce", "wide", "--json", "--keep-partitions", stdin=first)
    again = read(run, "wide", "--json")
    assert again == first.replace(b'"topic":"t"', b'"topic":"wide"')
    assert [json.loads(line)["timestamp"] for line in first.split()] == [1000, 5, 5]


def test_ranges_of_offsets_and_of_time(run: Run) -> None:
    given = b"".join(b'{"value":"%d","timestamp":%d}\n' % (n, 1000 * n) for n in range(6))
    run("produce", "t", "--json", stdin=given)
    assert read(run, "t", "-o", "2:4") == b"2\n3\n"
    assert read(run, "t", "-o", "-2") == b"4\n5\n"
    assert read(run, "t", "-o", "+5") == b"5\n"
    assert read(run, "t", "--tail", "1") == b"5\n"
    assert read(run, "t", "-o", "@2:@4") == b"2\n3\n"
    assert read(run, "t", "--since", "2", "--until", "3") == b"2\n"
    assert read(run, "t", "-o", "end") == b""
    assert read(run, "t", "-n", "2") == b"0\n1\n"


def test_some_partitions_of_several_topics(run: Run) -> None:
    run("produce", "t", "from t")
    for partition in "012":
        run("produce", "wide", f"from {partition}", "-p", partition)
    assert read(run, "wide", "-p", "0,2", "-f", r"%p %v\n") in (
        b"0 from 0\n2 from 2\n",
        b"2 from 2\n0 from 0\n",
    )
    both = sorted(read(run, "t", "wide").splitlines())
    assert both == [b"from 0", b"from 1", b"from 2", b"from t"]


def test_a_group_goes_on_where_it_was(run: Run) -> None:
    run("produce", "t", stdin=b"1\n2\n3\n4\n")
    assert run("consume", "t", "-g", "readers", "-n", "3").stdout == "1\n2\n3\n"
    assert run("consume", "t", "-g", "readers", "-n", "1").stdout == "4\n"
    lag = run("group", "lag", "readers").stdout
    assert lag == "readers\tt\t0\t4\t4\t0\n"


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_the_help_of_formats_explains_every_verb(run: Run, verb: str) -> None:
    explained = run(verb, "-f", "help").stdout
    known = [*NUMBERS, *BYTES, "t", "h", "T{rfc3339}"]
    assert [each for each in known if f"%{each}" not in explained] == []


def test_a_pattern_reads_the_matching_topics_and_an_invalid_one_is_refused(run: Run) -> None:
    run("produce", "t", "from t")
    run("produce", "wide", "from wide")
    assert read(run, "-r", "w.*", "nothing") == b"from wide\n"
    assert read(run, "-r", ".", "wide") in (b"from t\nfrom wide\n", b"from wide\nfrom t\n")
    assert run("consume", "-r", "w.*", "-g", "by-pattern", "-n", "1").stdout == "from wide\n"
    assert "no topic matches" in run("consume", "-r", "x.*", "-e", code=4).stderr
    assert "not a pattern" in run("consume", "-r", "(", "-e", code=2).stderr


def test_options_of_kcat_are_accepted(run: Run) -> None:
    run("produce", "t", "-K", ":", stdin=b"a:1\nb:2\n")
    assert read(run, "-t", "t", "-K", ":") == b"a:1\nb:2\n"
    assert read(run, "-t", "t", "-D", ";", "-c", "1") == b"1;"
    assert read(run, "-t", "t", "-K", "%", "-D", "%") == b"a%1%b%2%"
    assert json.loads(read(run, "-t", "t", "-J", "-o", "-1"))["value"] == "2"
    given = b"".join(b'{"value":"%d","timestamp":%d}\n' % (n, 1000 * n) for n in range(6))
    run("produce", "wide", "--json", "-p", "0", stdin=given)
    assert read(run, "-t", "wide", "-o", "s@2", "-o", "e@4") == b"2\n3\n"
    assert read(run, "-t", "wide", "-o", "e@2") == b"0\n1\n"


def test_the_text_encoding_escapes_control_characters(run: Run) -> None:
    run("produce", "t", "--json", stdin=b'{"value":"\\u001b[2Jred\\n\\u00e9"}\n')
    run("produce", "t", "\udcff")
    assert read(run, "t", "-f", r"%v{text}\n").decode() == "\\x1b[2Jred\\n\u00e9\n\\xff\n"


def test_with_meta_only_sizes_take_the_place_of_key_and_value(run: Run) -> None:
    run("produce", "t", "12345", "-k", "k")
    line = read(run, "t", "--meta-only").split(b"\t")
    assert [line[0], line[1], line[2], line[4], line[5]] == [b"t", b"0", b"0", b"1", b"5\n"]
    run("produce", "t", "--json", stdin=b'{"value":null,"headers":[{"key":"h","value":"x"}]}\n')
    with_key, null = map(json.loads, read(run, "t", "--meta-only", "--json").splitlines())
    assert list(with_key)[:4] == list(json.loads(read(run, "t", "--json", "-n", "1")))[:4]
    assert list(with_key)[4:] == ["key_size", "value_size", "headers"]
    assert (with_key["key_size"], with_key["value_size"], with_key["headers"]) == (1, 5, [])
    assert (null["key_size"], null["value_size"]) == (None, None)
    assert null["headers"] == [{"key": "h", "value": "x"}]
    assert read(run, "t", "--meta-only", "-f", "jsonl") == read(run, "t", "--meta-only", "-J")


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "said"),
    [
        (["consume", "nope", "-e"], b"", 4, "nope"),
        (["consume", "nope", "-g", "g"], b"", 4, "nope"),
        (["consume", "t", "-p", "99"], b"", 4, "partition 99"),
        (["consume"], b"", 2, "which topic"),
        (["consume", "t", "-o", "middle"], b"", 2, "position"),
        (["consume", "t", "-o", "1", "--tail", "2"], b"", 2, "once"),
        (["consume", "t", "-o", "1", "-o", "2"], b"", 2, "once"),
        (["consume", "t", "-f", "%v", "-K", ":"], b"", 2, "leave out -K"),
        (["consume", "t", "-f", "%q"], b"", 2, "%q"),
        (["consume", "t", "-g", "g", "-e"], b"", 2, "group"),
        (["produce"], b"", 2, "which topic"),
        (["produce", "t", "a", "b"], b"", 2, "quotes"),
        (["produce", "t", "-H", "x", "v"], b"", 2, "NAME=VALUE"),
        (["produce", "t", "-K", ""], b"a:1", 2, "ends the key"),
        (["produce", "t", "--json"], b"{", 1, "line 1"),
        (["produce", "t", "-f", r"%p %v\n"], b"x y\n", 1, "not a number"),
        (["produce", "bad name", "v"], b"", 5, "bad name"),
        (["produce", "t", "v", "-p", "2147483648"], b"", 2, "2147483648"),
        (["produce", "t", "--json"], b'{"value":1,"partition":2147483648}', 1, "line 1: partition"),
        (["produce", "t", "v", "-p", "7", "-X", "max.block.ms=3000"], b"", 4, "partition 7"),
    ],
)
def test_an_error_has_a_message_and_an_exit_code(
    run: Run, arguments: list[str], stdin: bytes, code: int, said: str
) -> None:
    assert said in run(*arguments, stdin=stdin, code=code).stderr


def test_of_many_failures_the_first_are_printed_and_all_are_counted(run: Run) -> None:
    limits = ["-X", "max.request.size=200", "-X", "batch.size=100"]
    lines = b"small\n" + b"".join(b"%d " % n + b"x" * 300 + b"\n" for n in range(1000))
    said = run("produce", "t", *limits, stdin=lines, code=1).stderr.splitlines()
    assert said[-1] == "1,000 records not written, 1 written"
    assert len(said) == 4


def test_a_record_that_is_too_large_is_reported_and_the_others_are_written(run: Run) -> None:
    large = b"x" * 2_000_000
    done = run("produce", "t", stdin=b"before\n" + large + b"\nafter\n", code=1)
    assert "max.request.size" in done.stderr
    assert read(run, "t") == b"before\nafter\n"
