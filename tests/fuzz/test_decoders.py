"""Decoders end with a message or their own error for any bytes, within bounded memory and work.

Decoders of messages raise only `ProtocolError`, and `validate` raises nothing; memory stays within
8 bytes per received byte and 1 MiB; the number of executed lines stays within some tens per byte.
"""

from __future__ import annotations

import struct
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from types import FrameType
from typing import Any

import pytest

from fuzz.batches import any_batch, mutated_batch, sound_batch
from fuzz.budget import seeds
from fuzz.mutations import mutated
from fuzz.requests import Requests, Vocabulary
from fuzz.tokens import joined, sized, tokens_of
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ProtocolError
from odradek.protocol.api.metadata import MetadataRequest
from odradek.protocol.api_keys import MESSAGES, ApiMessages
from odradek.protocol.codec import decode, encode_bytes, reader
from odradek.protocol.compression import CorruptCompression, SectionTooLarge
from odradek.protocol.frame import decode_request_header
from odradek.protocol.generated_reader import compile_reader
from odradek.protocol.record_batch import CorruptBatch, batches, records_of
from odradek.protocol.record_columns import BinaryBuffers, RecordColumns
from odradek.protocol.records import InvalidRecords, Record
from odradek.protocol.validate import BatchRules, InvalidBatch, ValidBatch, validate

MIB = 1 << 20
LINES_PER_BYTE = 60
LINES_AT_LEAST = 500
BYTES_PER_BYTE = 8
CAP = 64 * 1024
"""The cap on the decompressed size of a consumer's batch."""


@contextmanager
def bounded_memory(name: str, size: int, allowance: int = MIB) -> Iterator[None]:
    """Check that the peak of allocated memory is in proportion to the received bytes."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    yield
    peak = tracemalloc.get_traced_memory()[1] - before
    assert peak <= BYTES_PER_BYTE * size + allowance, f"{name}: {peak} bytes for {size} received"


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def any_api(random: Random) -> tuple[ApiMessages, int, type[Any]]:
    api = random.choice(list(MESSAGES.values()))
    version = random.randint(*api.versions)
    return api, version, api.request if random.random() < 0.8 else api.response


def test_the_joined_tokens_of_a_message_are_its_encoding() -> None:
    for name, random in seeds(400, "tokens"):
        _, version, cls = any_api(random)
        message = Requests(random, Vocabulary()).message(cls, version)
        tokens = joined(tokens_of(message, version))
        assert tokens == encode_bytes(message, version), f"{name}: {cls.__name__} v{version}"


@pytest.mark.usefixtures("traced")
def test_a_mutated_message_is_a_message_or_a_protocol_error() -> None:
    for name, random in seeds(800, "messages"):
        api, version, cls = any_api(random)
        message = Requests(random, Vocabulary()).message(cls, version)
        data = mutated(random, tokens_of(message, version))
        what = f"{name}: {api.name} v{version}"
        reader(cls, version)  # Made at its first use: that is not the memory of a message.
        with bounded_memory(what, len(data)):
            try:
                decode(cls, version, data)
            except ProtocolError:
                pass
            except Exception as error:
                raise AssertionError(f"{what}: {error!r}") from error


def test_a_mutated_header_is_a_header_or_a_protocol_error() -> None:
    for name, random in seeds(1_000, "headers"):
        key = random.choice([*MESSAGES, -1, 99, 32767])
        version = random.choice((-1, 0, 3, 9, 12, 32767))
        size = random.choice((-2, -1, 0, 3, 3, 3, 200, 32767))
        frame = b"".join(
            (
                key.to_bytes(2, "big", signed=True),
                version.to_bytes(2, "big", signed=True),
                bytes(4),
                size.to_bytes(2, "big", signed=True),
                random.choice((b"abc", b"", b"\xff\xfe\xfd", b"abc\x01\x00\x05hello", b"a\0\n")),
                random.choice((b"", b"\x00", b"\x05\xff\xff\xff\xff\x0f", b"\x01\x00\x00")),
            )
        )
        try:
            decode_request_header(frame[: random.randrange(len(frame) + 1)])
        except ProtocolError:
            pass
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error


def test_a_decoders_work_is_in_proportion_to_its_input() -> None:
    made: dict[tuple[type[Any], int], Callable[[bytes, int], Any]] = {}
    for name, random in seeds(300, "work"):
        api, version, cls = any_api(random)
        if (cls, version) not in made:
            made[cls, version] = compile_reader(cls, version)[0]
        message = Requests(random, Vocabulary()).message(cls, version)
        data = mutated(random, tokens_of(message, version))
        lines = executed_lines(made[cls, version], data)
        bound = LINES_AT_LEAST + LINES_PER_BYTE * len(data)
        assert lines <= bound, f"{name}: {api.name} v{version}: {lines} lines for {len(data)} bytes"


def executed_lines(read: Callable[[bytes, int], Any], data: bytes) -> int:
    """Return how many lines of Python a decoder executes, with all functions that it calls."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read(data, 0)
    except ProtocolError:
        pass
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("api", MESSAGES.values(), ids=lambda api: api.name)
def test_a_request_of_more_than_200_000_elements_is_refused_before_decoding(
    api: ApiMessages,
) -> None:
    message = Requests(Random(2), Vocabulary()).message(api.request, api.versions[1])
    tokens = tokens_of(message, api.versions[1])
    for at, token in enumerate(tokens):
        if token.kind == "count":
            count = sized(200_001, token.wide)
            data = joined(tokens[:at]) + count + bytes(32 * 200_001)
            with bounded_memory(api.name, 0), pytest.raises(ProtocolError):
                decode(api.request, api.versions[1], data)


@pytest.mark.usefixtures("traced")
def test_200_000_minimal_elements_take_at_most_16_mib() -> None:
    data = sized(200_000, "v") + b"\x01\x00" * 200_000 + bytes(4)
    with bounded_memory("topics", 0, allowance=16 * MIB):
        found = decode(MetadataRequest, 9, data)
    assert len(found.topics or ()) == 200_000


@pytest.mark.usefixtures("traced")
def test_a_mutated_batch_is_valid_or_refused() -> None:
    rules = BatchRules(max_message_bytes=256 * 1024)
    for name, random in seeds(1_000, "batches"):
        data = any_batch(random)
        # A compressed section may grow to 16 MiB, held in a buffer and as bytes.
        allowance = MIB + (2 * rules.decompressed_cap if is_compressed(data) else 0)
        try:
            with bounded_memory(name, len(data), allowance):
                found = validate(ByteRange(data, 0, len(data)), rules, 1_700_000_000_000)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error
        assert isinstance(found, ValidBatch | InvalidBatch)
        if isinstance(found, ValidBatch):
            read = list(records_of(found.data, found.header, rules.decompressed_cap))
            assert len(read) == found.count, name


def is_compressed(data: bytes) -> bool:
    return len(data) > 22 and data[22] & 7 != 0


@pytest.mark.usefixtures("traced")
def test_a_consumer_reads_a_mutated_batch_or_raises_its_own_error() -> None:
    known = (CorruptBatch, InvalidRecords, CorruptCompression, SectionTooLarge)
    for name, random in seeds(800, "consumed"):
        data = mutated_batch(random, sound_batch(random))
        try:
            with bounded_memory(name, len(data), 2 * MIB):
                for header in batches(data):
                    for _ in records_of(data, header, CAP):
                        pass
        except (*known, AssertionError) as error:
            if isinstance(error, AssertionError):
                raise
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error


DAMAGES = (CorruptBatch, InvalidRecords, CorruptCompression, SectionTooLarge)


@pytest.mark.usefixtures("traced")
def test_a_mutated_batch_has_the_same_columns_and_records_or_errors() -> None:
    for name, random in seeds(800, "columns"):
        data = mutated_batch(random, sound_batch(random))
        try:
            with bounded_memory(name, len(data), 2 * MIB):
                columns = columns_of(data)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error
        assert columns == records_in(data), name


def columns_of(data: bytes) -> list[Row] | type[Exception]:
    """Read the rows as columns, or return the kind of error."""
    columns = RecordColumns()
    try:
        for header in batches(data):
            columns.append_batch(data, header, -(2**63), 2**63 - 1, CAP)
    except DAMAGES as error:
        return type(error)
    return rows_of(columns)


def records_in(data: bytes) -> list[Row] | type[Exception]:
    """Read the rows as record objects, or return the kind of error."""
    try:
        return [row_of(each) for header in batches(data) for each in records_of(data, header, CAP)]
    except DAMAGES as error:
        return type(error)


Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def row_of(record: Record) -> Row:
    return record.offset, record.timestamp, record.key, record.value, list(record.headers)


def rows_of(columns: RecordColumns) -> list[Row]:
    """Convert the buffers to rows as Arrow does."""
    count = columns.count
    offsets = struct.unpack(f"<{count}q", columns.offsets)
    timestamps = struct.unpack(f"<{count}q", columns.timestamps)
    starts = struct.unpack(f"<{count + 1}i", columns.header_offsets)
    names = [
        (key or b"").decode("utf-8", "replace") for key in values_of(columns.header_key.finish())
    ]
    sent = list(zip(names, values_of(columns.header_value.finish())))
    keys, values = values_of(columns.key.finish()), values_of(columns.value.finish())
    return [
        (offsets[n], timestamps[n], keys[n], values[n], sent[starts[n] : starts[n + 1]])
        for n in range(count)
    ]


def values_of(column: BinaryBuffers) -> list[bytes | None]:
    ends = struct.unpack(f"<{column.count + 1}i", column.offsets)
    assert ends[-1] == len(column.data)
    return [
        column.data[ends[n] : ends[n + 1]] if column.validity[n // 8] >> n % 8 & 1 else None
        for n in range(column.count)
    ]
