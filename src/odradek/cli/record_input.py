"""Records out of text by a template: what `produce -f` reads.

`%k %v\\n` takes the key up to the first blank, then the value up to the end of the line. Verbs are
those of `record_format`; two of them need something between, to tell where one ends. The text is
read as it comes: a record of a pipe does not wait for the next, and no more than one is held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from odradek.cli.record_format import (
    LARGEST_PARTITION,
    LARGEST_TIMESTAMP,
    BadTemplate,
    Shown,
    pieces,
    within,
)

MAX_RECORD_BYTES = 64 * 1024 * 1024
READABLE = {"k", "v", "s", "p", "h", "T", "d"}


def record_end(template: str) -> tuple[list[tuple[str, bytes]], bytes]:
    """The verbs of an input template, each with the bytes that end it, and what stands before the
    first.
    """
    before = b""
    steps: list[tuple[str, bytes]] = []
    for piece in pieces(template):
        if not isinstance(piece, bytes):
            if piece["verb"] not in READABLE or piece["how"] is not None:
                raise BadTemplate(f"{piece[0]} cannot be read; %k %v %p %h %T can")
            if steps and not steps[-1][1]:
                raise BadTemplate(f"{template!r}: nothing tells where %{steps[-1][0]} ends")
            steps.append((piece["verb"], b""))
        elif steps:
            steps[-1] = (steps[-1][0], steps[-1][1] + piece)
        else:
            before += piece
    if not steps:
        raise BadTemplate(f"{template!r} has no verb: write at least %v")
    return steps, before


def reads(verb: str, template: str) -> bool:
    """Whether an input template has that verb."""
    return any(each == verb for each, _ in record_end(template)[0])


def read_records(template: str, stream: IO[bytes]) -> Iterator[Shown]:
    """The records in a stream of text. `ValueError` if it ends within one, or a number is none."""
    steps, before = record_end(template)
    source = Source(stream)
    while not source.at_end():
        source.skip(before)
        record = Shown()
        for index, (verb, end) in enumerate(steps):
            data = source.until(end)
            if source.cut_short and index + 1 < len(steps):
                raise ValueError(f"the text ends within a record, in %{verb}")
            assign(record, verb, data)
        yield record


def assign(record: Shown, verb: str, data: bytes) -> None:
    if verb == "k":
        record.key = data
    elif verb in "vs":
        record.value = data
    elif verb == "h":
        pairs = (pair.partition(b"=") for pair in data.split(b",") if pair)
        record.headers = [(key.decode(), value) for key, _, value in pairs]
    else:
        try:
            number = int(data)
        except ValueError:
            raise ValueError(f"%{verb}: {data[:40]!r} is not a number") from None
        if verb == "p":
            record.partition = within("%p", number, LARGEST_PARTITION)
        else:
            record.timestamp_ms = within(f"%{verb}", number, LARGEST_TIMESTAMP)


class Source:
    """Bytes of a stream up to a mark; no more than a record is held."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.held = bytearray()
        self.ended = False
        self.cut_short = False
        """Whether the end of the stream stood where a mark was looked for."""

    def more(self) -> bool:
        """Whether there was something to read. What has arrived is taken at once, so that a
        pipe's records do not wait for each other.
        """
        read1 = getattr(self.stream, "read1", self.stream.read)
        data = read1(65536)
        self.held += data
        self.ended = not data
        return not self.ended

    def at_end(self) -> bool:
        return not self.held and (self.ended or not self.more())

    def skip(self, mark: bytes) -> None:
        if mark and self.until(mark):
            raise ValueError(f"a record does not begin with {mark!r}")

    def until(self, end: bytes) -> bytes:
        """All up to `end`, which is passed over; the end of the stream counts as one."""
        searched = 0
        while (at := self.held.find(end, searched) if end else -1) < 0:
            searched = max(0, len(self.held) - len(end) + 1)
            if len(self.held) > MAX_RECORD_BYTES:
                raise ValueError(f"no {end!r} within {MAX_RECORD_BYTES:,} bytes")
            if self.ended or not self.more():
                data = bytes(self.held)
                self.held.clear()
                self.cut_short = True
                return data
        data = bytes(self.held[:at])
        del self.held[: at + len(end)]
        return data
