"""Topics and partitions: names, and the 128-bit ids of topics and directories."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from odradek.model.env import Random

ZERO_UUID = UUID(int=0)


class TopicPartition(NamedTuple):
    """A partition, by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of the partitions of each topic, in the order in which they come."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


class TopicIdPartition(NamedTuple):
    """A partition, by the id of its topic: a new topic of the same name has another id."""

    topic_id: UUID
    partition: int

    def __str__(self) -> str:
        return f"{uuid_text(self.topic_id)}-{self.partition}"


@lru_cache(1024)
def uuid_text(value: UUID) -> str:
    """Format an id as Kafka does: URL-safe base64 without padding, 22 characters.

    Those of the last topics are kept, since each of their partitions has a directory of that name.
    """
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def uuid_from_text(text: str) -> UUID:
    """The inverse of `uuid_text`. Raises `ValueError`."""
    raw = base64.urlsafe_b64decode(text + "==")
    if len(text) != 22 or len(raw) != 16:
        raise ValueError(f"{text!r} is not a 22-character id")
    return UUID(bytes=raw)


def new_uuid(random: Random) -> UUID:
    """A random id whose text does not begin with `-`, as in Kafka: a shell would see an option."""
    while True:
        value = UUID(int=random.getrandbits(128), version=4)
        if value != ZERO_UUID and not uuid_text(value).startswith("-"):
            return value


MAX_NAME_LENGTH = 249
LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
METADATA_TOPIC = "__cluster_metadata"
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"})


def name_problem(name: str) -> str | None:
    """The reason why a topic cannot have this name; None if it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name}' is {len(name)}, "
            f"and at most {MAX_NAME_LENGTH} is allowed"
        )
    if LEGAL.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains characters other than "
            "ASCII letters, digits, '.', '_' and '-'"
        )
    return None
