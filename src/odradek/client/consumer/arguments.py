"""What users give a consumer, in the forms they are used to, made into one.

    Consumer("orders", "returns", group="shop", brokers="localhost:9092")
    Consumer({"bootstrap.servers": "localhost:9092", "group.id": "shop"})        confluent-kafka
    Consumer("orders", bootstrap_servers=..., group_id=..., value_deserializer=...)  kafka-python

Partitions are as `partition_arguments` has them. What to commit is a record (then the one behind it
is next), a batch, an Arrow batch, offsets by partition, a partition that has an offset (which then
is next: confluent-kafka's), or nothing: all that was handed out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from odradek.client.arguments import ByPartition, one_or_several, partition_of
from odradek.client.arrow.types import ArrowBatch
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
from odradek.config.client import argument_by_name, take_arguments
from odradek.config.consumer import ConsumerConfig
from odradek.config.keywords import ConsumerKeywords
from odradek.config.offset_reset import EARLIEST, LATEST, AutoOffsetResetStrategy
from odradek.model.topics import TopicPartition, name_problem

log = logging.getLogger(__name__)

OFFSETS_KEY = b"odradek.offsets"
"""Where the schema of an Arrow batch says what to commit for it."""

OWN_ARGUMENTS = (
    "key",
    "value",
    "key_deserializer",
    "value_deserializer",
    "assignors",
    "on_decode_error",
)
"""What is no setting."""
TO_TOPIC = "dlq:"
EARLIEST_OFFSET, LATEST_OFFSET = -2, -1
NO_OFFSET_GIVEN = (-1000, -1001)
"""What confluent-kafka's partitions have that are to begin where the group has committed."""

Offsets = dict[TopicPartition, OffsetAndMetadata]
OffsetLike = int | OffsetAndMetadata
Committable = Record[Any, Any] | Batch[Any, Any] | ArrowBatch | ByPartition[OffsetLike] | None
"""What says what to commit; None: all that was handed out."""
Target = int | Literal["start", "end"] | datetime
OnDecodeError = Literal["raise", "skip"] | str | Callable[[DecodeError], object]


class ConsumerOptions(ConsumerKeywords, total=False):
    """What a consumer takes as keywords, beside deserializers."""

    group: str | None
    brokers: str | Sequence[str] | None
    assignors: Sequence[AssignorLike]
    """In the place of `partition.assignment.strategy`, for those who bring their own: names,
    classes derived from `PartitionAssignor`, or instances."""
    on_decode_error: OnDecodeError
    """What becomes of a record that cannot be decoded:

        "raise"       a `DecodeError`, again and again until the consumer seeks behind it
        "skip"        passed over, with a line in the log
        "dlq:topic"   passed over once it is in that topic, as it came: see `dead_letters`
        a function    passed over once the function, called with the `DecodeError`, returns

    In Arrow batches the row stays, and its decoded value is null."""


@dataclass(frozen=True, slots=True)
class ConsumerArguments:
    """What a consumer is made of."""

    topics: list[str]
    config: ConsumerConfig
    deserializers: Deserializers
    assignors: list[PartitionAssignor] | None
    """None: those of the settings."""
    dead_letter_topic: str | None


def consumer_arguments(
    first: Sequence[str | Mapping[str, Any]], key: Any, value: Any, keywords: Mapping[str, Any]
) -> ConsumerArguments:
    """From what a constructor was given: topics or a mapping, and keywords. Raises
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
        deserializer(argument_by_name("key", "key_deserializer", own_arguments)),
        deserializer(argument_by_name("value", "value_deserializer", own_arguments)),
        on_error,
        set_aside=dead_letter_topic is not None,
    )
    given_assignors = own_arguments.get("assignors")
    config = ConsumerConfig.load(given)
    if given_assignors is not None and config.is_given("partition.assignment.strategy"):
        raise ConfigError("give assignors, or partition.assignment.strategy, not both")
    strategy = None if given_assignors is None else assignors(given_assignors)
    return ConsumerArguments(topics, config, deserializers, strategy, dead_letter_topic)


def error_handler(
    wanted: OnDecodeError,
) -> tuple[Callable[[DecodeError], object] | None, str | None]:
    """Who is told of a record that cannot be decoded, or the topic it goes to; neither: it is
    raised.
    """
    if wanted == "raise":
        return None, None
    if wanted == "skip":
        return lambda error: log.warning("%s", error), None
    if isinstance(wanted, str) and wanted.startswith(TO_TOPIC) and wanted != TO_TOPIC:
        topic = wanted.removeprefix(TO_TOPIC)
        problem = name_problem(topic)
        if problem is not None:  # Else it would be known when a record is to be written there.
            raise ConfigError(f"on_decode_error is {wanted!r}. {problem}")
        return None, topic
    if callable(wanted):
        return wanted, None
    raise ConfigError(
        f"on_decode_error is 'raise', 'skip', '{TO_TOPIC}' with the name of a topic, or a function,"
        f" not {wanted!r}"
    )


def assignment_of(
    given: Iterable[Any] | Mapping[Any, Any],
) -> tuple[list[TopicPartition], dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Partitions with where to begin and where to end, as far as that is given: an offset, or a
    pair of offsets of which either may be None; or the offset that a partition itself has, as
    confluent-kafka's do.
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
    """The offset that stands in a partition, None if none does. Raises `ValueError`."""
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
    """Whether it is a partition of confluent-kafka's: its offset is where to go on. That of all
    else, of records and of what tells of them, is their own."""
    return hasattr(given, "metadata") and hasattr(given, "error")


def target_of(to: Target) -> int | AutoOffsetResetStrategy | datetime:
    """Where to seek."""
    if isinstance(to, datetime):
        return to
    if to in ("start", "beginning", "earliest"):
        return EARLIEST
    if to in ("end", "latest"):
        return LATEST
    return checked_offset(to)


def offsets_of(what: Any) -> Offsets:
    """What to commit. Raises `TypeError` for what does not say it."""
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
    """The inverse of `metadata_of`."""
    return {
        TopicPartition(topic, partition): OffsetAndMetadata(offset, "", epoch)
        for topic, partition, offset, epoch in json.loads(metadata)
    }


def metadata_of(offsets: Offsets) -> bytes:
    """Offsets as they travel in the schema of an Arrow batch."""
    return json.dumps([(*p, at.offset, at.leader_epoch) for p, at in offsets.items()]).encode()
