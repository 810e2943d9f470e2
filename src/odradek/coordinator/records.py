"""Records of a coordinator's topic: Kafka's own schemas, so that its tools read our logs.

    key      type i16 · body          bodies of keys are version 0
    value    version i16 · body       none: a tombstone

Each kind of coordinator has a `RecordCodec` with its types: `group.group_records` and
`transaction.transaction_records`. Every version of a value is read. Keys of unknown types are
skipped while loading: the log may come from a broker that supports more. A shard takes any
`CoordinatorRecordCodec`: that of transactions makes records of the state itself
(`transaction.transaction_record_codec`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from odradek.model.errors import ProtocolError
from odradek.protocol.codec import decode, encode_bytes
from odradek.protocol.schema import declaration

TYPE_BYTES = 2


class CoordinatorRecord(NamedTuple):
    """A key and its value, of the types of their codec; the value of a tombstone is None."""

    key: Any
    value: Any


class CoordinatorRecordCodec(Protocol):
    """The codec of a shard's records."""

    def key_bytes(self, record: CoordinatorRecord) -> bytes:
        """The encoded key of a record."""
        ...

    def value_bytes(self, record: CoordinatorRecord) -> bytes | None:
        """The encoded value of a record; None for a tombstone."""
        ...

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
        """The record of a key and a value; None if its type is not known here.

        Raises `ProtocolError` if the bytes are not such a record or its version is unknown.
        """
        ...


class RecordCodec:
    """The records of one kind of coordinator, as declared messages.

    `keys`: the class of each type of keys. `values`: the class of the values of each class of keys.
    `written_version`: the version in which a value is written.
    """

    def __init__(
        self,
        keys: Mapping[int, type[Any]],
        values: Mapping[type[Any], type[Any]],
        written_version: Callable[[Any], int],
    ) -> None:
        self._keys = keys
        self._values = values
        self._written_version = written_version

    def key_bytes(self, record: CoordinatorRecord) -> bytes:
        """The encoded key of a record."""
        key = record.key
        return declaration(type(key)).api.to_bytes(TYPE_BYTES, "big") + encode_bytes(key, 0)

    def value_bytes(self, record: CoordinatorRecord) -> bytes | None:
        """The encoded value of a record; None for a tombstone."""
        value = record.value
        if value is None:
            return None
        version = self._written_version(value)
        return version.to_bytes(TYPE_BYTES, "big") + encode_bytes(value, version)

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
        """The record of a key and a value; None if its type is not known here.

        Raises `ProtocolError` if the bytes are not such a record or its version is unknown.
        """
        if key is None or len(key) < TYPE_BYTES:
            raise ProtocolError("a coordinator record without a key")
        kind = self._keys.get(int.from_bytes(key[:TYPE_BYTES], "big"))
        if kind is None:
            return None
        read = decode(kind, 0, key, TYPE_BYTES)
        if value is None:
            return CoordinatorRecord(read, None)
        cls = self._values[kind]
        version = int.from_bytes(value[:TYPE_BYTES], "big", signed=True)
        low, high = declaration(cls).versions
        if not low <= version <= high:
            raise ProtocolError(f"{cls.__name__} has versions {low} to {high}, not {version}")
        return CoordinatorRecord(read, decode(cls, version, value, TYPE_BYTES))
