"""`odradek dump-log`: prints segment files as Kafka's DumpLogSegments does, or as JSON.

With `--json` each batch, record and index entry is an object that names its file; records look as
in `consume --json`. A damaged file is printed up to the damage.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from odradek.cli import exits, record_json
from odradek.cli.options import json_option
from odradek.cli.output import print_stderr, show_json
from odradek.cli.record_format import CliRecord
from odradek.log import dump
from odradek.log.files import LocalDisk
from odradek.log.scan import BadBatch
from odradek.protocol.compression import CorruptCompression, SectionTooLarge
from odradek.protocol.records import InvalidRecords, Record

DAMAGED = (BadBatch, InvalidRecords, CorruptCompression, SectionTooLarge)
NAMES = re.compile(r".*\.log|\d{20}.*\.(index|timeindex)")


class Entry(NamedTuple):
    """One line of output, as text and as an object."""

    text: str
    fields: dict[str, Any]


@click.command("dump-log")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--records", "with_records", is_flag=True, help="Print every record too, decompressed."
)
@json_option
def dump_log(files: tuple[Path, ...], with_records: bool, as_json: bool) -> None:
    """Print the batches of .log files and the entries of .index and .timeindex files.

    Exit code 6 if a batch fails its checksum, or cannot be read.
    """
    for path in files:
        if not NAMES.fullmatch(path.name):
            raise click.UsageError(
                f"{path}: give .log, .index or .timeindex files, named by their base offset"
            )
    sound = [print_file(path, with_records=with_records, as_json=as_json) for path in files]
    sys.exit(exits.DONE if all(sound) else exits.CHECK_FAILED)


def print_file(path: Path, *, with_records: bool, as_json: bool) -> bool:
    """Print a file; True if every batch passes its checksum and all could be read."""
    if not as_json:
        click.echo(f"# {path}")
    sound = True
    troubles: dict[str, None] = {}
    for part in sections(str(path), with_records):
        try:
            for entry in part:
                sound = sound and entry.fields.get("is_valid", True)
                if as_json:
                    show_json({"file": str(path), **entry.fields})
                else:
                    click.echo(entry.text)
        except DAMAGED as error:
            troubles[str(error)] = None
    print_stderr(f"odradek: {path}: {trouble}" for trouble in troubles)
    return sound and not troubles


def sections(path: str, with_records: bool) -> Iterator[Iterator[Entry]]:
    """Return the sections of a file's output; damage ends one section and not the others."""
    disk = LocalDisk()
    if path.endswith(".log"):
        yield (Entry(str(batch), batch._asdict()) for batch in dump.batches(disk, path))
        if with_records:
            yield (record_entry(record) for record in dump.records(disk, path))
    elif path.endswith(".index"):
        yield entries(("offset", "position"), dump.offset_index(disk, path))
    else:
        yield entries(("timestamp", "offset"), dump.time_index(disk, path))


def entries(names: tuple[str, str], found: list[tuple[int, int]]) -> Iterator[Entry]:
    """Return the entries of an index."""
    for pair in found:
        fields = dict(zip(names, pair, strict=True))
        yield Entry(" ".join(f"{name}: {value}" for name, value in fields.items()), fields)


def record_entry(record: Record) -> Entry:
    headers = ", ".join(f"{key}={value!r}" for key, value in record.headers)
    text = (
        f"| offset: {record.offset} timestamp: {record.timestamp} "
        f"key: {record.key!r} value: {record.value!r} headers: [{headers}]"
    )
    fields: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
    record_json.put_bytes(fields, "key", record.key)
    record_json.put_bytes(fields, "value", record.value)
    fields["headers"] = record_json.headers(CliRecord(headers=record.headers))
    return Entry(text, fields)
