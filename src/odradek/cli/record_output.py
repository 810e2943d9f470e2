"""Records on stdout: by a template, as JSON, or as what people and pipes want by default."""

from __future__ import annotations

import sys
from typing import BinaryIO

import click

from odradek import Record
from odradek.cli import record_json
from odradek.cli.raw_text import raw
from odradek.cli.record_format import Shown, Template

END = r"\n"
VALUE_LINES = f"%v{END}"
FOR_PEOPLE = r"%t[%p]@%o  %T{rfc3339}  %k{text}  %v{text}\n"
META_ONLY = r"%t\t%p\t%o\t%T\t%K\t%V\n"
JSON = ("json", "jsonl")
NAMED = {"table": FOR_PEOPLE, "raw": VALUE_LINES}
"""Formats that have names; with those of `JSON`."""


def chosen_template(
    template: str | None, key_delimiter: str | None, delimiter: str | None, meta_only: bool
) -> str:
    """What was asked for; else for people on a terminal, and values alone in a pipe."""
    if template is not None:
        if key_delimiter is not None or delimiter is not None:
            raise click.UsageError("-f says what ends keys and records: leave out -K and -D")
        return NAMED.get(template, template)
    if key_delimiter is not None or delimiter is not None:
        key = "" if key_delimiter is None else f"%k{literal(key_delimiter)}"
        return f"{key}%v{END if delimiter is None else literal(delimiter)}"
    if meta_only:
        return META_ONLY
    return FOR_PEOPLE if sys.stdout.isatty() else VALUE_LINES


def literal(text: str) -> str:
    """Text as a template has it."""
    return text.replace("%", "%%")


class Writer:
    """Records on stdout, as bytes."""

    def __init__(self, template: str, null: str, as_json: bool, unbuffered: bool) -> None:
        self.template = Template(template, raw(null))
        self.as_json = as_json
        self.unbuffered = unbuffered or sys.stdout.isatty()
        self.out: BinaryIO = sys.stdout.buffer

    def write(self, record: Record[bytes, bytes]) -> None:
        shown = Shown(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_ms,
            record.key,
            record.value,
            record.headers,
            record.leader_epoch,
        )
        line = record_json.written(shown) + b"\n" if self.as_json else self.template.render(shown)
        self.out.write(line)
        if self.unbuffered:
            self.out.flush()

    def flush(self) -> None:
        """What was written is out, before it is committed."""
        self.out.flush()
