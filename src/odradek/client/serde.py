"""Serde: serializer and deserializer in one object, with topic and headers, as for schema
registries.

    class Registered:
        def serialize(self, topic, headers, data): ...      -> bytes
        def deserialize(self, topic, headers, data): ...    -> the object

    Producer(value=Registered()), Consumer(value=Registered())

A module of its own, because applications may subclass `Serde`: it must not be compiled.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from odradek.client.deserializers import Deserializing
from odradek.client.serializers import Serializing

T = TypeVar("T")


class Serde(Serializing[T], Deserializing[T], Protocol[T]):
    """An object for `key` or `value` of both a producer and a consumer."""
