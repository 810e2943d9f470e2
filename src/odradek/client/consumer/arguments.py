"""The arguments of a consumer, in all forms that users know, converted to one form.

    Consumer("orders", "returns", group="shop", brokers="localhost:9092")
    Consumer({"bootstrap.servers": "localhost:9092", "group.id": "shop"})        confluent-kafka
    Consumer("orders", bootstrap_servers=..., group_id=..., value_deserializer=...)  kafka-python

What can be committed: a record (the next offset is committed), a batch, an Arrow batch, offsets by
partition, a partition with an offset (confluent-kafka's; that offset is committed), or nothing: all
offsets consumed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from odradek.client.arguments import ByPartition, one_or_several, partition_of
from odradek.client.arrow_types import ArrowBatch
from odradek.client.consumer.assignor.partition_assignor import PartitionAssignor
from odradek.client.consumer.assignor.registry import AssignorLike, assignors
from odradek.client.consumer.batch import (
    Batch,
    OffsetAndMetadata,
    checked_offset,
    to_commit,
)
from odradek.client.consumer.record import Record
from odradek.client.deserializers import Deserializers, deserializer
from odradek.client.errors import ConfigError, DecodeError
from odradek.client.interceptors import ConsumerInterceptor, checked_interceptors
from odradek.config.client import aliased_argument, take_arguments
from odradek.config.consumer import ConsumerConfig
from odradek.config.keywords import ConsumerKeywords
from odradek.config.offset_reset import EARLIEST, LATEST, AutoOffsetResetStrategy
from odradek.model.topics import TopicPartition, name_problem

log = logging.getLogger(__name__)

OFFSETS_KEY = b"odradek.offsets"
"""Key of the offsets to commit in the schema metadata of an Arrow batch."""

OWN_ARGUMENTS = (
    "key",
    "value",
    "key_deserializer",
    "value_deserializer",
    "assignors",
    "on_decode_error",
    "interceptors",
)
"""Keywords that are not settings."""
TO_TOPIC = "dlq:"
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1
NO_OFFSET_GIVEN = (-1000, -1001)
"""The offsets of a confluent-kafka partition that is to begin at the committed offset."""

Offsets = dict[TopicPartition, OffsetAndMetadata]
OffsetLike = int | OffsetAndMetadata
Committable = Record[Any, Any] | Batch[Any, Any] | ArrowBatch | ByPartition[OffsetLike] | None
"""The arguments of a commit; None commits all consumed offsets."""
Target = int | Literal["start", "end"] | datetime
OnDecodeError = Literal["raise", "skip"] | str | Callable[[DecodeError], object]


class ConsumerOptions(ConsumerKeywords, total=False):
    """The keywords of a consumer, besides deserializers."""

    group: str | None
    brokers: str | Sequence[str] | None
    assignors: Sequence[AssignorLike]
    """Replaces `partition.assignment.strategy` for users' own assignors: names, classes derived
    from `PartitionAssignor`, or instances.
    """
    interceptors: Sequence[ConsumerInterceptor] | None
    on_decode_error: OnDecodeError
    """The handling of a record that cannot be decoded:

        "raise"       raise a `DecodeError`, every time until the consumer seeks behind it
        "skip"        skip it and log a warning
        "dlq:topic"   write it unchanged to that topic, then skip it: see `dead_letters`
        a function    call it with the `DecodeError`, then skip the record

    In Arrow batches the row stays, and its decoded value is null.
    """


@dataclass(frozen=True, slots=True)
class ConsumerArguments:
    """The parts from which a consumer is made."""

    topics: list[str]
    config: ConsumerConfig
    deserializers: Deserializers
    assignors: list[PartitionAssignor] | None
    """None: those of `partition.assignment.strategy`."""
    dead_letter_topic: str | None
    interceptors: list[ConsumerInterceptor]


def consumer_arguments(
    first: Sequence[str | Mapping[str, Any]], key: Any, value: Any, keywords: Mapping[str, Any]
) -> ConsumerArguments:
    """Convert a constructor's arguments: topics or a mapping, and keywords. Raises
    `ConfigError`.
    """
    topics = [each for each in first if isinstance(each, str)]
    mappings = [each for each in first if isinstance(each, Mapping)]
    if len(topics) + len(mappings) != len(first) or len(mappings) > 1:
        raise ConfigError(
            "a consumer takes names of topics, or one mapping with its settings, not "
            + ", ".join(repr(each) for each in first)
        )
    given: dict[str, Any] = {}
    for mapping in (*mappings, keywords):
        given.update(mapping)
    given |= {
        name: given_value
        for name, given_value in (("key", key), ("value", value))
        if given_value is not None
    }
    own_arguments = take_arguments(OWN_ARGUMENTS, given)
    on_error, dead_letter_topic = error_handler(own_arguments.get("on_decode_error", "raise"))
    deserializers = Deserializers(
        deserializer(aliased_argument("key", "key_deserializer", own_arguments)),
        deserializer(aliased_argument("value", "value_deserializer", own_arguments)),
        on_error,
        set_aside=dead_letter_topic is not None,
    )
    given_assignors = own_arguments.get("assignors")
    config = ConsumerConfig.load(given)
    if given_assignors is not None and config.is_given("partition.assignment.strategy"):
        raise ConfigError("give assignors, or partition.assignment.strategy, not both")
    strategy = None if given_assignors is None else assignors(given_assignors)
    interceptors = checked_interceptors(own_arguments.get("interceptors"), ConsumerInterceptor)
    return ConsumerArguments(
        topics, config, deserializers, strategy, dead_letter_topic, interceptors
    )


def error_handler(
    handler: OnDecodeError,
) -> tuple[Callable[[DecodeError], object] | None, str | None]:
    """Return the handler of records that cannot be decoded, and the dead letter topic; (None, None)
    raises.
    """
    if handler == "raise":
        return None, None
    if handler == "skip":
        return lambda error: log.warning("%s", error), None
    if isinstance(handler, str) and handler.startswith(TO_TOPIC) and handler != TO_TOPIC:
        topic = handler.removeprefix(TO_TOPIC)
        problem = name_problem(topic)
        if problem is not None:  # Checked now: else the first dead letter would find out.
            raise ConfigError(f"on_decode_error is {handler!r}. {problem}")
        return None, topic
    if callable(handler):
        return handler, None
    raise ConfigError(
        f"on_decode_error is 'raise', 'skip', '{TO_TOPIC}' with the name of a topic, or a function,"
        f" not {handler!r}"
    )


def assignment_of(
    given: Iterable[Any] | Mapping[Any, Any],
) -> tuple[list[TopicPartition], dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the partitions to assign, their start offsets and their end offsets, as far as given.

    A start can be given as an offset, as the first of a pair of offsets (either may be None), or as
    the offset of a confluent-kafka partition.
    """
    several = one_or_several(given)
    starts: dict[TopicPartition, int] = {}
    ends: dict[TopicPartition, int] = {}
    for each in several:
        bounds = given[each] if isinstance(given, Mapping) else offset_in_partition(each)
        start, end = bounds if isinstance(bounds, tuple) else (bounds, None)
        if start is not None:
            starts[partition_of(each)] = checked_offset(start)
        if end is not None:
            ends[partition_of(each)] = checked_offset(end)
    return [partition_of(each) for each in several], starts, ends


def offset_in_partition(partition: Any) -> int | None:
    """Return the offset that a confluent-kafka partition has; None if it has none. Raises
    `ValueError`.
    """
    offset = getattr(partition, "offset", None)
    if (
        not isinstance(offset, int)
        or not is_confluent_partition(partition)
        or offset in NO_OFFSET_GIVEN
    ):
        return None
    if offset in (EARLIEST_OFFSET, LATEST_OFFSET):
        where = "start" if offset == EARLIEST_OFFSET else "end"
        named = tuple(partition_of(partition))
        raise ValueError(f'{named} has no offset: assign it without, and seek() to the "{where}"')
    return offset


def is_confluent_partition(given: Any) -> bool:
    """True if `given` is a confluent-kafka partition, whose offset is where to go on. The offset of
    a record is the record's own.
    """
    return hasattr(given, "metadata") and hasattr(given, "error")


def target_of(to: Target) -> int | AutoOffsetResetStrategy | datetime:
    """Return where to seek."""
    if isinstance(to, datetime):
        return to
    if to in ("start", "beginning", "earliest"):
        return EARLIEST
    if to in ("end", "latest"):
        return LATEST
    return checked_offset(to)


def offsets_of(what: Any) -> Offsets:
    """Return the offsets to commit. Raises `TypeError` if the argument has none."""
    if isinstance(what, Mapping):
        return {partition_of(each): to_commit(offset) for each, offset in what.items()}
    offset = getattr(what, "offset", None)
    if isinstance(offset, int):
        epoch = getattr(what, "leader_epoch", None)
        epoch = -1 if epoch is None else epoch
        if not is_confluent_partition(what):
            return {partition_of(what): OffsetAndMetadata(offset + 1, "", epoch)}
        note = what.metadata or ""
        return {partition_of(what): OffsetAndMetadata(checked_offset(offset), note, epoch)}
    offsets = getattr(what, "offsets", None)
    if isinstance(offsets, Mapping):
        return offsets_of(offsets)
    metadata = getattr(getattr(what, "schema", None), "metadata", None)
    if metadata and OFFSETS_KEY in metadata:
        return offsets_in(metadata[OFFSETS_KEY])
    raise TypeError(
        f"a {type(what).__name__} does not say what to commit: give a record, a batch, an Arrow "
        "batch as it came, or offsets by partition"
    )


def offsets_in(metadata: bytes) -> Offsets:
    """Return the offsets that `metadata_of` encoded."""
    return {
        TopicPartition(topic, partition): OffsetAndMetadata(offset, "", epoch)
        for topic, partition, offset, epoch in json.loads(metadata)
    }


def metadata_of(offsets: Offsets) -> bytes:
    """Encode offsets for the schema metadata of an Arrow batch."""
    return json.dumps([(*p, at.offset, at.leader_epoch) for p, at in offsets.items()]).encode()
