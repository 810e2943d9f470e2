"""A stream of bytes cut into frames.

    frame := length (int32, big-endian, > 0, <= limit) · `length` bytes

States, between calls:

    at a boundary ──4 bytes of length, rest not here──► inside a frame ──last byte──► at a boundary
         │                                                  (pieces, missing)
         └── length <= 0 or > limit ──► FrameError; the stream cannot be followed any more

What is held is bounded by what arrived, never by what a length promises: the pieces of a frame are
kept as they came, and joined once when the last one is there. Pieces too small to be worth an
object of their own are gathered, so that a peer that sends single bytes costs memory for its bytes
and not for thousands of Python objects.

A frame is one `bytes` object of its own: handing it out never keeps the received data alive.

It does not look into frames, and does not know who sent them.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be

from odradek.model.errors import ProtocolError

SMALL_PIECE_BYTES: Final = 1024
"""Pieces below this are gathered in a growing buffer."""

RECEIVE_BYTES: Final = 64 * 1024
"""How much to ask a transport for. A larger buffer costs more to allocate than it saves, unless it
fills.
"""

RECEIVE_LARGE_BYTES: Final = 1024 * 1024
"""How much at most, inside a large frame, while each receive gives all it was asked for."""

OTHER_PROTOCOLS = (
    (b"\x16\x03", "a TLS handshake: is the client set to SSL or SASL_SSL?"),
    (b"GET ", "an HTTP request: this port speaks the Kafka protocol"),
    (b"POST", "an HTTP request: this port speaks the Kafka protocol"),
    (b"HEAD", "an HTTP request: this port speaks the Kafka protocol"),
    (b"PUT ", "an HTTP request: this port speaks the Kafka protocol"),
    (b"DELE", "an HTTP request: this port speaks the Kafka protocol"),
    (b"OPTI", "an HTTP request: this port speaks the Kafka protocol"),
    (b"CONN", "an HTTP proxy request: this port speaks the Kafka protocol"),
    (b"PRI ", "an HTTP/2 request: this port speaks the Kafka protocol"),
    (b"SSH-", "an SSH client: this port speaks the Kafka protocol"),
)
"""How other protocols begin; all of them are lengths far above any limit."""


class FrameError(ProtocolError):
    """A length that cannot be: nothing after it can be understood."""


class Framing:
    """The frames of one stream: `feed` what arrived, then take `next_frame` until it is None."""

    __slots__ = ("_data", "_missing", "_pieces", "_position", "limit", "pending", "receive_bytes")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        """The greatest length allowed, in bytes; applies from the next length on."""
        self.receive_bytes = RECEIVE_BYTES
        """How many bytes to receive next."""
        self.pending = False
        """Bytes arrived that `next_frame` has not looked at: there may be another whole frame."""
        self._data = b""
        self._position = 0
        self._pieces: list[bytes | bytearray | memoryview] | None = None
        """Of a frame that came in some; None at most times, which every frame looks at."""
        self._missing = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that arrived and were not handed out."""
        pieces = sum(len(piece) for piece in self._pieces or ())
        return pieces + len(self._data) - self._position

    def feed(self, data: bytes) -> None:
        """Take what arrived."""
        missing = self._missing
        if not missing:
            self._data = self._data[self._position :] + data if self._data else data
            self._position = 0
            self.pending = True
        elif len(data) < missing:
            self._keep(data, missing - len(data), len(data) >= RECEIVE_BYTES)
        else:
            # `next_frame` finds the whole frame in the pieces, and goes on after it in `_data`.
            pieces = self._pieces
            assert pieces is not None, "a frame that is missing bytes has pieces"
            pieces.append(data if len(data) == missing else memoryview(data)[:missing])
            self._missing = 0
            self.receive_bytes = RECEIVE_BYTES
            self._data = data
            self._position = missing
            self.pending = True

    def _keep(self, data: bytes, missing: int, full: bool) -> None:
        """Keep a piece of a frame of which so much is missing; `full`: the last receive gave all
        it was asked for.
        """
        self._missing = missing
        large = missing if missing < RECEIVE_LARGE_BYTES else RECEIVE_LARGE_BYTES
        self.receive_bytes = large if full and large > RECEIVE_BYTES else RECEIVE_BYTES
        pieces = self._pieces
        if pieces is None:
            pieces = self._pieces = []
        last = pieces[-1] if pieces else None
        if len(data) >= SMALL_PIECE_BYTES:
            pieces.append(data)
        elif isinstance(last, bytearray):
            last += data
        else:
            pieces.append(bytearray(data))

    def next_frame(self) -> bytes | None:
        """The next whole frame without its length; None until more arrives. Raises `FrameError`."""
        if self._pieces is not None:
            return self._join(self._pieces)
        data = self._data
        position = self._position
        start = position + 4
        have = len(data)
        if have < start:
            # Up to three bytes of a length: not worth keeping a whole receive buffer alive.
            self._data, self._position, self.pending = data[position:], 0, False
            return None
        length = int(read_i32_be(data, position))
        if length <= 0 or length > self.limit:
            raise self._refusal(length, data[position:start])
        end = start + length
        if end < have:
            self._position = end
            return data[start:end]
        self._data, self._position, self.pending = b"", 0, False
        if end == have:
            return data[start:]
        self._keep(data[start:], end - have, have >= RECEIVE_BYTES)
        return None

    def _join(self, pieces: list[bytes | bytearray | memoryview]) -> bytes | None:
        """The frame that came in pieces, if all are here."""
        if self._missing:
            return None
        frame = b"".join(pieces)
        self._pieces = None
        if self._position == len(self._data):
            self._data, self._position, self.pending = b"", 0, False
        return frame

    def _refusal(self, length: int, prefix: bytes) -> FrameError:
        for beginning, what in OTHER_PROTOCOLS:
            if prefix.startswith(beginning):
                return FrameError(f"not a Kafka request but {what}")
        if length <= 0:
            return FrameError(f"a frame of length {length}")
        return FrameError(f"a frame of length {length}, above the limit of {self.limit} bytes")
