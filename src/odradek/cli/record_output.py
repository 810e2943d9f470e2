"""Records on stdout: by a template, as JSON, or as what people and pipes want by default."""

from __future__ import annotations

import sys
from typing import BinaryIO

from odradek import Record
from odradek.cli import record_json
from odradek.cli.raw_text import raw
from odradek.cli.record_format import Shown, Template

VALUE_LINES = r"%v\n"
FOR_PEOPLE = r"%t[%p]@%o  %T{rfc3339}  %k  %v\n"
META_ONLY = r"%t\t%p\t%o\t%T\t%K\t%V\n"
JSON = ("json", "jsonl")
NAMED = {"table": FOR_PEOPLE, "raw": VALUE_LINES}
"""Formats that have names; with those of `JSON`."""


def chosen_template(template: str | None, meta_only: bool) -> str:
    """What was asked for; else for people on a terminal, and values alone in a pipe."""
    if template is not None:
        return NAMED.get(template, template)
    if meta_only:
        return META_ONLY
    return FOR_PEOPLE if sys.stdout.isatty() else VALUE_LINES


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
