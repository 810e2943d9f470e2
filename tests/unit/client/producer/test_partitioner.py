"""Partitions by key agree with Kafka's own clients."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.client.producer.partitioner import murmur2, partition_for_key


# The values of Kafka's own test of its hash (signed there).
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_returns_known_values(key, signed):
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=64), st.integers(1, 50))
def test_keys_get_the_same_partition_as_in_kafka_python(key, partitions):
    from kafka.partitioner.default import murmur2 as reference

    assert partition_for_key(key, partitions) == (reference(key) & 0x7FFFFFFF) % partitions
