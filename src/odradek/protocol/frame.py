"""Request and response frames: a length of 4 bytes, a header, a body.

    request v1    api_key i16 · api_version i16 · correlation_id i32 · client_id nullable string
    request v2    the same, then a tag section
    response v0   correlation_id i32
    response v1   the same, then a tag section

A flexible version of an API (KIP-482) has the headers with a tag section, any other version those
without. There are two exceptions. `client_id` is never compact, so that every broker can read it in
every version. The response to ApiVersions always has header v0, because a client that asks for the
versions cannot know yet which header to expect (KIP-511). Request header v0 was used only by
ControlledShutdown v0 and is not supported.

A frame to send is a list of parts. Only small parts are joined: record batches and byte ranges of
files stay separate parts, and only their sizes are counted.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i16_be, write_i32_be
from mypy_extensions import i16, i32, i64

from odradek.model.errors import ProtocolError
from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.generated_writer import Part
from odradek.protocol.primitives import REQUEST_OBJECTS_MAX, skip_tags

API_VERSIONS: Final = 18
NEVER: Final = 32767
FIXED_SIZE: Final = 10
KNOWN_CLIENTS_MAX: Final = 1024

_first_flexible: Final[dict[int, int]] = {}
"""By key, for the APIs that have been asked for."""
_known_clients: Final[dict[bytes, str]] = {}


class RequestHeader:
    """The header of a request. `client_id` is None if the client sent none."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(
        self, api_key: int, api_version: int, correlation_id: int, client_id: str | None
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def __repr__(self) -> str:
        return (
            f"RequestHeader(api_key={self.api_key}, api_version={self.api_version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r})"
        )


def request_is_flexible(api_key: int, version: int) -> bool:
    """True if this version's request header has a tag section. False for unknown APIs."""
    return version >= first_flexible(api_key)


def response_is_flexible(api_key: int, version: int) -> bool:
    """True if this version's response header has a tag section."""
    return api_key != API_VERSIONS and version >= first_flexible(api_key)


def first_flexible(api_key: int) -> int:
    """The first version with tag sections, `NEVER` if there is none."""
    found = _first_flexible.get(api_key)
    if found is None:
        api = MESSAGES.get(api_key)
        if api is None:
            return NEVER
        found = NEVER if api.flexible is None else api.flexible
        _first_flexible[api_key] = found
    return found


def decode_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """Return the header of a request frame without its length, and where the body begins.

    The header of an unknown API is read as a non-flexible one, so that the caller can name the API
    when it closes the connection. Raises `ProtocolError`.
    """
    end: i64 = len(frame)
    if end < FIXED_SIZE:
        raise ProtocolError(f"a request of {end} bytes has no header")
    api_key = read_i16_be(frame, 0)
    version = read_i16_be(frame, 2)
    correlation_id = read_i32_be(frame, 4)
    size: i64 = i64(read_i16_be(frame, 8))
    pos: i64 = FIXED_SIZE
    client_id: str | None = None
    if size >= 0:
        if size > end - pos:
            raise ProtocolError(f"client_id has {size} bytes, {end - pos} are left")
        client_id = decode_client_id(frame[pos : pos + size])
        pos += size
    elif size != -1:
        raise ProtocolError(f"client_id has {size} bytes")
    if request_is_flexible(api_key, version):
        pos, _ = skip_tags(frame, pos, REQUEST_OBJECTS_MAX)
    return RequestHeader(api_key, version, correlation_id, client_id), pos


def decode_client_id(raw: bytes) -> str:
    """Return the text of a client id. Recent ones are cached: few different ones are in use."""
    known = _known_clients.get(raw)
    if known is None:
        try:
            known = raw.decode()
        except UnicodeDecodeError:
            raise ProtocolError("client_id is not UTF-8") from None
        if len(_known_clients) >= KNOWN_CLIENTS_MAX:
            _known_clients.clear()
        _known_clients[raw] = known
    return known


def decode_response_header(frame: bytes, flexible: bool) -> tuple[int, int]:
    """Return the correlation id of a response frame, and where the body begins.

    Raises `ProtocolError`.
    """
    if len(frame) < 4:
        raise ProtocolError(f"a response of {len(frame)} bytes has no header")
    pos = 4
    if flexible:
        pos, _ = skip_tags(frame, pos, REQUEST_OBJECTS_MAX)
    return read_i32_be(frame, 0), pos


FRAME_SIZE_MAX: Final = 2**31 - 1


def response_parts(
    correlation_id: int, parts: list[Part], flexible_header: bool, size: int = -1
) -> list[Part]:
    """Return a response as a frame: length, header v1 if `flexible_header` (else v0), body.

    `parts` is changed and returned. `size` is that of the parts, if the caller knows it.
    """
    head = BytesWriter()
    if size < 0:
        size = size_of(parts)
    write_i32_be(head, i32((5 if flexible_header else 4) + size))
    write_i32_be(head, i32(correlation_id))
    if flexible_header:
        head.append(0)
    return with_head(head, parts)


def request_parts(
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    parts: list[Part],
) -> list[Part]:
    """Return a request as a frame: length, the header of this version of the API, body.

    `parts` is changed and returned.
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
    return with_head(head, parts)


def size_of(parts: list[Part]) -> int:
    """Return the total size of the parts in bytes."""
    size = 0
    for part in parts:
        size += len(part)
    return size


def with_head(head: BytesWriter, parts: list[Part]) -> list[Part]:
    """Put the head before the body, joined with its first part if that is plain bytes."""
    first = parts[0] if parts else None
    if isinstance(first, bytes):
        head.write(first)
        parts[0] = head.getvalue()
    else:
        parts.insert(0, head.getvalue())
    return parts
