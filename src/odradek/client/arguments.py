"""Checks and conversions of arguments that applications give: names, partitions, timeouts.

Names. A name must be text before a request carries it, because a request that cannot be encoded
fails as a whole. Applications give bytes where other clients took them, None where a setting is
missing, and one name where several are expected, which Python reads as a list of letters. Python's
text may also hold halves of surrogate pairs (from `os.fsdecode`, or from a cut JSON string), which
have no UTF-8 form, and may be longer than a request allows. The broker makes all other checks of
names.

Partitions. A partition is given as a `TopicPartition`, as a pair of topic and number, or as any
object with both as attributes, such as a record.

Timeouts. Applications give seconds, the engine counts milliseconds:

    seconds    0            at once: what is known
               2.5          2,500 ms, rounded up
               None         for ever, or the default of the call
               below 0      for ever, as in confluent-kafka
               infinity     for ever, as is everything above Kafka's maximum of 24 days

Replacements. `replace` of an immutable object has the default `UNCHANGED`, because None is a value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, SupportsFloat, TypeVar

from odradek.client.errors import InvalidTopic
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.primitives import MAX_STRING_BYTES


def checked_topic(name: object) -> str:
    """Return the name of a topic. Raises `TypeError` and `InvalidTopic`."""
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
                f"a topic cannot be named {text!a}, which has no UTF-8 form: "
                f"{error.reason}. What to do: {InvalidTopic.advice}",
                ErrorCode.INVALID_TOPIC_EXCEPTION,
            ) from None
    return text


def checked_topics(names: object) -> list[str]:
    """Return one or several names of topics as a list. Raises as `checked_topic`."""
    return [checked_topic(name) for name in several("topic", names)]


def text_of(what: str, name: object) -> str:
    """Return the name of a topic or group. Raises `TypeError` unless it is text."""
    if not isinstance(name, str):
        raise TypeError(
            f"a {what} cannot be named {name!r}. What to do: give its name as text, a str"
        )
    return name


def texts_of(what: str, names: object) -> list[str]:
    """Return one or several names as a list. Raises `TypeError`."""
    return [text_of(what, name) for name in several(what, names)]


def several(what: str, given: object) -> list[object]:
    """Return one or several items as a list. Text is one item, never a list of letters. Raises
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
"""Values by partition."""
MAX_PARTITION = 2**31 - 1
"""The highest number that a request can hold."""


def partition_of(given: Any) -> TopicPartition:
    """Return a partition. Raises `TypeError` and `InvalidTopic`."""
    topic, partition = getattr(given, "topic", None), getattr(given, "partition", None)
    if isinstance(given, tuple) and len(given) == 2:
        topic, partition = given
    if isinstance(topic, str) and isinstance(partition, int) and 0 <= partition <= MAX_PARTITION:
        return TopicPartition(checked_topic(topic), partition)
    raise TypeError(f"{given!r} is no partition: give a topic and a number, such as ('orders', 0)")


def partitions_of(given: Any) -> list[TopicPartition]:
    """Return one or several partitions as a list. Raises as `partition_of`."""
    return [partition_of(each) for each in one_or_several(given)]


def one_or_several(given: Any) -> list[Any]:
    """Return one or several objects that name partitions as a list, unchecked."""
    pair = isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)
    one = pair or isinstance(given, TopicPartition)
    if one or isinstance(given, str) or not isinstance(given, Iterable):
        return [given]
    return list(given)


def by_partition(given: ByPartition[T]) -> dict[TopicPartition, T]:
    """Return the values by `TopicPartition`. Raises as `partition_of`."""
    return {partition_of(each): value for each, value in given.items()}


FOREVER_MS = 2**31 - 1


def milliseconds_of(timeout_s: SupportsFloat | None) -> int | None:
    """Return a timeout in ms; None for ever. Raises `TypeError` and `ValueError`."""
    if timeout_s is None:
        return None
    if not hasattr(timeout_s, "__float__"):
        raise TypeError(f"{timeout_s!r} is no timeout: give seconds, or None")
    seconds = float(timeout_s)
    if math.isnan(seconds):
        raise ValueError("nan is no timeout: give seconds, or None")
    return math.ceil(seconds * 1000) if 0 <= seconds < FOREVER_MS / 1000 else None


def limit_ms(timeout_s: float | None) -> int:
    """Return a timeout in ms, `FOREVER_MS` for ever."""
    found = milliseconds_of(timeout_s)
    return FOREVER_MS if found is None else found


def limit_s(timeout_s: float | None) -> float:
    """Return a timeout in seconds, `FOREVER_MS` for ever."""
    return limit_ms(timeout_s) / 1000


class Unchanged:
    """The type of `UNCHANGED`."""


UNCHANGED: Final = Unchanged()
