"""The page of the Python API is complete, and the clients for threads and asyncio agree."""

from __future__ import annotations

import re

import pytest

import odradek.errors
from scripts.reference.python_api import CLIENTS, differs, page, public_names

ONLY_BLOCKING = {"produce", "produce_batch", "poll"}
"""confluent-kafka's methods of a producer."""
ONLY_ASYNC = {"start", "enqueue", "send_nowait"}
NOT_ON_THE_PAGE = {"Any", "Self", "None", "K", "V", "Iterator", "AsyncIterator", "RecordBatch"} | {
    "Offsets",  # Of partitions; in the table of arguments.
    "ArrowTable",  # pyarrow's.
    "ArrowBatch",
    "KafkaError",
}


def test_the_page_names_no_module_of_the_clients() -> None:
    assert "`client." not in page()


def test_every_error_is_on_the_page() -> None:
    shown = page()
    missing = [name for name in odradek.errors.__all__ if f"| `{name}` |" not in shown]
    assert missing == ["error_for"]


def test_every_class_that_a_call_returns_is_on_the_page() -> None:
    shown = page()
    returned = re.findall(r"-> (.*?)` \|", shown)
    classes = {name for each in returned for name in re.findall(r"\b[A-Z]\w+", each)}
    missing = [name for name in classes - NOT_ON_THE_PAGE if f"### {name}\n" not in shown]
    assert missing == []


@pytest.mark.parametrize(("blocking", "asynchronous"), CLIENTS)
def test_both_clients_have_the_same_methods(blocking: type, asynchronous: type) -> None:
    assert set(public_names(blocking)) - set(public_names(asynchronous)) <= ONLY_BLOCKING
    assert set(public_names(asynchronous)) - set(public_names(blocking)) <= ONLY_ASYNC
    different = {
        name for name in public_names(asynchronous) if differs(name, blocking, asynchronous)
    }
    assert different <= {
        *ONLY_ASYNC,
        "send",  # Awaiting it is awaiting the delivery.
        "arrow",  # An asynchronous iterator is no Arrow stream.
    }


def test_every_public_method_has_a_docstring() -> None:
    for kinds in CLIENTS:
        for kind in kinds:
            for name in public_names(kind):
                documented = getattr(kind, name).__doc__
                assert documented, f"{kind.__module__}.{kind.__name__}.{name}"
