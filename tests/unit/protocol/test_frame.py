"""Headers of every version and their frames, byte by byte."""

from __future__ import annotations

import pytest

from odradek.model.errors import ProtocolError
from odradek.protocol.api.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from odradek.protocol.codec import encode
from odradek.protocol.frame import (
    decode_request_header,
    decode_response_header,
    request_is_flexible,
    request_parts,
    response_is_flexible,
    response_parts,
)
from odradek.protocol.generated_writer import joined

ANSWER = ApiVersionsResponse(
    error_code=0, api_keys=[ApiVersion(api_key=18, min_version=0, max_version=5)]
)


def fields(frame: bytes) -> tuple[int, int, int, str | None, int]:
    header, pos = decode_request_header(frame)
    return header.api_key, header.api_version, header.correlation_id, header.client_id, pos


def test_api_versions_v0_has_the_golden_bytes() -> None:
    request = joined(request_parts(18, 0, 7, "me", encode(ApiVersionsRequest(), 0)))
    assert request.hex(" ") == "00 00 00 0c 00 12 00 00 00 00 00 07 00 02 6d 65"
    answer = joined(response_parts(7, encode(ANSWER, 0), response_is_flexible(18, 0)))
    assert answer.hex(" ") == ("00 00 00 10 00 00 00 07 00 00 00 00 00 01 00 12 00 00 00 05")


def test_api_versions_v3_has_a_flexible_body_behind_response_header_v0() -> None:
    message = ApiVersionsRequest(client_software_name="me", client_software_version="1")
    request = joined(request_parts(18, 3, 7, "me", encode(message, 3)))
    assert request.hex(" ") == (
        "00 00 00 13 00 12 00 03 00 00 00 07 00 02 6d 65 00 03 6d 65 02 31 00"
    )
    answer = joined(response_parts(7, encode(ANSWER, 3), response_is_flexible(18, 3)))
    assert answer.hex(" ") == (
        "00 00 00 13 00 00 00 07"  # length and correlation id: no tag section follows
        " 00 00 02 00 12 00 00 00 05 00 00 00 00 00 00"
    )


@pytest.mark.parametrize(
    ("api_key", "version", "request_header", "response_header"),
    [(0, 8, 1, 0), (0, 9, 2, 1), (18, 2, 1, 0), (18, 3, 2, 0), (18, 99, 2, 0), (999, 5, 1, 0)],
)
def test_flexible_versions_have_flexible_headers(
    api_key: int, version: int, request_header: int, response_header: int
) -> None:
    assert request_is_flexible(api_key, version) == (request_header == 2)
    assert response_is_flexible(api_key, version) == (response_header == 1)


@pytest.mark.parametrize("client_id", [None, "", "rdkafka", "Ödradek"])
@pytest.mark.parametrize("version", [8, 9])
def test_request_headers_are_read_as_written(client_id: str | None, version: int) -> None:
    frame = joined(request_parts(0, version, -5, client_id, [b"body"]))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    *header, pos = fields(frame[4:])
    assert header == [0, version, -5, client_id]
    assert frame[4 + pos :] == b"body"


def test_unknown_tags_of_a_request_header_are_skipped() -> None:
    frame = bytes.fromhex("0000 0009 00000001 ffff 01 07 02 abcd") + b"body"
    *_, pos = fields(frame)
    assert frame[pos:] == b"body"


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "0000",
        "0000 0003 00000001 0005 61",
        "0000 0003 00000001 fffe",
        "0000 0003 00000001 0001 ff",
    ],
    ids=["empty", "short", "client id cut", "length -2", "no UTF-8"],
)
def test_an_invalid_request_header_is_a_protocol_error(frame: str) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(bytes.fromhex(frame))


def test_every_truncation_of_a_request_header_is_a_protocol_error() -> None:
    frame = bytes.fromhex("0000 0009 00000001 0002 6d65 01 07 02 abcd")
    decode_request_header(frame)
    for end in range(len(frame)):
        with pytest.raises(ProtocolError):
            decode_request_header(frame[:end])


def test_a_response_header_has_a_tag_section_only_if_flexible() -> None:
    frame = joined(response_parts(-2, [b"body"], flexible_header=True))
    assert decode_response_header(frame[4:], flexible=True) == (-2, 5)
    frame = joined(response_parts(-2, [b"body"], flexible_header=False))
    assert decode_response_header(frame[4:], flexible=False) == (-2, 4)
    with pytest.raises(ProtocolError):
        decode_response_header(b"\0\0\0", flexible=False)
    with pytest.raises(ProtocolError):
        decode_response_header(b"\0\0\0\1", flexible=True)


def test_parts_that_are_not_bytes_are_counted_and_not_copied() -> None:
    piece = memoryview(b"x" * 10)
    head, passed, tail = response_parts(1, [piece, b"tail"], flexible_header=False)
    assert passed is piece
    assert (head, tail) == (b"\x00\x00\x00\x12\x00\x00\x00\x01", b"tail")
    assert response_parts(1, [], flexible_header=False) == [b"\x00\x00\x00\x04\x00\x00\x00\x01"]
