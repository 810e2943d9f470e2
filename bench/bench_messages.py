"""Nanoseconds per message: headers, requests and responses of a one-partition produce and fetch.

    python bench/bench_messages.py [--rounds 7]

A broker reads requests and writes responses, a client writes requests and reads responses. `taken`
is what they use in the form in which the leaves are installed; `made` is the reader or writer made
from the declaration; `kafka-python` its compiled encoder or decoder of the same message. `build` is
making what is written from its values. CPU time of this process, rounds of all columns interleaved,
the best shown; every round is appended to `bench/results/messages.jsonl`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

from odradek import leaves
from odradek.model.byte_ranges import FileSlice
from odradek.model.topics import ZERO_UUID
from odradek.protocol.api import fetch, produce
from odradek.protocol.codec import encode_bytes, open_ended_reader, writer
from odradek.protocol.frame import (
    decode_request_header,
    decode_response_header,
    request_parts,
    response_parts,
)
from odradek.protocol.generated_reader import compile_reader
from odradek.protocol.generated_writer import compile_writer, joined
from odradek.protocol.schema import fields_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    their_produce = importlib.import_module("kafka.protocol.producer")
    their_fetch = importlib.import_module("kafka.protocol.consumer")

RESULTS = Path(__file__).parent / "results" / "messages.jsonl"
TOPIC_ID = UUID(int=0x1234)
CALLS = 20_000
Work = Callable[[], object]


def names(version: int) -> dict[str, Any]:
    """A topic as this version addresses it."""
    if version >= 13:
        return {"topic_id": TOPIC_ID}
    return {"topic_id": ZERO_UUID}


def produce_request(version: int) -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(index=3, records=b"x" * 170)
    topic = produce.TopicProduceData(
        name="" if version >= 13 else "orders", partition_data=[partition], **names(version)
    )
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response(version: int) -> produce.ProduceResponse:
    partition = produce.PartitionProduceResponse(
        index=3, error_code=0, base_offset=77, log_append_time_ms=-1, log_start_offset=0
    )
    topic = produce.TopicProduceResponse(
        name="" if version >= 13 else "orders", partition_responses=[partition], **names(version)
    )
    return produce.ProduceResponse(responses=[topic])


def fetch_request(version: int) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(partition=3, fetch_offset=17, partition_max_bytes=1 << 20)
    topic = fetch.FetchTopic(
        topic="" if version >= 13 else "orders", partitions=[partition], **names(version)
    )
    return fetch.FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=0, topics=[topic])


def fetch_response(version: int) -> fetch.FetchResponse:
    piece = FileSlice(None, 0, 1000)  # type: ignore[arg-type]
    partition = fetch.PartitionData(
        partition_index=3,
        error_code=0,
        high_watermark=77,
        last_stable_offset=77,
        log_start_offset=0,
        aborted_transactions=None,
        records=[piece],
    )
    topic = fetch.FetchableTopicResponse(
        topic="" if version >= 13 else "orders", partitions=[partition], **names(version)
    )
    return fetch.FetchResponse(responses=[topic])


def as_theirs(cls: Any, ours: Any) -> Any:
    """A message of ours as kafka-python has it."""
    values = {}
    for item in fields_of(type(ours)):
        value = getattr(ours, item.name)
        if isinstance(value, list):
            value = [as_theirs(getattr(cls, type(each).__name__), each) for each in value]
        values[item.name] = value
    return cls(**values)


def reading(message: Any, theirs: Any, version: int) -> dict[str, Work]:
    """Ways to read a message."""
    cls = type(message)
    frame = encode_bytes(message, version)
    taken, made = open_ended_reader(cls, version), compile_reader(cls, version)[0]
    return {
        "taken": lambda: taken(frame, 0),
        "made": lambda: made(frame, 0),
        "kafka-python": lambda: theirs.decode(frame, version=version),
    }


def writing(build: Callable[[int], Any], version: int) -> dict[str, Work]:
    """Ways to write a message."""
    message = build(version)
    taken = writer(type(message), version)
    made = compile_writer(type(message), version)[0]
    return {
        "taken": lambda: taken(message),
        "made": lambda: made(message),
        "build": lambda: build(version),
    }


def writing_request(build: Callable[[int], Any], theirs: Any, version: int) -> dict[str, Work]:
    """The same, and their way; a response with stretches of files they cannot write."""
    other = as_theirs(theirs, build(version))
    return writing(build, version) | {"kafka-python": lambda: other.encode(version=version)}


def received(version: int) -> fetch.FetchResponse:
    """A fetch response as it arrives."""
    response = fetch_response(version)
    response.responses[0].partitions[0].records = b"x" * 1000
    return response


def heads() -> dict[str, dict[str, Work]]:
    """What is around every message."""
    request = joined(request_parts(0, 9, 5, "rdkafka", [b"body"]))[4:]
    response = joined(response_parts(5, [b"body"], True))[4:]
    body = b"x" * 40
    return {
        "read request header v2": {"taken": lambda: decode_request_header(request)},
        "write response frame": {"taken": lambda: response_parts(7, [body], True)},
        "write request frame": {"taken": lambda: request_parts(0, 9, 5, "rdkafka", [body])},
        "read response header v1": {"taken": lambda: decode_response_header(response, True)},
    }


def rows() -> dict[str, dict[str, Work]]:
    """Every row of the table: column -> what to call."""
    found = heads()
    for version in (7, 9, 13):
        request, response = their_produce.ProduceRequest, their_produce.ProduceResponse
        found |= {
            f"read produce request v{version}": reading(produce_request(version), request, version),
            f"write produce response v{version}": writing(produce_response, version),
            f"write produce request v{version}": writing_request(produce_request, request, version),
            f"read produce response v{version}": reading(
                produce_response(version), response, version
            ),
        }
    for version in (11, 12, 17):
        request, response = their_fetch.FetchRequest, their_fetch.FetchResponse
        found |= {
            f"read fetch request v{version}": reading(fetch_request(version), request, version),
            f"write fetch response v{version}": writing(fetch_response, version),
            f"write fetch request v{version}": writing_request(fetch_request, request, version),
            f"read fetch response v{version}": reading(received(version), response, version),
        }
    return found


def measure(work: Work) -> float:
    """Nanoseconds of CPU per call."""
    begin = time.process_time_ns()
    for _ in range(CALLS):
        work()
    return (time.process_time_ns() - begin) / CALLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds: int = parser.parse_args().rounds
    table = rows()
    best: dict[tuple[str, str], float] = {}
    with RESULTS.open("a") as results:
        for _ in range(rounds):
            for name, columns in table.items():
                for column, work in columns.items():
                    taken = measure(work)
                    best[name, column] = min(taken, best.get((name, column), taken))
                    row = {"message": name, "column": column, "ns": round(taken, 1)}
                    stamp = {"leaves": leaves.mode(), "python": platform.python_version()}
                    results.write(json.dumps(row | stamp) + "\n")
    shown = ("taken", "made", "kafka-python", "build")
    print(f"leaves: {leaves.mode()}; nanoseconds of CPU, best of {rounds} rounds")
    print(f"{'':26}" + "".join(f"{column:>14}" for column in shown))
    for name in table:
        cells = [best.get((name, column)) for column in shown]
        print(f"{name:26}" + "".join(f"{'' if c is None else f'{c:.0f}':>14}" for c in cells))


if __name__ == "__main__":
    main()
