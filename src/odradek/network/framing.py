"""Splits a stream of bytes into frames.

    frame := length (int32, big-endian, > 0, <= limit) · `length` bytes

States, between calls:

    at a boundary ──4 bytes of length, rest missing──► inside a frame ──last byte──► at a boundary
         │                                                  (pieces, missing)
         └── length <= 0 or > limit ──► FrameError; the rest of the stream cannot be read

Memory is bounded by the bytes that arrived, never by a stated length: the pieces of a frame are
kept as received, and joined once when the last one has arrived. Small pieces are collected in one
buffer, so that a peer that sends single bytes costs memory for its bytes and not for thousands of
Python objects.

A frame is a `bytes` object of its own, which does not keep the received data alive. The contents of
frames are not read.

A client receives large frames whole, as long as the system holds them (`whole_bytes`): after one it
receives the next lengths alone (`LENGTHS_ALONE`), then waits until the rest has arrived
(`low_water_mark`), and receives that at once. A frame of one piece is not copied.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be

from odradek.model.errors import ProtocolError

SMALL_PIECE_BYTES: Final = 1024
"""Pieces below this size are collected in a growing buffer."""

RECEIVE_BYTES: Final = 64 * 1024
"""The usual size of a receive. A larger buffer costs more to allocate than it saves, unless it
fills.
"""

RECEIVE_LARGE_BYTES: Final = 1024 * 1024
"""The largest receive of a piece: inside a large frame, while receives fill their buffers."""

LARGE_FRAME_BYTES: Final = 256 * 1024
"""A frame that lacks at least this many bytes is awaited, and received at once."""

RECEIVE_WHOLE_BYTES: Final = 16 * 1024 * 1024
"""Up to this size, a client receives frames whole."""

LENGTH_BYTES: Final = 4

LENGTHS_ALONE: Final = 4
"""How many lengths are received alone after a large frame. Between two large frames there are often
small ones, as between the micro-batches of a stream; joining the pieces of 8 MiB takes 2 to 4 ms.
"""

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
"""The first bytes of other protocols; as lengths they are far above any limit."""


class FrameError(ProtocolError):
    """An invalid length, after which the stream cannot be read."""


class Framing:
    """Splits one stream: `feed` received bytes, then call `next_frame` until it returns None."""

    __slots__ = (
        "_data",
        "_lengths_alone",
        "_missing",
        "_pieces",
        "_position",
        "limit",
        "low_water_mark",
        "pending",
        "receive_bytes",
        "whole_bytes",
    )

    def __init__(self, limit: int, whole_bytes: int = 0) -> None:
        self.whole_bytes = whole_bytes
        """Large frames up to this size are received whole."""
        self.limit = limit
        """The greatest allowed length in bytes; a change applies from the next length on."""
        self.receive_bytes = RECEIVE_BYTES
        """How many bytes to receive next."""
        self.low_water_mark = 1
        """How many bytes should have arrived before the next receive."""
        self.pending = False
        """True if `next_frame` has not read all bytes: there may be another whole frame."""
        self._data = b""
        self._position = 0
        self._pieces: list[bytes | bytearray | memoryview] | None = None
        """The pieces of an incomplete frame. Mostly None, which is cheap to check per frame."""
        self._missing = 0
        self._lengths_alone = 0
        """How many of the next lengths are received alone."""

    @property
    def held_bytes(self) -> int:
        """Bytes that arrived and were not returned in frames."""
        pieces = sum(len(piece) for piece in self._pieces or ())
        return pieces + len(self._data) - self._position

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
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
            self.low_water_mark = 1
            self._data = data
            self._position = missing
            self.pending = True

    def _keep(self, data: bytes, missing: int, full: bool) -> None:
        """Keep a piece of a frame of which `missing` bytes have not arrived.

        `full`: the last receive filled its buffer.
        """
        self._missing = missing
        pieces = self._pieces
        awaited = self.low_water_mark > 1
        if pieces is None:
            pieces = self._pieces = []
            awaited = missing <= self.whole_bytes
        self.low_water_mark = 1
        if awaited and missing >= LARGE_FRAME_BYTES:
            self.receive_bytes = self.low_water_mark = missing
        elif self._lengths_alone and missing < LARGE_FRAME_BYTES:
            self.receive_bytes = missing  # Nothing of the next frame.
        else:
            large = missing if missing < RECEIVE_LARGE_BYTES else RECEIVE_LARGE_BYTES
            self.receive_bytes = large if full and large > RECEIVE_BYTES else RECEIVE_BYTES
        if not data:
            return
        last = pieces[-1] if pieces else None
        if len(data) >= SMALL_PIECE_BYTES:
            pieces.append(data)
        elif isinstance(last, bytearray):
            last += data
        else:
            pieces.append(bytearray(data))

    def lower_whole_bytes(self, whole_bytes: int) -> None:
        """Receive larger frames in pieces, the present one too: the system does not hold them."""
        self.whole_bytes = whole_bytes
        self.receive_bytes = RECEIVE_BYTES
        self.low_water_mark = 1

    def next_frame(self) -> bytes | None:
        """Return the next whole frame without its length, None if there is none.

        Raises `FrameError`.
        """
        if self._pieces is not None:
            return self._join(self._pieces)
        data = self._data
        position = self._position
        start = position + LENGTH_BYTES
        have = len(data)
        if have < start:
            # Up to three bytes of a length: keep a copy instead of the whole receive buffer.
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
        """Return the frame in pieces, if all have arrived."""
        if self._missing:
            return None
        frame = b"".join(pieces)
        self._pieces = None
        if LARGE_FRAME_BYTES <= len(frame) <= self.whole_bytes:
            self._lengths_alone = LENGTHS_ALONE
        if self._lengths_alone:
            self._lengths_alone -= 1
            self.receive_bytes = LENGTH_BYTES
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
