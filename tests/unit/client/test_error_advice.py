"""The message of an error has one advice, however many errors it contains."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from odradek.client import errors
from odradek.client.errors import KafkaError, error_for
from odradek.client.metadata.metadata import Metadata
from odradek.client.producer.producer_core import unknown_topic_error
from odradek.model.errors import ErrorCode
from odradek.network.reactor import SystemClock
from odradek.network_client.backoff import ExponentialBackoff

MARK = "What to do"


def kinds(kind: type[KafkaError] = KafkaError) -> Iterator[type[KafkaError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from kinds(below)


def advising(advice: str) -> KafkaError:
    return errors.Disconnected(f"it broke. {MARK}: {advice}")


@pytest.mark.parametrize("kind", sorted(set(kinds()), key=lambda kind: kind.__name__))  # type: ignore[attr-defined]
def test_the_advice_of_the_outer_error_is_kept(kind: type[KafkaError]) -> None:
    within = kind(f"not sent: {advising('wait')}. {MARK}: go")
    error = kind(f"not done: {within}. {MARK}: look")
    assert str(error) == f"not done: not sent: it broke. {MARK}: look"


def test_without_advice_of_its_own_an_error_keeps_that_of_the_inner_one() -> None:
    assert str(errors.ApiTimeout(f"late; last: {advising('wait')}")) == (
        f"late; last: it broke. {MARK}: wait"
    )


def test_a_composed_advice_begins_after_one_blank() -> None:
    assert str(KafkaError(f"it broke. {MARK}:  give less")) == f"it broke. {MARK}: give less"


def test_a_message_without_advice_is_unchanged() -> None:
    assert str(errors.ClientClosed("closed. It is.")) == "closed. It is."
    assert str(KafkaError()) == ""


@pytest.mark.parametrize("code", sorted(ErrorCode))
def test_a_brokers_text_with_advice_brings_no_second_advice(code: ErrorCode) -> None:
    error = error_for(code, "topic t", broker_text=f"{advising('wait')}.")
    assert str(error).count(MARK) == 1


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (ErrorCode.INVALID_TRANSACTION_TIMEOUT, "at most the brokers' transaction.max.timeout.ms"),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, "RE2"),
        (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "list_transactions"),
    ],
)
def test_errors_about_transactions_say_what_to_do(code: ErrorCode, advice: str) -> None:
    text, _, way_out = str(error_for(code, "transactional id x")).partition(f". {MARK}: ")
    assert text.startswith(f"transactional id x: {code.name}: ")
    assert advice in way_out


def test_a_topic_without_metadata_fails_with_one_advice() -> None:
    backoff = ExponentialBackoff(100, 1000, random.Random(1), jitter=0)
    metadata = Metadata(SystemClock(), backoff, max_age_ms=300_000, topic_idle_ms=300_000)
    metadata.last_error = advising("wait")
    error = str(unknown_topic_error("t", metadata, 7))
    assert "it broke" in error and error.count(MARK) == 1
