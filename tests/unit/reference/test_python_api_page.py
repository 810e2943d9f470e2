"""The page of the Python API is what the classes say, and both faces have the same names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import odradek.errors
from odradek.client import api_reference
from odradek.client.api_reference import CLIENTS, differs, page, public

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "python-api.md"
ONLY_BLOCKING = {"produce", "produce_batch", "poll"}
"""confluent-kafka's habits, of a producer."""
ONLY_AWAITED = {"start", "enqueue", "send_nowait"}
NOT_OURS = {"Self", "None", "K", "V", "Iterator", "AsyncIterator", "RecordBatch"} | {
    "Offsets",  # Of partitions; in the table of arguments.
    "ArrowTable",  # pyarrow's.
    "ArrowBatch",
    "KafkaError",
}


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), f"run: {api_reference.COMMAND}"


def test_the_page_is_enough_alone() -> None:
    shown = page()
    assert "`client." not in shown, "a module that only its source's reader finds"
    assert [name for name in odradek.errors.__all__ if f"| `{name}` |" not in shown] == [
        "error_for"
    ]
    given = re.findall(r"-> (.*?)` \|", shown)
    own = {name for each in given for name in re.findall(r"\b[A-Z]\w+", each)} - NOT_OURS
    assert [name for name in sorted(own) if f"### {name}\n" not in shown] == []


@pytest.mark.parametrize(("blocking", "awaited"), CLIENTS)
def test_both_faces_have_the_same_methods(blocking: type, awaited: type) -> None:
    assert set(public(blocking)) - set(public(awaited)) <= ONLY_BLOCKING
    assert set(public(awaited)) - set(public(blocking)) <= ONLY_AWAITED
    assert {name for name in public(awaited) if differs(name, blocking, awaited)} <= {
        *ONLY_AWAITED,
        "send",  # Awaiting it is awaiting the delivery.
        "arrow",  # An asynchronous iterator is no Arrow stream.
    }


def test_every_method_says_what_it_does() -> None:
    for faces in CLIENTS:
        for face in faces:
            for name in public(face):
                documented = getattr(face, name).__doc__
                assert documented, f"{face.__module__}.{face.__name__}.{name}"
