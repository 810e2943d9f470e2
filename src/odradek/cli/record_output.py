"""Records on stdout: by a template, as JSON, or as what people and pipes want by default."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from odradek import Record
from odradek.cli import record_json
from odradek.cli.options import refuse_options
from odradek.cli.raw_text import argument_bytes
from odradek.cli.record_format import CliRecord, Template, literal

END = r"\n"
VALUE_LINES = f"%v{END}"
FOR_PEOPLE = r"%t[%p]@%o  %T{rfc3339}  %k{text}  %v{text}\n"
META_ONLY = r"%t\t%p\t%o\t%T\t%K\t%V\n"
NULL = "NULL"
JSON = ("json", "jsonl")
NAMED = {"table": FOR_PEOPLE, "raw": VALUE_LINES}
"""Formats that have names; with those of `JSON`."""


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """How records are to look, as the options of one call say; None: nothing was said."""

    template: str | None
    key_delimiter: str | None
    delimiter: str | None
    null: str | None
    null_shown: bool
    as_json: bool
    meta_only: bool

    def rendering(self) -> Callable[[CliRecord], bytes]:
        """What makes text of a record. Raises `UsageError` for options that contradict each
        other.
        """
        template = None if self.template in JSON else self.template
        delimiters = {"-K": self.key_delimiter, "-D": self.delimiter}
        others = {"-f": template, **delimiters, "--null": self.null}
        if self.as_json or self.template in JSON:
            refuse_options(others, "JSON has its own form")
            return json_line(record_json.encode_sizes if self.meta_only else record_json.encode)
        if self.meta_only:
            refuse_options(others, "--meta-only shows sizes, and its own columns")
            template = META_ONLY
        elif template is not None:
            refuse_options(delimiters, "-f says what ends keys and records")
        else:
            template = self.by_delimiters()
        null = self.null if self.null is not None else NULL if self.null_shown else ""
        return Template(NAMED.get(template, template), argument_bytes(null)).render

    def by_delimiters(self) -> str:
        """Without a template: for people on a terminal, and values alone in a pipe."""
        if self.key_delimiter is not None or self.delimiter is not None:
            key = "" if self.key_delimiter is None else f"%k{literal(self.key_delimiter)}"
            return f"{key}%v{END if self.delimiter is None else literal(self.delimiter)}"
        return FOR_PEOPLE if sys.stdout.isatty() else VALUE_LINES


def json_line(encode: Callable[[CliRecord], bytes]) -> Callable[[CliRecord], bytes]:
    return lambda record: encode(record) + b"\n"


class RecordWriter:
    """Records on stdout, as bytes."""

    def __init__(self, looks: RecordOptions, unbuffered: bool) -> None:
        self.render = looks.rendering()
        self.unbuffered = unbuffered or sys.stdout.isatty()
        self.out: BinaryIO = sys.stdout.buffer

    def write(self, record: Record[bytes, bytes]) -> None:
        shown = CliRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_ms,
            record.key,
            record.value,
            record.headers,
            record.leader_epoch,
        )
        self.out.write(self.render(shown))
        if self.unbuffered:
            self.out.flush()

    def flush(self) -> None:
        """What was written is out, before it is committed."""
        self.out.flush()
