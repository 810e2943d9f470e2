"""`odradek dump-log`: the contents of segment files as lines or JSON, and their damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from odradek import Admin, Producer
from odradek.cli.main import main
from odradek.testing.broker import Broker


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of a partition with two batches: one record, then two."""
    directory = tmp_path_factory.mktemp("dumped")
    with Broker(data_dir=directory, settings={"log.index.interval.bytes": 0}) as broker:
        with Admin(brokers=broker.bootstrap) as admin:
            admin.create_topic("t")
        for values in ([b"one"], [b"two", b"\xff"]):
            with Producer(brokers=broker.bootstrap, linger_ms=60_000) as producer:
                producer.send_many("t", values, partition=0)
    (found,) = (path for path in directory.glob("*/*.log") if "__" not in path.parent.name)
    return found


def dump(*arguments: str, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["dump-log", *arguments])
    assert done.exit_code == code, (done.output, done.exception)
    return done


def objects(shown: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in shown.stdout.splitlines()]


def test_a_batch_is_a_line(segment: Path) -> None:
    head, *batches = dump(str(segment)).stdout.splitlines()
    assert head == f"# {segment}"
    assert [line.split(" producerId")[0] for line in batches] == [
        "baseOffset: 0 lastOffset: 0 count: 1 baseSequence: 0 lastSequence: 0",
        "baseOffset: 1 lastOffset: 2 count: 2 baseSequence: 0 lastSequence: 1",
    ]


@pytest.mark.parametrize("json_too", [["--json"], ["-o", "json"]])
def test_with_json_a_batch_is_an_object_and_so_is_a_record(
    segment: Path, json_too: list[str]
) -> None:
    batches = objects(dump(str(segment), *json_too))
    assert [(line["base_offset"], line["last_offset"], line["records"]) for line in batches] == [
        (0, 0, 1),
        (1, 2, 2),
    ]
    assert all(line["file"] == str(segment) and line["is_valid"] for line in batches)
    shown = objects(dump(str(segment), "--records", *json_too))
    assert shown[:2] == batches
    times = [line.pop("timestamp") for line in shown[2:]]
    assert max(times[1:]) == batches[1]["max_timestamp"]
    common: dict[str, Any] = {"file": str(segment), "key": None, "headers": []}
    assert shown[2:] == [
        {**common, "offset": 0, "value": "one"},
        {**common, "offset": 1, "value": "two"},
        {**common, "offset": 2, "value_base64": "/w=="},
    ]


def test_with_json_an_index_entry_is_an_object(segment: Path) -> None:
    offsets, times = segment.with_suffix(".index"), segment.with_suffix(".timeindex")
    second = objects(dump(str(segment), "--json"))[1]["position"]
    last = {"file": str(offsets), "offset": 2, "position": second}
    assert objects(dump(str(offsets), "--json"))[-1] == last
    *_, moment = objects(dump(str(times), "--json"))
    assert list(moment) == ["file", "timestamp", "offset"]
    assert moment["offset"] in (1, 2)


@pytest.mark.parametrize("records", [[], ["--records"]])
@pytest.mark.parametrize("json_too", [[], ["--json"]])
def test_a_torn_log_is_shown_as_far_as_it_goes(
    segment: Path, tmp_path: Path, records: list[str], json_too: list[str]
) -> None:
    torn = tmp_path / segment.name
    torn.write_bytes(segment.read_bytes()[:-1])
    shown = dump(str(torn), str(segment), *records, *json_too, code=6)
    assert shown.stderr.startswith(f"odradek: {torn}: only ")
    assert shown.stderr.count("\n") == 1
    whole = dump(str(segment), *records, *json_too).stdout
    assert shown.stdout.endswith(whole)
    assert len(shown.stdout) > len(whole)


@pytest.mark.parametrize("records", [[], ["--records"]])
def test_a_damaged_batch_fails_the_check(segment: Path, tmp_path: Path, records: list[str]) -> None:
    damaged = tmp_path / segment.name
    data = bytearray(segment.read_bytes())
    data[-4] ^= 0xFF
    damaged.write_bytes(data)
    batches = objects(dump(str(damaged), "--json", *records, code=6))[:2]
    assert [line["is_valid"] for line in batches] == [True, False]


@pytest.mark.parametrize("name", ["other.txt", "other.index"])
def test_other_files_are_refused_before_any_is_shown(
    segment: Path, tmp_path: Path, name: str
) -> None:
    other = tmp_path / name
    other.touch()
    shown = dump(str(segment), str(other), code=2)
    assert "give .log, .index or .timeindex files" in shown.stderr
    assert shown.stdout == ""
