"""The consumer protocol: subscriptions, assignments and user data, byte by byte."""

from __future__ import annotations

import pytest

from odradek.model.errors import ProtocolError
from odradek.model.topics import TopicPartition
from odradek.protocol.consumer_protocol import (
    NO_GENERATION,
    Assignment,
    Subscription,
    decode_assignment,
    decode_cooperative_sticky_user_data,
    decode_sticky_user_data,
    decode_subscription,
    encode_assignment,
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
    encode_subscription,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
SUBSCRIPTION = Subscription(["b", "a"], b"u", [B0, A1, A0], generation_id=7, rack_id="r")


def test_a_subscription_is_written_sorted_after_its_version() -> None:
    topics = "00000002000161000162"
    user_data = "0000000175"
    owned = "000000020001610000000200000000000000010001620000000100000000"
    assert encode_subscription(SUBSCRIPTION, 0).hex() == "0000" + topics + user_data
    assert encode_subscription(SUBSCRIPTION, 1).hex() == "0001" + topics + user_data + owned
    generation, rack = "00000007", "000172"
    expected = "0003" + topics + user_data + owned + generation + rack
    assert encode_subscription(SUBSCRIPTION).hex() == expected


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_a_subscription_is_read(version: int) -> None:
    found = decode_subscription(encode_subscription(SUBSCRIPTION, version), "instance")
    assert found == Subscription(
        ["a", "b"],
        b"u",
        [A0, A1, B0] if version >= 1 else [],
        generation_id=7 if version >= 2 else NO_GENERATION,
        rack_id="r" if version >= 3 else None,
        group_instance_id="instance",
    )


def test_a_newer_version_is_read_as_the_highest_known_one() -> None:
    newer = b"\x00\x63" + encode_subscription(SUBSCRIPTION)[2:] + b"more"
    assert decode_subscription(newer).generation_id == 7
    newer = b"\x00\x63" + encode_assignment(Assignment([A0]))[2:] + b"more"
    assert decode_assignment(newer) == Assignment([A0])


def test_an_assignment_groups_partitions_by_topic_in_their_order() -> None:
    written = encode_assignment(Assignment([B0, A1, A0], b"x"))
    assert decode_assignment(written) == Assignment([B0, A1, A0], b"x")
    assert decode_assignment(encode_assignment(Assignment([A1, B0, A0]))).partitions == [A1, A0, B0]


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\xff\xff", b"\x00\x00\x00\x00\x00\x09", b"\x00\x01\x00"]
)
def test_an_invalid_subscription_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_subscription(data)


def test_user_data_of_the_sticky_assignors_is_read_as_written() -> None:
    assert decode_sticky_user_data(encode_sticky_user_data([B0, A0], 3)) == ([B0, A0], 3)
    without_generation = encode_sticky_user_data([B0, A0], 3)[:-4]
    assert decode_sticky_user_data(without_generation) == ([B0, A0], NO_GENERATION)
    assert decode_sticky_user_data(b"of another kind") == ([], NO_GENERATION)
    assert decode_cooperative_sticky_user_data(encode_cooperative_sticky_user_data(9)) == 9
    assert decode_cooperative_sticky_user_data(b"?") == NO_GENERATION
