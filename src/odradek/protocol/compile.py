"""The entry points: read and write any version of any declared message.

The reader and the writer of a version are made when they are first asked for (below a millisecond)
and kept. A broker's dispatch asks once per (api, version) and calls them directly; everybody else
uses `decode` and `encode`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from odradek.protocol.reader import compile_reader
from odradek.protocol.schema import declaration
from odradek.protocol.writer import Part, compile_writer, joined

T = TypeVar("T")
Reader = Callable[[bytes, int], T]
Writer = Callable[[T], list[Part]]

_readers: dict[tuple[type[Any], int], Reader[Any]] = {}
_writers: dict[tuple[type[Any], int], Writer[Any]] = {}


def reader(cls: type[T], version: int) -> Reader[T]:
    """`read(frame, pos) -> message`: the message must end where the frame ends.

    Raises `ValueError` for a version the message does not have. The function itself raises
    `ProtocolError` and nothing else.
    """
    found = _readers.get((cls, version))
    if found is None:
        check_version(cls, version)
        found = _readers[cls, version] = compile_reader(cls, version)[0]
    return cast("Reader[T]", found)


def writer(cls: type[T], version: int) -> Writer[T]:
    """`write(message) -> parts`. Raises `ValueError` for a version the message does not have.

    The function raises `UnsupportedVersionError` for a value that the version cannot carry.
    """
    found = _writers.get((cls, version))
    if found is None:
        check_version(cls, version)
        found = _writers[cls, version] = compile_writer(cls, version)[0]
    return cast("Writer[T]", found)


def decode(cls: type[T], version: int, frame: bytes, pos: int = 0) -> T:
    """The message from `pos` to the end of the frame. Raises `ProtocolError`."""
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
