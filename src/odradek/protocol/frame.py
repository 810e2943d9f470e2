"""Frames: what goes over a connection, a length of 4 bytes and then that many bytes.

A frame is built as parts to send in order. Only the small ones are ever joined: record batches and
stretches of files stay what they are, their sizes are just counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32

from odradek.protocol.header import request_is_flexible
from odradek.protocol.writer import Part

_request_head: Final[Callable[..., bytes]] = Struct(">ihhih").pack
FRAME_SIZE_MAX: Final = 2**31 - 1


def response_parts(correlation_id: int, parts: list[Part], flexible_header: bool) -> list[Part]:
    """A response body as a frame: length, header v1 if `flexible_header` (else v0), body.

    The list of parts becomes that of the frame.
    """
    size = 5 if flexible_header else 4
    for part in parts:
        size += len(part)
    head = BytesWriter()
    write_i32_be(head, i32(size))
    write_i32_be(head, i32(correlation_id))
    if flexible_header:
        head.append(0)
    first = parts[0] if parts else None
    if isinstance(first, bytes):
        head.write(first)
        parts[0] = head.getvalue()
    else:
        parts.insert(0, head.getvalue())
    return parts


def request_parts(
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    parts: Sequence[Part],
) -> list[Part]:
    """A request body as a frame: length, the header this version of the API has, body."""
    name = b"" if client_id is None else client_id.encode()
    tail = b"\0" if request_is_flexible(api_key, api_version) else b""
    size = 10 + len(name) + len(tail)
    for part in parts:
        size += len(part)
    named = -1 if client_id is None else len(name)
    head = _request_head(size, api_key, api_version, correlation_id, named)
    return framed(head + name + tail, parts)


def framed(head: bytes, parts: Sequence[Part]) -> list[Part]:
    """The head before the body, joined with its first part when that is plain bytes."""
    if not parts:
        return [head]
    first = parts[0]
    if isinstance(first, bytes):
        return [head + first, *parts[1:]]
    return [head, *parts]
