"""Errors by class, for codes of the protocol and of the client."""

from __future__ import annotations

import pickle

import pytest

from odradek.client.errors import (
    KINDS,
    AuthorizationError,
    BrokerError,
    BufferFull,
    DeliveryTimeout,
    Disconnected,
    GroupError,
    KafkaError,
    ProducerFenced,
    RebalanceInProgress,
    TopicAuthorizationError,
    UnknownTopicOrPartition,
    WrongCluster,
    error_for,
)
from odradek.model.errors import ErrorCode


def test_every_code_has_a_class_and_keeps_its_code() -> None:
    for code in ErrorCode:
        error = error_for(code, "something")
        assert isinstance(error, KafkaError)
        assert error.code == code and error.name == code.name
        assert error.retriable == code.retriable
        assert error.refresh_metadata == code.refresh_metadata


def test_a_message_says_what_failed_where_and_what_to_do() -> None:
    text = str(error_for(3, "fetching orders-0 from broker 7"))
    assert text.startswith("fetching orders-0 from broker 7: UNKNOWN_TOPIC_OR_PARTITION: ")
    assert "create the topic" in text


def test_a_code_may_have_advice_of_its_own() -> None:
    text = str(error_for(ErrorCode.INVALID_SESSION_TIMEOUT, "joining group g"))
    assert "What to do: give a session.timeout.ms between the broker's group.min" in text
    assert text.endswith("group.max.session.timeout.ms.")


def test_the_brokers_text_replaces_the_default_text() -> None:
    assert "partitions must be 1 or more" in str(error_for(37, "x", "partitions must be 1 or more"))


def test_an_unknown_code_is_in_the_message() -> None:
    error = error_for(999, "x")
    assert type(error) is BrokerError and "999" in str(error)
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("code", "kinds"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, (UnknownTopicOrPartition, BrokerError)),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, (TopicAuthorizationError, AuthorizationError)),
        (ErrorCode.REBALANCE_IN_PROGRESS, (RebalanceInProgress, GroupError)),
        (ErrorCode.REQUEST_TIMED_OUT, (TimeoutError,)),
        (ErrorCode.MESSAGE_TOO_LARGE, (ValueError,)),
    ],
)
def test_errors_belong_to_their_families(
    code: ErrorCode, kinds: tuple[type[Exception], ...]
) -> None:
    assert all(isinstance(error_for(code, "x"), kind) for kind in kinds)


def test_errors_of_the_client_are_also_pythons_kinds() -> None:
    assert isinstance(DeliveryTimeout("late"), TimeoutError)
    assert isinstance(BufferFull("full"), BufferError)
    assert BufferFull("full").name == "BufferFull"
    assert Disconnected("gone").retriable and Disconnected("gone").refresh_metadata


def test_fatal_errors_are_marked() -> None:
    assert ProducerFenced("x").fatal and WrongCluster("x").fatal
    assert not UnknownTopicOrPartition("x").fatal


def test_only_an_abortable_transaction_has_to_be_aborted() -> None:
    found = [code for code in ErrorCode if error_for(code, "x").requires_abort]
    assert found == [ErrorCode.TRANSACTION_ABORTABLE]


def test_errors_can_be_pickled() -> None:
    error = error_for(ErrorCode.NOT_COORDINATOR, "committing")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.code) == (str(error), error.code)


def test_the_table_has_no_class_for_success() -> None:
    assert ErrorCode.NONE not in KINDS
