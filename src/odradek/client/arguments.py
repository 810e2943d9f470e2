"""Checks and conversions of arguments that applications give: names, partitions, timeouts.

Names. A name must be text before a request carries it: a request that cannot be encoded fails as a
whole, with all it asks for. Applications give bytes where other clients took them, None where a
setting is missing, and one name where several are expected, which Python reads as a list of
letters. Python's text may also hold halves of surrogate pairs (from `os.fsdecode`, or from a cut
JSON string), which have no UTF-8, and may be longer than a request allows. The broker checks all
else about names.

Partitions. A partition is given as a `TopicPartition`, as a pair of topic and number, or as any
object with both as attributes, such as a record.

Timeouts. Applications give seconds, the engine counts milliseconds:

    seconds    0            at once: what is known
               2.5          2,500 ms, rounded up
               None         for ever, or the default of the call
               below 0      for ever, as in confluent-kafka
               infinity     for ever, as is all beyond Kafka's maximum of 24 days
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, SupportsFloat, TypeVar

from odradek.client.errors import InvalidTopic
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.primitives import MAX_STRING_BYTES


def checked_topic(name: object) -> str:
    """The name. Raises `TypeError`, and `InvalidTopic`."""
    text = text_of("topic", name)
    if len(text) > MAX_STRING_BYTES:
        raise InvalidTopic(
            f"a topic cannot have a name of {len(text)} characters. What to do: "
            f"{InvalidTopic.advice}",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        )
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidTopic(
                f"a topic cannot be named {text!a}, which is not text that UTF-8 knows: "
                f"{error.reason}. What to do: {InvalidTopic.advice}",
                ErrorCode.INVALID_TOPIC_EXCEPTION,
            ) from None
    return text


def checked_topics(names: object) -> list[str]:
    """One name, or several. Raises as `checked_topic`."""
    return [checked_topic(name) for name in several("topic", names)]


def text_of(what: str, name: object) -> str:
    """The name of a topic or group. Raises `TypeError` for what is no text."""
    if not isinstance(name, str):
        raise TypeError(
            f"a {what} cannot be named {name!r}. What to do: give its name as text, a str"
        )
    return name


def texts_of(what: str, names: object) -> list[str]:
    """One name, or several. Raises `TypeError`."""
    return [text_of(what, name) for name in several(what, names)]


def several(what: str, given: object) -> list[object]:
    """What was given, or all of them; text is one, and never a list of letters. Raises
    `TypeError`."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, Iterable) or isinstance(given, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"{given!r} does not name any {what}. What to do: give one name, or several, as text"
        )
    return list(given)


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


FOREVER_MS = 2**31 - 1


def milliseconds_of(timeout_s: SupportsFloat | None) -> int | None:
    """A timeout; None for ever. Raises `TypeError` and `ValueError` for what is none."""
    if timeout_s is None:
        return None
    if not hasattr(timeout_s, "__float__"):
        raise TypeError(f"{timeout_s!r} is no timeout: give seconds, or None")
    seconds = float(timeout_s)
    if math.isnan(seconds):
        raise ValueError("nan is no timeout: give seconds, or None")
    return math.ceil(seconds * 1000) if 0 <= seconds < FOREVER_MS / 1000 else None


def limit_ms(timeout_s: float | None) -> int:
    """The same, where it takes a number to say for ever."""
    found = milliseconds_of(timeout_s)
    return FOREVER_MS if found is None else found


def limit_s(timeout_s: float | None) -> float:
    """The same in seconds."""
    return limit_ms(timeout_s) / 1000
