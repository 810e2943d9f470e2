"""A partition as an application names it: a `TopicPartition`, a pair of topic and number, or
anything that has both as attributes, such as a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from odradek.client.topic_names import checked_topic
from odradek.model.topics import TopicPartition

T = TypeVar("T")

PartitionLike = TopicPartition | tuple[str, int]
ByPartition = Mapping[TopicPartition, T] | Mapping[tuple[str, int], T]
"""What is said of several partitions."""
MAX_PARTITION = 2**31 - 1
"""No request has room for a higher number."""


def partition_of(given: Any) -> TopicPartition:
    """A partition. Raises `TypeError` and `InvalidTopic`."""
    topic, partition = getattr(given, "topic", None), getattr(given, "partition", None)
    if isinstance(given, tuple) and len(given) == 2:
        topic, partition = given
    if isinstance(topic, str) and isinstance(partition, int) and 0 <= partition <= MAX_PARTITION:
        return TopicPartition(checked_topic(topic), partition)
    raise TypeError(f"{given!r} is no partition: give a topic and a number, such as ('orders', 0)")


def partitions_of(given: Any) -> list[TopicPartition]:
    """One partition or several. Raises as `partition_of`."""
    return [partition_of(each) for each in one_or_several(given)]


def one_or_several(given: Any) -> list[Any]:
    """What stands for one partition, or the several that do, as they were given."""
    pair = isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)
    one = pair or isinstance(given, TopicPartition)
    if one or isinstance(given, str) or not isinstance(given, Iterable):
        return [given]
    return list(given)


def by_partition(given: ByPartition[T]) -> dict[TopicPartition, T]:
    """The same by `TopicPartition`. Raises as `partition_of`."""
    return {partition_of(each): said for each, said in given.items()}
