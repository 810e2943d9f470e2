"""A short run of `make chaos`, and that its checks find what they must."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from chaos import committed as committed_offsets
from chaos.cluster import GROUP, METADATA, TOPIC, ChaosFailure, differences
from chaos.committed import CommittedOffsets
from chaos.copier import wrong_copies
from chaos.counting import wrong_counts
from chaos.faults import FAULTS
from chaos.node import Node
from chaos.proxy import ANYONE, node_of
from chaos.run import (
    UNBOUNDED,
    Outage,
    Result,
    Writer,
    await_group,
    chaos_run,
    history_of,
    measure_gaps,
    schedule,
)
from chaos.transactions import COMMITTED, GONE, UNKNOWN, TransactionalWriter
from clients.libraries.raw_transactions import RawRequests
from clients.libraries.transactional import Confluent, Odradek, TransactionalProducer
from odradek.coordinator.group.group_records import (
    GROUP_RECORDS,
    OffsetCommitKey,
    OffsetCommitValue,
)
from odradek.coordinator.records import CoordinatorRecord
from odradek.model.topics import TopicPartition
from odradek.protocol.frame import request_parts
from odradek.testing.checker import FSYNC, Checker
from odradek.testing.history import Content, Read

FIRST = TopicPartition(TOPIC, 0)


class NotedWriter(Writer):
    """A writer that has ended, with these notes."""

    def __init__(self, library: str, path: Path, *events: list[object]) -> None:
        self.library = library
        self.path = path
        path.write_text("".join(json.dumps(event) + "\n" for event in events))


def content(library: str, number: int) -> Content:
    return Content(None, f"{library}:{number}".encode(), (), 1_000 + number)


def test_a_broker_under_faults_loses_nothing(tmp_path: Path) -> None:
    result = chaos_run(
        tmp_path,
        seed=1,
        seconds=0,
        kinds=("kill", "cut", "disk full"),
        writers=("odradek", "confluent-kafka-plain"),
        readers=("odradek", "confluent-kafka"),
        transactional=(Confluent, Odradek, RawRequests),
    )
    assert result.violations == []
    assert result.failed == {}
    assert result.sent == result.acked == result.read
    assert sorted(outage.kind for outage in result.outages) == ["cut", "disk full", "kill"]
    assert result.starts == 2


def test_three_brokers_under_faults_lose_nothing(tmp_path: Path) -> None:
    result = chaos_run(
        tmp_path,
        brokers=3,
        seed=1,
        seconds=0,
        rate=50,
        kinds=("kill leader", "isolate controller", "wipe"),
        writers=("odradek", "confluent-kafka"),
        readers=("odradek", "confluent-kafka"),
        transactional=(Confluent, Odradek),
    )
    assert result.violations == []
    assert result.failed == {}
    assert result.sent == result.acked == result.read
    assert len(result.outages) == 3
    assert result.starts == 5
    assert result.transactions > 0


def test_a_transaction_that_is_torn_lost_or_read_though_it_was_aborted_is_found(
    tmp_path: Path,
) -> None:
    writer = TransactionalWriter(Odradek, "nowhere", tmp_path)
    writer.outcomes = {1: COMMITTED, 2: GONE, 3: UNKNOWN, 4: COMMITTED}

    def violations(*read: tuple[int, int]) -> int:
        """How many are found if these were read, by partition and number."""
        values = Counter((where, f"{writer.name}:{number}") for where, number in read)
        return len(writer.violations(values))

    whole = [(partition, number) for number in (1, 4) for partition in range(3)]
    unknown = [(partition, 3) for partition in range(3)]
    assert violations(*whole) == violations(*whole, *unknown) == 0
    assert violations(*whole[1:]) == 1, "one record of it is missing"
    assert violations(*whole[3:]) == 1, "all of them are"
    assert violations(*whole, *[(partition, 2) for partition in range(3)]) == 1, "aborted"
    assert violations(*whole, (0, 3)) == 1, "unknown, but all or nothing"
    assert violations(*whole, *whole[:3]) == 1, "twice"
    values = Counter((where, f"{writer.name}:{number}") for where, number in whole)
    assert [writer.wrong_offset(offset, values) == [] for offset in (3, 4)] == [False, True]


class InMemory(TransactionalProducer):
    """A producer without a broker. Those of chaos are made in another process."""

    refused = (ConnectionError,)

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        pass

    def init(self) -> None:
        pass

    def begin(self) -> None:
        pass

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        pass

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        pass

    def commit(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def close(self) -> None:
        pass


class Broken(InMemory):
    def init(self) -> None:
        raise ZeroDivisionError


class Refusing(InMemory):
    def commit(self) -> None:
        raise ConnectionError("there is no coordinator")


class Hanging(InMemory):
    """Its second commit does not return."""

    committed = False

    def commit(self) -> None:
        if self.committed:
            threading.Event().wait()
        self.committed = True


def commit_for_ever(writer: TransactionalWriter) -> None:
    while True:
        writer.await_commit()


def test_a_process_with_transactions_that_ends_is_found(tmp_path: Path) -> None:
    writer = TransactionalWriter(Broken, "nowhere", tmp_path)
    with pytest.raises(ChaosFailure, match=r"broken-transactions .*ZeroDivisionError"), writer:
        writer.await_commit()


def test_a_library_that_commits_nothing_after_the_faults_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.transactions.PATIENCE_S", 0)
    found = "refusing-transactions committed nothing .*errors: there is no coordinator"
    with TransactionalWriter(Refusing, "nowhere", tmp_path) as writer:
        while not writer.errors:
            threading.Event().wait(0.01)
        with pytest.raises(ChaosFailure, match=found):
            writer.await_commit()
    assert set(writer.outcomes.values()) <= {GONE, UNKNOWN}


def test_a_call_of_a_library_that_does_not_return_is_counted_and_another_producer_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.transactions.HANGING", (Hanging,))
    monkeypatch.setattr("chaos.transactions.HANGING_S", 0.5)
    with TransactionalWriter(Hanging, "nowhere", tmp_path) as writer:
        while writer.hung == 0:
            threading.Event().wait(0.01)
        writer.await_commit()
    assert UNKNOWN in writer.outcomes.values(), "what it was about to commit"


def test_a_call_that_does_not_return_is_found_where_none_is_known_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.transactions.NOT_HANGING_S", 0.5)
    writer = TransactionalWriter(Hanging, "nowhere", tmp_path)
    with pytest.raises(ChaosFailure, match="hanging-transactions was in a call"), writer:
        commit_for_ever(writer)


def test_records_that_are_copied_again_or_not_at_all_are_found() -> None:
    inputs = Counter([(0, "a:1"), (1, "a:1"), (0, "a:2")])
    assert wrong_copies(inputs, inputs) == []
    assert [found.split(" by")[0] for found in wrong_copies(inputs, Counter([(0, "a:1")] * 2))] == [
        "2 records were not copied",
        "1 records were copied again",
    ]


def test_counts_that_are_not_of_each_record_once_are_found() -> None:
    inputs = Counter([(0, "a:1"), (1, "a:1"), (0, "b:2")])
    assert wrong_counts(inputs, {"a": [1, 2], "b": [1]}) == []
    for wrong in ({"a": [1], "b": [1]}, {"a": [1, 2]}, {"a": [2, 1], "b": [1]}):
        assert len(wrong_counts(inputs, wrong)) == 1
    assert len(wrong_counts(inputs, {"a": [1, 2, 2], "b": [1, 2], "c": [1]})) == 3


@pytest.mark.parametrize("brokers", FAULTS)
def test_every_kind_of_fault_comes_in_each_round(brokers: int) -> None:
    kinds = list(schedule(random.Random(1), tuple(FAULTS[brokers]), 0))
    assert sorted(kinds) == sorted(FAULTS[brokers])


@pytest.mark.parametrize("library", ["confluent-kafka", "kafka-python"])
def test_a_record_that_is_missing_moved_or_there_twice_is_found(
    tmp_path: Path, library: str
) -> None:
    sent = [["s", number, 0, 1_000 + number, 10 * number] for number in range(3)]
    acked = [["a", number, number, 10 * number + 5] for number in range(2)]
    writer = NotedWriter(library, tmp_path / "notes", *sent, *acked, ["f", 2, "timed out", 99])

    def violations(*numbers: int) -> list[str]:
        result = Result(1, [])
        history = history_of([writer], result)
        assert (result.sent, result.acked, result.failed) == (3, 2, {library: 1})
        records = [(offset, content(library, number)) for offset, number in enumerate(numbers)]
        history.reads.append(Read("final", FIRST, 100, 0, records, UNBOUNDED, final=True))
        return Checker(history, FSYNC).check()

    assert violations(0, 1) == violations(0, 1, 2) == []
    assert "lost" in violations(0)[0]
    assert "lost" in violations(1, 0)[0]
    twice = violations(0, 1, 2, 2)
    assert bool(twice) == (library == "confluent-kafka"), "only idempotent producers promise it"


def test_records_that_a_group_skips_or_invents_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chaos.run.PATIENCE_S", 0)
    result = Result(1, [])
    await_group(lambda: ["a", "a", "x"], {"a", "b"}, result)
    assert (result.read, result.read_again) == (2, 1)
    assert [violation.split(":")[0] for violation in result.violations] == [
        "the group skipped 1 records",
        "the group read 1 records that are not in the log",
    ]


def commit(partition: int, offset: int, group: str = GROUP) -> tuple[bytes, bytes | None]:
    value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=1)
    key = OffsetCommitKey(group=group, topic=TOPIC, partition=partition)
    record = CoordinatorRecord(key, value)
    return GROUP_RECORDS.key_bytes(record), GROUP_RECORDS.value_bytes(record)


def test_committed_offsets_that_are_lost_are_found() -> None:
    log = [commit(0, 3), commit(1, 9), commit(0, 8, "another"), commit(0, 7)]
    committed = CommittedOffsets("unused")
    committed.saw(0, 3)
    committed.saw(1, 9)
    assert committed.violations(log) == []
    committed.saw(0, 8)
    assert committed.violations(log) == ["partition 0: committed offsets were lost: [8]"]


def test_a_committed_offset_that_goes_back_for_good_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(committed_offsets, "PAUSE_S", 0)
    committed = CommittedOffsets("unused")
    committed.check_own(5, lambda: 5)
    committed.check_own(5, lambda: None)
    committed.check_own(5, iter([4, None, 4, 5]).__next__)
    assert committed.violations([]) == []
    assert committed.stale == 2
    monkeypatch.setattr(committed_offsets, "STALE_S", 0)
    committed.check_own(5, lambda: 4)
    assert committed.violations([]) == ["offset 5 was committed, and then 4 was told"]


def test_bytes_that_differ_between_the_logs_of_nodes_are_found(tmp_path: Path) -> None:
    nodes = [Node(tmp_path, f"node-{number}", {}) for number in (1, 2, 3)]
    for number, node in enumerate(nodes, 1):
        for name, content in (("t-0", b"same"), ("t-1", b"also"), (METADATA, b"%d" % number)):
            (node.data / name).mkdir(parents=True)
            (node.data / name / "00.log").write_bytes(content)
    assert differences(nodes) == []
    (nodes[1].data / "t-0" / "00.log").write_bytes(b"sane")
    (nodes[2].data / "t-1" / "01.log").write_bytes(b"more")
    assert differences(nodes) == [
        "t-0: node-1 and node-2 differ at byte 2 of 4 and 4",
        "t-1: node-1 and node-3 differ at byte 4 of 4 and 8",
    ]


def test_the_node_that_a_connection_is_from_is_known_by_its_client_id() -> None:
    (request,) = request_parts(18, 3, 7, "broker-3-fetcher", [b""])
    assert isinstance(request, bytes)
    assert node_of(request) == 3
    assert node_of(b"") == ANYONE


def test_the_wait_around_a_fault_is_the_longest_between_two_acknowledgements_of_a_partition(
    tmp_path: Path,
) -> None:
    writers = []
    for library, partition, seconds in (
        ("odradek", 0, [1, 2, 6, 7, 20]),
        ("kafka-python", 0, [1, 3, 5, 8]),
        ("kafka-python", 1, [2, 8]),
    ):
        events: list[list[object]] = []
        for number, second in enumerate(seconds):
            events.append(["s", number, partition, 1_000 + number, 10])
            events.append(["a", number, number, second * 10**9])
        path = tmp_path / f"{library}-{partition}"
        writers.append(NotedWriter(library, path, *events))
    outage = Outage("kill", began_ns=3 * 10**9, whole_ns=5 * 10**9)
    measure_gaps(writers[:2], [outage])
    assert outage.gaps_s == {"odradek": 4.0, "kafka-python": 2.0}
    assert outage.partitions_s == 2.0
    measure_gaps(writers, [outage])
    assert outage.partitions_s == 6.0, "nobody wrote to the other partition"
