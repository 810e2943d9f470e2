"""The table of error codes: complete for Kafka 4.4, with what clients do on each."""

from __future__ import annotations

import importlib
import struct
import warnings
from typing import Any

import pytest

from odradek.model.errors import ErrorCode, error_code


def test_codes_are_integers_without_gaps() -> None:
    assert [int(code) for code in ErrorCode] == list(range(-1, 137))
    assert int(ErrorCode.NONE) == 0
    assert struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION) == b"\x00\x23"


def test_a_number_that_is_no_code_is_an_unknown_server_error() -> None:
    assert error_code(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_code(9999) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_only_retriable_codes_refresh_metadata() -> None:
    for row in ErrorCode:
        assert row.retriable or not row.refresh_metadata, row.name
        assert row.text, row.name


@pytest.mark.parametrize(
    ("name", "retriable", "refresh_metadata"),
    [
        ("NOT_LEADER_OR_FOLLOWER", True, True),
        ("UNKNOWN_TOPIC_ID", True, True),
        ("REQUEST_TIMED_OUT", True, False),
        ("OFFSET_OUT_OF_RANGE", False, False),
        ("CORRUPT_MESSAGE", True, False),
    ],
)
def test_a_code_says_whether_to_retry_and_refresh_metadata(
    name: str, retriable: bool, refresh_metadata: bool
) -> None:
    row = ErrorCode[name]
    assert (row.name, row.retriable, row.refresh_metadata) == (name, retriable, refresh_metadata)


def test_retriable_codes_are_those_of_kafka_python() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        theirs: Any = importlib.import_module("kafka.errors")
    shared = [code for code in ErrorCode if code in theirs.kafka_errors]
    assert len(shared) > 100
    different = {
        code.name for code in shared if theirs.kafka_errors[code].retriable != code.retriable
    }
    assert different == {"CORRUPT_MESSAGE"}, "which the Java client does try again"
