"""Records on stdout: by a template, as JSON, or in the defaults for terminals and pipes."""

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
"""The named templates; `JSON` has further names."""


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The options of one call for the format of records; None: not given."""

    template: str | None
    key_delimiter: str | None
    delimiter: str | None
    null: str | None
    null_shown: bool
    as_json: bool
    meta_only: bool

    def rendering(self) -> Callable[[CliRecord], bytes]:
        """Return the function that formats a record. Raises `UsageError` for contradicting
        options.
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
        """Return the template without `-f`: all columns on a terminal, only values in a pipe."""
        if self.key_delimiter is not None or self.delimiter is not None:
            key = "" if self.key_delimiter is None else f"%k{literal(self.key_delimiter)}"
            return f"{key}%v{END if self.delimiter is None else literal(self.delimiter)}"
        return FOR_PEOPLE if sys.stdout.isatty() else VALUE_LINES


def json_line(encode: Callable[[CliRecord], bytes]) -> Callable[[CliRecord], bytes]:
    return lambda record: encode(record) + b"\n"


class RecordWriter:
    """Writes records to stdout as bytes."""

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
        """Flush stdout, before offsets are committed."""
        self.out.flush()
