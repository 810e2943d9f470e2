"""Records that every client sends and must read back unchanged."""

from __future__ import annotations

from typing import NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
T0 = 1_700_000_000_000


class Sent(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int


RECORDS = [
    Sent(b"key", b"value", [], T0),
    Sent(None, b"no key", [], T0 + 1),
    Sent(b"tombstone", None, [], T0 + 2),
    Sent(b"", b"", [], T0 + 3),
    Sent(b"headers", b"x", [("a", b"1"), ("a", b"2"), ("empty", b"")], T0 + 4),
    Sent(b"null header", b"x", [("none", None)], T0 + 5),
    Sent(b"\x00\xff", bytes(range(256)), [("\u00fc", b"\xff")], T0 + 6),
]
"""Null and empty keys and values, repeated, empty and null headers, bytes that are not text."""

MEBIBYTE = bytes(range(256)) * 4096
