"""Java's hash codes and the order of its hash tables. The expected values are from Java."""

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
def test_a_string_has_the_hash_code_of_java(text: str, hash_code: int) -> None:
    assert string_hash(text) == hash_code & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("group", "partition"),
    [("", 0), ("a", 47), ("console-consumer-1", 24), ("flights", 9), ("polygenelubricants", 0)],
)
def test_a_group_has_the_partition_of_kafka(group: str, partition: int) -> None:
    """`Utils.abs(hash) % 50`, where the absolute value of the smallest integer is 0."""
    assert partition_for(group, 50) == partition


def test_keys_are_ordered_by_bucket_then_insertion() -> None:
    assert hash_ordered(["range", "roundrobin"]) == ["range", "roundrobin"]
    assert hash_ordered(["roundrobin", "range"]) == ["range", "roundrobin"]
    assert hash_ordered(["b", "a", "q"]) == ["a", "q", "b"]
    assert hash_ordered(["q", "a"]) == ["q", "a"]
