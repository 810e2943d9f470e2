"""The entry points: read and write any version of any declared message.

The reader and the writer of a version are made when they are first asked for (in about a
millisecond) and kept. A broker's dispatch asks once per (api, version) and calls them directly;
everybody else uses `decode` and `encode`.

For the messages a broker handles most there are readers and writers by hand, faster than the made
ones where they run compiled: they are taken then, with the made ones behind them for what is rare.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

from odradek.protocol.api.fetch import FetchRequest, FetchResponse
from odradek.protocol.api.produce import ProduceRequest, ProduceResponse
from odradek.protocol.hot_requests import FetchRequestReader, ProduceRequestReader
from odradek.protocol.hot_responses import FetchResponseWriter, ProduceResponseWriter
from odradek.protocol.reader import compile_reader
from odradek.protocol.schema import declaration
from odradek.protocol.writer import Part, compile_writer, joined

T = TypeVar("T")
Reader = Callable[[bytes, int], T]
Writer = Callable[[T], list[Part]]

NATIVE = not isinstance(ProduceRequestReader.read, FunctionType)
"""Whether the readers and writers by hand run compiled."""

_readers: dict[tuple[type[Any], int], Reader[Any]] = {}
_open_ended_readers: dict[tuple[type[Any], int], Reader[Any]] = {}
_writers: dict[tuple[type[Any], int], Writer[Any]] = {}


def reader(cls: type[T], version: int) -> Reader[T]:
    """`read(frame, pos) -> message`. A response must end where the frame ends.

    Raises `ValueError` for a version the message does not have. The function itself raises
    `ProtocolError` and nothing else.
    """
    found = _readers.get((cls, version))
    if found is None:
        check_version(cls, version)
        found = _readers[cls, version] = make_reader(cls, version)
    return cast("Reader[T]", found)


def open_ended_reader(cls: type[T], version: int) -> Reader[T]:
    """The same, but what follows the message is passed over, as Kafka's clients do it with what
    brokers answer: librdkafka's mock cluster says a byte too much of its metadata.
    """
    found = _open_ended_readers.get((cls, version))
    if found is None:
        check_version(cls, version)
        found = _open_ended_readers[cls, version] = compile_reader(cls, version, True)[0]
    return cast("Reader[T]", found)


def writer(cls: type[T], version: int) -> Writer[T]:
    """`write(message) -> parts`. Raises `ValueError` for a version the message does not have.

    The function raises `UnsupportedVersionError` for a value that the version cannot carry.
    """
    found = _writers.get((cls, version))
    if found is None:
        check_version(cls, version)
        found = _writers[cls, version] = make_writer(cls, version)
    return cast("Writer[T]", found)


def make_reader(cls: type[Any], version: int) -> Reader[Any]:
    """The fastest reader there is."""
    made = compile_reader(cls, version)[0]
    if NATIVE and cls is ProduceRequest:
        return ProduceRequestReader(version).read
    if NATIVE and cls is FetchRequest:
        return FetchRequestReader(version, made).read
    return made


def make_writer(cls: type[Any], version: int) -> Writer[Any]:
    """The fastest writer there is."""
    made = compile_writer(cls, version)[0]
    if NATIVE and cls is ProduceResponse:
        return ProduceResponseWriter(version, made).write
    if NATIVE and cls is FetchResponse:
        return FetchResponseWriter(version, made).write
    return made


def decode(cls: type[T], version: int, frame: bytes, pos: int = 0) -> T:
    """The message from `pos` on. Raises `ProtocolError`."""
    return reader(cls, version)(frame, pos)


def encode(message: object, version: int) -> list[Part]:
    """The message as parts to send in order. Raises `UnsupportedVersionError`."""
    return writer(type(message), version)(message)


def encode_bytes(message: object, version: int) -> bytes:
    """The message in one piece, for messages without stretches of files."""
    return joined(encode(message, version))


def source(cls: type[Any], version: int) -> str:
    """The Python source of the reader and the writer of a version, to look at."""
    check_version(cls, version)
    return compile_reader(cls, version)[1] + "\n\n" + compile_writer(cls, version)[1]


def check_version(cls: type[Any], version: int) -> None:
    """Raises `ValueError` unless the message has this version."""
    low, high = declaration(cls).versions
    if not low <= version <= high:
        raise ValueError(f"{cls.__name__} has versions {low} to {high}, not {version}")
