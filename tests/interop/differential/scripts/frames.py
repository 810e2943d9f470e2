"""Invalid requests: the broker answers, closes the connection, or stays silent."""

from __future__ import annotations

import struct

from interop.differential.batches import good
from interop.differential.peer import CLOSED, NO_ANSWER, SILENCE, Peer
from interop.differential.scripts.produce import producing
from interop.differential.scripts.reading import fetching
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic
from odradek.protocol.codec import encode_bytes
from odradek.protocol.frame import request_parts
from odradek.protocol.generated_writer import joined

HIGHEST = {0: 13, 1: 18, 2: 10, 3: 13, 18: 4, 19: 7, 20: 6, 21: 2, 22: 5, 23: 4, 32: 4, 33: 2}
HIGHEST |= {35: 4, 37: 3, 44: 1, 60: 1, 61: 0, 75: 0}
FLEXIBLE_PRODUCE, FLEXIBLE_METADATA = 9, 9


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def head(key: int, version: int, client: bytes | None = b"script") -> bytes:
    size = -1 if client is None else len(client)
    return struct.pack(">hhih", key, version, 7, size) + (client or b"")


def frames(peer: Peer) -> None:
    """Sizes, headers, keys and versions."""
    for label, data in (
        ("size -1", struct.pack(">i", -1)),
        ("size -2^31", struct.pack(">i", -(2**31))),
        ("size 0", struct.pack(">i", 0)),
        ("size 2^31 - 1", struct.pack(">i", 2**31 - 1)),
        ("size of the limit + 1", struct.pack(">i", 104857601)),
    ):
        peer.raw(label, data)
    for size in range(1, 12):
        peer.raw(f"{size} bytes of a header", framed(head(3, 1, None)[:size].ljust(size, b"\0")))
    for label, data in (
        ("a part of the size", b"\0\0"),
        ("a part of a frame", framed(b"abcdefgh")[:7]),
        ("nothing at all", b""),
    ):
        peer.raw(label, data, half_close=True)
    for label, data in (
        ("client id null", framed(head(18, 0, None))),
        ("client id empty", framed(head(18, 0, b""))),
        ("client id longer than the frame", framed(struct.pack(">hhih", 18, 0, 7, 999))),
        ("client id of size -2", framed(struct.pack(">hhih", 18, 0, 7, -2))),
        ("client id not UTF-8", framed(head(18, 0, b"\xff\xfe"))),
        ("http", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500)),
    ):
        note_answered(peer, label, data)
    keys_and_versions(peer)


def note_answered(peer: Peer, label: str, data: bytes) -> None:
    """Send a frame that may be answered; another script compares the answer."""
    peer.raw(label, data)
    if peer.steps[label] not in (CLOSED, SILENCE, NO_ANSWER):
        peer.steps[label] = "answered"


def keys_and_versions(peer: Peer) -> None:
    """Unknown keys and versions."""
    for key in (-1, 4, 5, 6, 7, 999, 32767):
        for version in (0, 1):
            peer.raw(f"key {key} version {version}", framed(head(key, version)))
    for key, highest in HIGHEST.items():
        if key != 18:
            for version in (-1, highest + 2, 32767):
                peer.raw(f"key {key} version {version}", framed(head(key, version) + b"\0"))
    for key in (0, 1, 2, 19, 20, 23, 32, 35):
        peer.raw(f"key {key} version 0", framed(head(key, 0)))
    for version in (-1, 6, 99, 32767):
        label = f"key 18 version {version}"
        peer.raw(label, framed(head(18, version) + b"\0\1\1\0"))
        if peer.steps[label].startswith("0023"):
            peer.steps[label] = "UNSUPPORTED_VERSION " + peer.steps[label][4:24]


def bodies(peer: Peer) -> None:
    """Valid requests, truncated at every byte, and with additional bytes."""
    topic_id = peer.new_topic("bodies")
    asked = MetadataRequest(
        topics=[MetadataRequestTopic(name="bodies")], allow_auto_topic_creation=False
    )
    requests = [
        (3, 8, asked),
        (3, FLEXIBLE_METADATA, asked),
        (0, 8, producing("bodies", ZERO_UUID, [(0, good(1))])),
        (0, FLEXIBLE_PRODUCE, producing("bodies", ZERO_UUID, [(0, good(1))])),
        (1, 11, fetching("bodies", ZERO_UUID, [(0, 10**6)])),
        (1, 13, fetching("bodies", topic_id, [(0, 10**6)])),
    ]
    for key, version, request in requests:
        whole = joined(request_parts(key, version, 7, "script", [encode_bytes(request, version)]))[
            4:
        ]
        for cut in range(16, len(whole), 1 if len(whole) < 80 else 5):
            peer.raw(f"key {key} v{version} cut to {cut}", framed(whole[:cut]))
        for extra in (b"\0", b"\1\2\3"):
            note_answered(peer, f"key {key} v{version} and {extra.hex()}", framed(whole + extra))
        lengths(peer, key, version, whole)


def lengths(peer: Peer, key: int, version: int, whole: bytes) -> None:
    """Bodies with one byte changed at a time, so that lengths are invalid."""
    for position in range(16, min(len(whole), 60), 3):
        for value in (0x7F, 0xFF):
            changed = whole[:position] + bytes([value]) + whole[position + 1 :]
            label = f"key {key} v{version} byte {position} is {value:#x}"
            note_answered(peer, label, framed(changed))
