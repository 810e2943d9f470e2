"""Entry points to read and write any version of any declared message.

The reader and the writer of a version are generated at first use (in about a millisecond) and kept.
A broker's dispatch looks them up once per (api, version) and calls them directly; other code uses
`decode` and `encode`.

The messages of Produce, Fetch and Heartbeat also have readers and writers written by hand
(`hot_codec`). Compiled, they are faster than the generated ones and are used instead of them; they
call the generated ones for rare cases.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from types import FunctionType
from typing import Any, TypeVar, cast

from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.generated_reader import compile_reader
from odradek.protocol.generated_writer import Part, compile_writer, joined
from odradek.protocol.hot_codec import HotReader, HotWriter
from odradek.protocol.hot_fetch import (
    FetchRequestReader,
    FetchRequestWriter,
    FetchResponseReader,
    FetchResponseWriter,
)
from odradek.protocol.hot_heartbeat import (
    HeartbeatRequestReader,
    HeartbeatRequestWriter,
    HeartbeatResponseReader,
    HeartbeatResponseWriter,
)
from odradek.protocol.hot_produce import (
    ProduceRequestReader,
    ProduceRequestWriter,
    ProduceResponseReader,
    ProduceResponseWriter,
)
from odradek.protocol.schema import declaration, is_open_ended

T = TypeVar("T")
Reader = Callable[[bytes, int], T]
Writer = Callable[[T], list[Part]]

HAND_WRITTEN_ARE_COMPILED = not isinstance(HotReader.read, FunctionType)
"""True if the hand-written readers and writers run compiled."""

HOT_READERS: dict[type[Any], Callable[[type[Any], int, Reader[Any], bool], HotReader]] = {
    ProduceRequest: ProduceRequestReader,
    ProduceResponse: ProduceResponseReader,
    FetchRequest: FetchRequestReader,
    FetchResponse: FetchResponseReader,
    HeartbeatRequest: HeartbeatRequestReader,
    HeartbeatResponse: HeartbeatResponseReader,
}
HOT_WRITERS: dict[type[Any], Callable[[type[Any], int, Writer[Any]], HotWriter]] = {
    ProduceRequest: ProduceRequestWriter,
    ProduceResponse: ProduceResponseWriter,
    FetchRequest: FetchRequestWriter,
    FetchResponse: FetchResponseWriter,
    HeartbeatRequest: HeartbeatRequestWriter,
    HeartbeatResponse: HeartbeatResponseWriter,
}

SlicedReader = Callable[[bytes, int], Generator[None, None, T]]
SlicedWriter = Callable[[T], Generator[None, None, list[Part]]]

_sliced_readers: dict[tuple[type[Any], int], SlicedReader[Any]] = {}
_sliced_writers: dict[tuple[type[Any], int], SlicedWriter[Any]] = {}
_readers: dict[tuple[type[Any], int], Reader[Any]] = {}
_open_ended_readers: dict[tuple[type[Any], int], Reader[Any]] = {}
_writers: dict[tuple[type[Any], int], Writer[Any]] = {}


def reader(cls: type[T], version: int) -> Reader[T]:
    """Return `read(frame, pos) -> message`. A response must end where the frame ends.

    Raises `ValueError` for a version that the message does not have. The returned function raises
    only `ProtocolError`.
    """
    found = _readers.get((cls, version))
    if found is None:
        check_version(cls, version)
        found = _readers[cls, version] = make_reader(cls, version, is_open_ended(cls))
    return cast("Reader[T]", found)


def open_ended_reader(cls: type[T], version: int) -> Reader[T]:
    """Like `reader`, but bytes after the message are skipped.

    Kafka's clients do so with responses: librdkafka's mock cluster sends a byte too many after its
    Metadata response.
    """
    found = _open_ended_readers.get((cls, version))
    if found is None:
        check_version(cls, version)
        found = _open_ended_readers[cls, version] = make_reader(cls, version, True)
    return cast("Reader[T]", found)


def writer(cls: type[T], version: int) -> Writer[T]:
    """Return `write(message) -> parts`. Raises `ValueError` for a version that does not exist.

    The returned function raises `UnsupportedVersionError` for a value that the version cannot
    carry.
    """
    found = _writers.get((cls, version))
    if found is None:
        check_version(cls, version)
        found = _writers[cls, version] = make_writer(cls, version)
    return cast("Writer[T]", found)


def sliced_reader(cls: type[T], version: int) -> SlicedReader[T]:
    """Return a generator function that reads like `reader`, and yields after a slice."""
    found = _sliced_readers.get((cls, version))
    if found is None:
        check_version(cls, version)
        made: Any = compile_reader(cls, version, is_open_ended(cls), sliced=True)[0]
        found = _sliced_readers[cls, version] = made
    return cast("SlicedReader[T]", found)


def sliced_writer(cls: type[T], version: int) -> SlicedWriter[T]:
    """Return a generator function that writes like `writer`, and yields after a slice."""
    found = _sliced_writers.get((cls, version))
    if found is None:
        check_version(cls, version)
        made: Any = compile_writer(cls, version, sliced=True)[0]
        found = _sliced_writers[cls, version] = made
    return cast("SlicedWriter[T]", found)


def make_reader(cls: type[Any], version: int, open_ended: bool) -> Reader[Any]:
    """Return the fastest reader for this version."""
    made = compile_reader(cls, version, open_ended)[0]
    by_hand = HOT_READERS.get(cls) if HAND_WRITTEN_ARE_COMPILED else None
    return made if by_hand is None else by_hand(cls, version, made, open_ended).read


def make_writer(cls: type[Any], version: int) -> Writer[Any]:
    """Return the fastest writer for this version."""
    made = compile_writer(cls, version)[0]
    by_hand = HOT_WRITERS.get(cls) if HAND_WRITTEN_ARE_COMPILED else None
    return made if by_hand is None else by_hand(cls, version, made).write


def decode(cls: type[T], version: int, frame: bytes, pos: int = 0) -> T:
    """Return the message that begins at `pos`. Raises `ProtocolError`."""
    return reader(cls, version)(frame, pos)


def encode(message: object, version: int) -> list[Part]:
    """Return the message as parts to send in order. Raises `UnsupportedVersionError`."""
    return writer(type(message), version)(message)


def encode_bytes(message: object, version: int) -> bytes:
    """Return the message as one `bytes`, for messages without byte ranges of files."""
    return joined(encode(message, version))


def source(cls: type[Any], version: int) -> str:
    """Return the Python source of the reader and the writer of a version, for inspection."""
    check_version(cls, version)
    return compile_reader(cls, version)[1] + "\n\n" + compile_writer(cls, version)[1]


def check_version(cls: type[Any], version: int) -> None:
    """Raise `ValueError` unless the message has this version."""
    low, high = declaration(cls).versions
    if not low <= version <= high:
        raise ValueError(f"{cls.__name__} has versions {low} to {high}, not {version}")
