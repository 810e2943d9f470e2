"""Records as text by a template, in the verbs of kcat and rpk.

    %t topic      %p partition    %o offset       %e leader epoch
    %k key        %K its length   %v value (also %s)   %V its length (also %S), -1 for null
    %T timestamp in ms (also %d)  %h headers as k=v,k=v   %H their number   %% a percent sign
    \\n \\r \\t \\\\ \\xFF as in kcat

A verb for bytes or for a time may be followed by an encoding: `%k{hex}`, `%v{base64}`, `%v{text}`
(safe on a terminal), `%T{rfc3339}`. A null key or value is written as an empty text, or as the text
given for null.

`record_input` reads records with the same templates.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import click

from odradek.cli.raw_text import argument_bytes
from odradek.client.consumer.record import EPOCH

Headers = Sequence[tuple[str, bytes | None]]

VERB = re.compile(r"%(?:%|(?P<verb>[a-zA-Z])(?:\{(?P<how>[^}]*)\})?)")
ESCAPE = re.compile(rb"\\(?:x[0-9a-fA-F]{2}|.)", re.DOTALL)
LARGEST_PARTITION, LARGEST_TIMESTAMP = 2**31 - 1, 2**61 - 1
ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}


class BadTemplate(click.UsageError):
    """An invalid template; the message names the invalid part."""


@dataclass(slots=True)
class CliRecord:
    """A record with its position; key and value are bytes."""

    topic: str = ""
    partition: int = -1
    offset: int = -1
    timestamp_ms: int = -1
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = field(default_factory=tuple)
    leader_epoch: int = -1


def check_range(name: str, number: int, largest: int) -> int:
    """Return the number if it is between -1 (for none) and `largest`. Raises `ValueError`."""
    if not -1 <= number <= largest:
        raise ValueError(f"{name} is {number}: -1 (for none) to {largest} is possible")
    return number


Part = Callable[[CliRecord], bytes]


class Template:
    """A compiled template. `null`: the text for a null key or value."""

    def __init__(self, text: str, null: bytes = b"") -> None:
        self.parts: list[Part] = []
        for piece in pieces(text):
            if isinstance(piece, bytes):
                self.parts.append(constant(piece))
            else:
                self.parts.append(part(piece["verb"], piece["how"], null))

    def render(self, record: CliRecord) -> bytes:
        return b"".join([part(record) for part in self.parts])


def constant(data: bytes) -> Part:
    """Return a part that always renders these bytes."""
    return lambda _: data


def pieces(template: str) -> Iterator[bytes | re.Match[str]]:
    """Split a template into literal bytes and matches of `VERB`."""
    at = 0
    for found in VERB.finditer(template):
        if at < found.start():
            yield unescape(template[at : found.start()])
        yield b"%" if found[0] == "%%" else found
        at = found.end()
    if "%" in template[at:]:
        raise BadTemplate(f"{template!r}: a lone percent sign; write %% for one")
    if at < len(template):
        yield unescape(template[at:])


def literal(text: str) -> str:
    """Quote text for a template, also behind a verb; escapes stay escapes."""
    text = text.replace("%", "%%")
    return rf"\x7b{text[1:]}" if text.startswith("{") else text


def unescape(text: str) -> bytes:
    """Return the bytes of a text, with escapes replaced."""

    def one(found: re.Match[bytes]) -> bytes:
        name = found[0][1:].decode(errors="replace")
        if len(name) == 3:
            return bytes([int(name[1:], 16)])
        if name not in ESCAPES:
            raise BadTemplate(rf"unknown escape '\{name}'; use \n, \r, \t, \0, \\ or \xFF")
        return ESCAPES[name]

    return ESCAPE.sub(one, argument_bytes(text))


def part(verb: str, how: str | None, null: bytes) -> Part:
    """Return the part that renders one verb."""
    if verb in NUMBERS and how is None:
        number = NUMBERS[verb]
        return lambda record: b"%d" % number(record)
    if verb in BYTES:
        get = BYTES[verb]
        if how not in ENCODINGS:
            raise BadTemplate(
                f"%{verb}{{{how}}}: bytes are written as they are, {{text}}, {{hex}}, {{base64}}"
            )
        encoding = ENCODINGS[how]
        return lambda record: null if (data := get(record)) is None else encoding(data)
    if verb in "Td" and how == "rfc3339":
        return lambda record: rfc3339(record.timestamp_ms).encode()
    if verb == "h" and how is None:
        return lambda record: headers_text(record.headers)
    if verb == "t" and how is None:
        return lambda record: record.topic.encode()
    raise BadTemplate(
        f"%{verb}{'' if how is None else '{' + how + '}'} is not a verb; -f help lists them"
    )


def length(data: bytes | None) -> int:
    return -1 if data is None else len(data)


NUMBERS: dict[str, Callable[[CliRecord], int]] = {
    "p": lambda record: record.partition,
    "o": lambda record: record.offset,
    "e": lambda record: record.leader_epoch,
    "T": lambda record: record.timestamp_ms,
    "d": lambda record: record.timestamp_ms,
    "K": lambda record: length(record.key),
    "V": lambda record: length(record.value),
    "S": lambda record: length(record.value),
    "H": lambda record: len(record.headers),
}
BYTES: dict[str, Callable[[CliRecord], bytes | None]] = {
    "k": lambda record: record.key,
    "v": lambda record: record.value,
    "s": lambda record: record.value,
}
ENCODINGS: dict[str | None, Callable[[bytes], bytes]] = {
    None: lambda data: data,
    "text": lambda data: shown_text(data).encode(),
    "hex": lambda data: data.hex().encode(),
    "base64": base64.b64encode,
}


def shown_text(data: bytes) -> str:
    """Return text that is safe on a terminal: control characters, line ends and bytes that are not
    UTF-8 are escaped.
    """
    text = data.decode("utf-8", "backslashreplace")
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def rfc3339(timestamp_ms: int) -> str:
    """Return `2026-01-31T12:00:00.000Z`; an empty text for a record without a time, and the number
    for a time after the year 9999.
    """
    if timestamp_ms < 0:
        return ""
    try:
        when = EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def headers_text(headers: Headers) -> bytes:
    return b",".join(key.encode() + b"=" + (value or b"") for key, value in headers)


HELP = r"""
Templates for `consume -f`; `produce -f` reads the verbs marked with *:

  %t topic             %p partition *      %o offset            %e leader epoch
  %k key *             %K its length       %v value *, also %s  %V its length, also %S
  %T time in ms *, %d  %h headers k=v,... *  %H their number    %% a percent sign
  \n \r \t \0 \\ \xFF

  %k{hex}  %v{base64}  %v{text} (for terminals)  %T{rfc3339}    only to write

Named formats, only to write: json and jsonl, table, raw.

A record as JSON, one a line (`consume --json`, `produce --json`):

  {"topic":"t","partition":0,"offset":7,"timestamp":1700000000000,"key":"k","value":"v",
   "headers":[{"key":"h","value":"x"}]}

  Bytes that are not UTF-8 are under key_base64, value_base64. `produce` requires only the value; a
  value that is not text is sent as its JSON. `consume --meta-only` writes key_size and value_size
  instead, which `produce` does not read.
"""


def show_help(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
    """Print the help of templates and exit, if the value is `help`."""
    if value == "help":
        click.echo(HELP.strip())
        ctx.exit(0)
    return value
