"""`odradek dump-log`: prints segment files as Kafka's DumpLogSegments does, or as JSON.

With `--json` each batch, record and index entry is an object that names its file; records look as
in `consume --json`. A damaged file is printed up to the damage. `--transaction-log-decoder`, as
Kafka's tool names it, shows the records of `__transaction_state` by their fields.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from odradek.cli import exits, record_json
from odradek.cli.options import json_option
from odradek.cli.output import print_stderr, show_json
from odradek.cli.record_format import CliRecord
from odradek.coordinator.transaction.transaction_records import TRANSACTION_RECORDS
from odradek.coordinator.transaction.transaction_state import TransactionState
from odradek.log import dump
from odradek.log.files import LocalDisk
from odradek.log.producer_snapshot import BadProducerSnapshot
from odradek.log.producer_state import SnapshotEntry
from odradek.log.scan import BadBatch
from odradek.model.errors import ProtocolError
from odradek.protocol.compression import CorruptCompression, SectionTooLarge
from odradek.protocol.records import InvalidRecords, Record

DAMAGED = (
    BadBatch,
    BadProducerSnapshot,
    CorruptCompression,
    InvalidRecords,
    ProtocolError,
    SectionTooLarge,
)
NAMES = re.compile(r".*\.log|\d{20}.*\.(index|timeindex|txnindex|snapshot)")


class Entry(NamedTuple):
    """One line of output, as text and as an object."""

    text: str
    fields: dict[str, Any]


RecordEntry = Callable[[Record], Entry]


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
@click.option(
    "--transaction-log-decoder",
    "decodes_transactions",
    is_flag=True,
    help="Print the records of __transaction_state by their fields.",
)
@json_option
def dump_log(
    files: tuple[Path, ...], with_records: bool, decodes_transactions: bool, as_json: bool
) -> None:
    """Print the batches of .log files and the entries of .index, .timeindex, .txnindex (aborted
    transactions) and .snapshot files (producers).

    Exit code 6 if a batch or a snapshot fails its checksum, or cannot be read.
    """
    for path in files:
        if not NAMES.fullmatch(path.name):
            raise click.UsageError(
                f"{path}: give .log, .index, .timeindex, .txnindex or .snapshot files, named by "
                "their base offset"
            )
    entry_of = transaction_entry if decodes_transactions else record_entry
    records = entry_of if with_records or decodes_transactions else None
    sound = [print_file(path, records, as_json=as_json) for path in files]
    sys.exit(exits.DONE if all(sound) else exits.CHECK_FAILED)


def print_file(path: Path, records: RecordEntry | None, *, as_json: bool) -> bool:
    """Print a file; True if every batch passes its checksum and all could be read."""
    if not as_json:
        click.echo(f"# {path}")
    sound = True
    troubles: dict[str, None] = {}
    for part in sections(str(path), records):
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


def sections(path: str, records: RecordEntry | None) -> Iterator[Iterator[Entry]]:
    """Return the sections of a file's output; damage ends one section and not the others.

    `records`: makes the entries of records, which are left out without it.
    """
    disk = LocalDisk()
    if path.endswith(".log"):
        yield (Entry(str(batch), batch._asdict()) for batch in dump.batches(disk, path))
        if records is not None:
            yield (
                marker_entry(record) if isinstance(record, dump.Marker) else records(record)
                for record in dump.records(disk, path)
            )
    elif path.endswith(".index"):
        yield entries(("offset", "position"), dump.offset_index(disk, path))
    elif path.endswith(".timeindex"):
        yield entries(("timestamp", "offset"), dump.time_index(disk, path))
    elif path.endswith(".txnindex"):
        yield (
            text_entry({"version": version, **aborted._asdict()})
            for version, aborted in dump.transaction_index(disk, path)
        )
    else:
        yield (producer_entry(row) for row in producers(disk, path))


def producers(disk: LocalDisk, path: str) -> Iterator[SnapshotEntry]:
    """Yield the producers of a snapshot."""
    yield from dump.snapshot(disk, path)


def entries(names: tuple[str, str], found: list[tuple[int, int]]) -> Iterator[Entry]:
    """Return the entries of an index."""
    for pair in found:
        fields = dict(zip(names, pair, strict=True))
        yield Entry(" ".join(f"{name}: {value}" for name, value in fields.items()), fields)


def text_entry(fields: dict[str, Any]) -> Entry:
    """Return an entry whose text has the fields by the names of Kafka's tool."""
    names = (re.sub("_([a-z])", lambda found: found[1].upper(), name) for name in fields)
    pairs = zip(names, fields.values(), strict=True)
    return Entry(" ".join(f"{name}: {value}" for name, value in pairs), fields)


def producer_entry(row: SnapshotEntry) -> Entry:
    """Return a producer of a snapshot; an offset of -1: none."""
    fields: dict[str, Any] = {
        "producer_id": row.producer_id,
        "producer_epoch": row.producer_epoch,
        "coordinator_epoch": row.coordinator_epoch,
        "current_txn_first_offset": row.current_txn_first_offset,
        "last_timestamp": row.timestamp,
        "last_sequence": row.last_sequence,
        "last_offset": row.last_offset,
        "offset_delta": row.offset_delta,
    }
    return text_entry(fields)


def marker_entry(marker: dump.Marker) -> Entry:
    text = (
        f"| offset: {marker.offset} timestamp: {marker.timestamp} "
        f"endTxnMarker: {marker.control_type} coordinatorEpoch: {marker.coordinator_epoch}"
    )
    return Entry(text, marker._asdict())


def transaction_entry(record: Record) -> Entry:
    """Return a record of `__transaction_state`: what is known of a transactional id, or that it was
    deleted. Raises `ProtocolError` if it is none.
    """
    read = TRANSACTION_RECORDS.decode(record.key, record.value)
    if read is None:
        return record_entry(record)
    fields: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "transactional_id": read.key.transactional_id,
    }
    value = read.value
    if value is None:
        fields["state"] = "deleted"
    else:
        status = value.transaction_status
        known = status in TransactionState.__members__.values()
        fields |= {
            "state": TransactionState(status).text if known else f"unknown ({status})",
            "producer_id": value.producer_id,
            "producer_epoch": value.producer_epoch,
            "last_producer_epoch": value.last_producer_epoch,
            "previous_producer_id": value.previous_producer_id,
            "next_producer_id": value.next_producer_id,
            "next_producer_epoch": value.next_producer_epoch,
            "transaction_timeout_ms": value.transaction_timeout_ms,
            "transaction_start_timestamp_ms": value.transaction_start_timestamp_ms,
            "transaction_last_update_timestamp_ms": value.transaction_last_update_timestamp_ms,
            "client_transaction_version": value.client_transaction_version,
            "partitions": [
                f"{topic.topic}-{number}"
                for topic in value.transaction_partitions or ()
                for number in topic.partition_ids
            ],
        }
    line = text_entry(fields)
    return Entry(f"| {line.text}", fields)


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
