"""Both directions in one object, for those that need topic and headers: schema registries, say.

class Registered:
    def serialize(self, topic, headers, data): ...      -> bytes
    def deserialize(self, topic, headers, data): ...    -> the object

Producer(value=Registered()), Consumer(value=Registered())
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from odradek.client.deserializers import Deserializing
from odradek.client.serializers import Serializing

T = TypeVar("T")


class Serde(Serializing[T], Deserializing[T], Protocol[T]):
    """What a producer's and a consumer's `key` and `value` may be, as one object."""
