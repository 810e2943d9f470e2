"""What Java's strings hash to, and what follows from it. The figures are Java's own."""

from __future__ import annotations

import pytest

from odradek.model.java_hash import hash_ordered, partition_for, string_hash


@pytest.mark.parametrize(
    ("text", "hash_code"),
    [
        ("", 0),
        ("a", 97),
        ("console-consumer-1", 35782224),
        ("flights", -771814909),
        ("ä/€", 228929),
        ("𝄞", 1772394),
        ("polygenelubricants", -2147483648),
    ],
)
def test_strings(text: str, hash_code: int) -> None:
    assert string_hash(text) == hash_code & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("group", "partition"),
    [("", 0), ("a", 47), ("console-consumer-1", 24), ("flights", 9), ("polygenelubricants", 0)],
)
def test_a_group_has_the_partition_that_kafka_gives_it(group: str, partition: int) -> None:
    """`Utils.abs(hash) % 50`, where the absolute value of the smallest integer is 0."""
    assert partition_for(group, 50) == partition


def test_hash_maps_go_by_bucket_and_then_by_insertion() -> None:
    assert hash_ordered(["range", "roundrobin"]) == ["range", "roundrobin"]
    assert hash_ordered(["roundrobin", "range"]) == ["range", "roundrobin"]
    assert hash_ordered(["b", "a", "q"]) == ["a", "q", "b"]
    assert hash_ordered(["q", "a"]) == ["q", "a"]
