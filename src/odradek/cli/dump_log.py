"""`odradek dump-log`: what is in segment files, as Kafka's DumpLogSegments tells it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from odradek.log import dump
from odradek.log.files import LocalDisk
from odradek.protocol.records import Record

CHECK_FAILED = 6


@click.command("dump-log")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option("--records", "with_records", is_flag=True, help="Every record too, decompressed.")
def dump_log(files: tuple[Path, ...], with_records: bool) -> None:
    """Print the batches of .log files and the entries of .index and .timeindex files.

    Exit code 6 if a batch fails its checksum.
    """
    disk = LocalDisk()
    valid = True
    for path in files:
        click.echo(f"# {path}")
        if path.suffix == ".log":
            valid = print_batches(disk, str(path)) and valid
            if with_records:
                for record in dump.records(disk, str(path)):
                    click.echo(f"| {record_line(record)}")
        elif path.suffix == ".index":
            for offset, position in dump.offset_index(disk, str(path)):
                click.echo(f"offset: {offset} position: {position}")
        elif path.suffix == ".timeindex":
            for timestamp, offset in dump.time_index(disk, str(path)):
                click.echo(f"timestamp: {timestamp} offset: {offset}")
        else:
            raise click.UsageError(f"{path}: give .log, .index or .timeindex files")
    sys.exit(0 if valid else CHECK_FAILED)


def print_batches(disk: LocalDisk, path: str) -> bool:
    """Whether every batch passes its checksum."""
    valid = True
    for line in dump.batches(disk, path):
        click.echo(str(line))
        valid = valid and line.is_valid
    return valid


def record_line(record: Record) -> str:
    headers = ", ".join(f"{key}={value!r}" for key, value in record.headers)
    return (
        f"offset: {record.offset} timestamp: {record.timestamp} "
        f"key: {record.key!r} value: {record.value!r} headers: [{headers}]"
    )
