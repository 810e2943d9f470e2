"""Frames: what goes over a connection, a length of 4 bytes and then that many bytes.

A frame is built as parts to send in order. Only the small ones are ever joined: record batches and
stretches of files stay what they are, their sizes are just counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from odradek.protocol.header import request_is_flexible
from odradek.protocol.writer import Part

_response_head = Struct(">ii").pack
_request_head = Struct(">ihhih").pack
FRAME_SIZE_MAX = 2**31 - 1


def response_parts(correlation_id: int, parts: Sequence[Part], flexible_header: bool) -> list[Part]:
    """A response body as a frame: length, header v1 if `flexible_header` (else v0), body."""
    size = 5 if flexible_header else 4
    for part in parts:
        size += len(part)
    head = _response_head(size, correlation_id)
    return framed(head + b"\0" if flexible_header else head, parts)


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
