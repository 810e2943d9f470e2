"""Frames: what goes over a connection, a length of 4 bytes and then that many bytes.

A frame is built as parts to send in order. Only the small ones are ever joined: record batches and
stretches of files stay what they are, their sizes are just counted.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i16_be, write_i32_be
from mypy_extensions import i16, i32

from odradek.protocol.header import request_is_flexible
from odradek.protocol.writer import Part

FRAME_SIZE_MAX: Final = 2**31 - 1


def response_parts(correlation_id: int, parts: list[Part], flexible_header: bool) -> list[Part]:
    """A response body as a frame: length, header v1 if `flexible_header` (else v0), body.

    The list of parts becomes that of the frame.
    """
    head = BytesWriter()
    write_i32_be(head, i32((5 if flexible_header else 4) + size_of(parts)))
    write_i32_be(head, i32(correlation_id))
    if flexible_header:
        head.append(0)
    return framed(head, parts)


def request_parts(
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    parts: list[Part],
) -> list[Part]:
    """A request body as a frame: length, the header this version of the API has, body.

    The list of parts becomes that of the frame.
    """
    name = b"" if client_id is None else client_id.encode()
    flexible = request_is_flexible(api_key, api_version)
    head = BytesWriter()
    write_i32_be(head, i32((11 if flexible else 10) + len(name) + size_of(parts)))
    write_i16_be(head, i16(api_key))
    write_i16_be(head, i16(api_version))
    write_i32_be(head, i32(correlation_id))
    write_i16_be(head, i16(-1 if client_id is None else len(name)))
    head.write(name)
    if flexible:
        head.append(0)
    return framed(head, parts)


def size_of(parts: list[Part]) -> int:
    """How many bytes the parts have together."""
    size = 0
    for part in parts:
        size += len(part)
    return size


def framed(head: BytesWriter, parts: list[Part]) -> list[Part]:
    """The head before the body, joined with its first part when that is plain bytes."""
    first = parts[0] if parts else None
    if isinstance(first, bytes):
        head.write(first)
        parts[0] = head.getvalue()
    else:
        parts.insert(0, head.getvalue())
    return parts
