"""Records as JSON, one a line. `produce --json` reads back every byte that `consume --json` writes.

    {"topic":"t","partition":0,"offset":7,"timestamp":1700000000000,"key":"k","value":"v",
     "headers":[{"key":"h","value":"x"}]}

Bytes that are not UTF-8 are under `key_base64`, `value_base64`. A null value must be given as null:
an object without a value, with an unknown field or with two values is an error. The same holds for
headers.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from odradek.cli.record_format import LARGEST_PARTITION, LARGEST_TIMESTAMP, CliRecord, check_range

VALUES = {"value", "value_base64"}
HEADER_FIELDS = {"key"} | VALUES
FIELDS = {"topic", "partition", "offset", "timestamp", "key_base64", "headers"} | HEADER_FIELDS
ADVICE = 'a record is {"key": ..., "value": ...}; to send the lines as they are, leave out --json'


def encode(record: CliRecord) -> bytes:
    """Return the record as one line, without the line end."""
    line = position_fields(record)
    put_bytes(line, "key", record.key)
    put_bytes(line, "value", record.value)
    line["headers"] = headers(record)
    return msgspec.json.encode(line)


def encode_sizes(record: CliRecord) -> bytes:
    """Return one line with `key_size` and `value_size`, in bytes or null, instead of key and value.
    `decode` does not read it.
    """
    line = position_fields(record)
    for name, data in (("key_size", record.key), ("value_size", record.value)):
        line[name] = None if data is None else len(data)
    line["headers"] = headers(record)
    return msgspec.json.encode(line)


def position_fields(record: CliRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
    }


def headers(record: CliRecord) -> list[dict[str, Any]]:
    return [put_bytes({"key": key}, "value", value) for key, value in record.headers]


def put_bytes(line: dict[str, Any], name: str, data: bytes | None) -> dict[str, Any]:
    try:
        line[name] = None if data is None else data.decode()
    except UnicodeDecodeError:
        line[name + "_base64"] = base64.b64encode(data or b"").decode()
    return line


def decode(data: bytes) -> CliRecord:
    """Parse a record from its line. Raises `ValueError`."""
    try:
        line = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(line, dict):
        raise ValueError('not a record: write an object like {"key": "k", "value": "v"}')
    check_fields("records", "it", line, FIELDS)
    record = CliRecord(key=take_bytes(line, "key"), value=take_bytes(line, "value"))
    record.topic = typed(line, "topic", str, "")
    record.partition = check_range(
        "partition", typed(line, "partition", int, -1), LARGEST_PARTITION
    )
    record.timestamp_ms = check_range(
        "timestamp", typed(line, "timestamp", int, -1), LARGEST_TIMESTAMP
    )
    record.headers = [header(each) for each in typed(line, "headers", list, [])]
    return record


def header(one: Any) -> tuple[str, bytes | None]:
    if not isinstance(one, dict) or not isinstance(one.get("key"), str):
        raise ValueError('headers are a list of {"key": "h", "value": "x"}')
    check_fields("headers", f"header {one['key']!r}", one, HEADER_FIELDS)
    return one["key"], take_bytes(one, "value")


def check_fields(kind: str, name: str, line: dict[str, Any], fields: set[str]) -> None:
    """Refuse unknown fields and a missing value: the line may be the user's own JSON object."""
    unknown = sorted(line.keys() - fields)
    if unknown:
        raise ValueError(f"{kind} have no field {unknown[0]!r}: {ADVICE}")
    if not line.keys() & VALUES:
        raise ValueError(f"{name} has no value (null is one): {ADVICE}")


def typed(line: dict[str, Any], name: str, kind: type[Any], default: Any) -> Any:
    value = line.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(
            f"{name} is {msgspec.json.encode(value).decode()[:40]}: not {kind.__name__}"
        )
    return value


def take_bytes(line: dict[str, Any], name: str) -> bytes | None:
    """Return bytes from text, from base64, or of any other JSON value from its text."""
    if name in line and name + "_base64" in line:
        raise ValueError(f"it has both {name} and {name}_base64: leave out one")
    encoded = line.get(name + "_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError):
            raise ValueError(f"{name}_base64 is not base64") from None
    value = line.get(name)
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else msgspec.json.encode(value)
