"""The fault matrix, its rows of transactions: late requests, sequences, lost coordinators.

The rows are numbered as in the project's list of faults; the others are in `test_fault_matrix`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

from odradek.coordinator.transaction.transaction_state import KEPT, TransactionState
from odradek.log.producer_state import MAX_SEQUENCE
from odradek.model.errors import ErrorCode
from odradek.protocol.api.produce import ProduceResponse
from odradek.testing.machine import SimMachine
from odradek.testing.probes import controller_image, nodes_of
from odradek.testing.scheduler import MS, SECOND
from odradek.testing.sim import explain, run_seed, summary
from sim.broken_parts import KILLS, transactional
from sim.broken_transactions import begins_near_the_last_epoch
from sim.live_cluster import PRODUCE_VERSION, LiveCluster
from sim.live_transactions import (
    Producer,
    Send,
    committed_values,
    live_cluster,
    stable_offset,
)
from sim.transactions_in_states import (
    AFTER,
    PARTITIONS,
    HeldMarkers,
    State,
    same_coordinator,
    until_in,
)

BOTH = pytest.mark.parametrize("version", [1, 2])


@pytest.fixture(scope="module")
def cluster() -> LiveCluster:
    return live_cluster()


def producer_of(cluster: LiveCluster, name: str, version: int) -> Producer:
    """Return a producer with a topic and an id of its own, whose transaction is to come."""
    name = f"{name}-v{version}"
    cluster.create(name, partitions=PARTITIONS)
    made = Producer(cluster, f"id-{name}", name, version)
    assert made.init() is ErrorCode.NONE
    return made


# Row 29: wall clocks that are wrong by years.

YEARS_MS = 10 * 365 * 24 * 3600 * 1000
LOOKS_OFTEN = {
    "offsets_retention_check_interval_ms": "1000",
    "transaction_remove_expired_transaction_cleanup_interval_ms": "1000",
}


@pytest.mark.parametrize(
    "skews",
    [(YEARS_MS,), (-YEARS_MS,), (YEARS_MS, -YEARS_MS)],
    ids=["ahead", "behind", "now this, now that"],
)
def test_row_29_a_wall_clock_that_is_years_wrong_ends_no_session_and_expires_nothing(
    skews: tuple[int, ...],
) -> None:
    cluster = live_cluster(**LOOKS_OFTEN)
    done = producer_that_committed(cluster)
    under_way = producer_of(cluster, "under-way", 2)
    assert under_way.write(0, b"y") is ErrorCode.NONE
    epochs = broker_epochs(cluster)
    for step in range(30):
        for machine in cluster.world.machines:
            machine.clock.wall_skew_ms = skews[step % len(skews)]
        cluster.scheduler.run(cluster.scheduler.now_ns + SECOND)
    assert broker_epochs(cluster) == epochs
    assert stable_offset(done) == 5
    assert done.state is State.COMPLETE_COMMIT
    assert under_way.state is State.ONGOING
    assert under_way.end(commit=True) is ErrorCode.NONE
    assert committed_values(cluster, done.topic, PARTITIONS) == [b"x"]
    assert committed_values(cluster, under_way.topic, PARTITIONS) == [b"y"]


def test_row_29_nothing_expires_when_its_coordinator_is_lost_after_a_wrong_year() -> None:
    cluster = live_cluster(**LOOKS_OFTEN)
    done = producer_that_committed(cluster)
    for machine in cluster.world.machines:
        machine.clock.wall_skew_ms = YEARS_MS
    lost = done.coordinator
    cluster.machine(lost).kill()
    cluster.connect_anew()
    cluster.await_healed_without(lost)
    cluster.scheduler.run(cluster.scheduler.now_ns + 10 * SECOND)
    assert done.coordinator != lost
    assert done.state is State.COMPLETE_COMMIT


def producer_that_committed(cluster: LiveCluster) -> Producer:
    """Return a producer whose transaction of a record and an offset, 5, is complete."""
    done = producer_of(cluster, "done", 2)
    assert done.write(0, b"x") is ErrorCode.NONE
    assert done.commit_offset(5) is ErrorCode.NONE
    assert done.end(commit=True) is ErrorCode.NONE
    cluster.until(lambda: done.state is State.COMPLETE_COMMIT)
    return done


def broker_epochs(cluster: LiveCluster) -> dict[int, tuple[int, bool]]:
    """Return the epoch of each broker, and if it is active."""
    brokers = cluster.node(cluster.controller).metadata.committed.brokers
    return {number: (each.epoch, each.active) for number, each in brokers.items()}


# Row 20: requests of an earlier transaction arrive when the next one is open.


def held_back(cluster: LiveCluster, producer: Producer, request: Send) -> Callable[[], ErrorCode]:
    """Send a request over a connection that holds it back, and that the producer gives up. Return
    what lets it arrive, and returns its answer."""
    old = producer.client(request[0])
    old.hold()
    answers = old.send(request)
    producer.reconnect()

    def arrive() -> ErrorCode:
        old.release()
        cluster.until(lambda: answers)
        (answer,) = answers
        return answer

    return arrive


LATE: dict[str, Callable[[Producer], Send]] = {
    "Produce": lambda producer: producer.produce_request(0, b"late"),
    "AddPartitionsToTxn": lambda producer: producer.add_request(0),
    "AddOffsetsToTxn": lambda producer: producer.add_offsets_request(),
    "EndTxn, commit": lambda producer: producer.end_request(commit=True),
    "EndTxn, abort": lambda producer: producer.end_request(commit=False),
}


@BOTH
@pytest.mark.parametrize("request_name", LATE)
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "aborted"])
def test_row_20_a_request_of_the_transaction_before_changes_nothing(
    cluster: LiveCluster, request_name: str, committed: bool, version: int
) -> None:
    name = f"{request_name}-{committed}".replace(", ", "-")
    producer = producer_of(cluster, name, version)
    assert producer.write(1, b"first") is ErrorCode.NONE
    arrive = held_back(cluster, producer, LATE[request_name](producer))
    assert producer.end(commit=committed) is ErrorCode.NONE
    assert producer.write(1, b"second") is ErrorCode.NONE
    arrive()
    assert producer.write(2, b"third") is ErrorCode.NONE
    assert producer.state is State.ONGOING
    assert producer.end(commit=False) is ErrorCode.NONE
    cluster.until(lambda: producer.state is State.COMPLETE_ABORT)
    kept = [b"first"] if committed else []
    assert committed_values(cluster, producer.topic, PARTITIONS) == kept


@BOTH
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "aborted"])
@pytest.mark.parametrize("next_commits", [True, False], ids=["next commits", "next aborts"])
@pytest.mark.parametrize("has_offsets", [True, False], ids=["has offsets", "has begun"])
def test_row_20_late_offsets_of_the_transaction_before_are_not_part_of_the_next(
    cluster: LiveCluster, committed: bool, next_commits: bool, has_offsets: bool, version: int
) -> None:
    producer = producer_of(cluster, f"offsets-{committed}-{next_commits}-{has_offsets}", version)
    assert producer.commit_offset(4) is ErrorCode.NONE
    arrive = held_back(cluster, producer, producer.offset_request(5))
    assert producer.commit_offset(5) is ErrorCode.NONE
    assert producer.end(commit=committed) is ErrorCode.NONE
    before = after = 5 if committed else -1
    assert producer.add_offsets() is ErrorCode.NONE
    if has_offsets:
        assert producer.commit_offset(7) is ErrorCode.NONE
        after = 7
    arrive()
    assert producer.write(1, b"second") is ErrorCode.NONE
    assert producer.end(commit=next_commits) is ErrorCode.NONE
    assert stable_offset(producer) == (after if next_commits else before)


@BOTH
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "aborted"])
def test_row_20_late_offsets_are_refused_while_no_transaction_is_open(
    cluster: LiveCluster, committed: bool, version: int
) -> None:
    producer = producer_of(cluster, f"offsets-alone-{committed}", version)
    assert producer.commit_offset(4) is ErrorCode.NONE
    arrive = held_back(cluster, producer, producer.offset_request(5))
    assert producer.end(commit=committed) is ErrorCode.NONE
    cluster.until(lambda: producer.state not in AFTER)
    assert arrive() in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)
    assert stable_offset(producer) == (4 if committed else -1)


def test_row_20_a_transaction_that_late_offsets_begin_is_ended_by_the_next_one(
    cluster: LiveCluster,
) -> None:
    producer, arrive = late_add_offsets(cluster, "begun-late", timeout_ms=60_000)
    arrive()
    assert producer.state is State.ONGOING
    assert producer.commit_offset(7) is ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE
    assert stable_offset(producer) == 7


def test_row_20_a_transaction_that_late_offsets_begin_is_ended_by_its_timeout(
    cluster: LiveCluster,
) -> None:
    producer, arrive = late_add_offsets(cluster, "begun-too-late", timeout_ms=1_000)
    arrive()
    assert producer.state is State.ONGOING
    cluster.until(lambda: producer.state is State.COMPLETE_ABORT)
    assert stable_offset(producer) == 5


def late_add_offsets(
    cluster: LiveCluster, name: str, timeout_ms: int
) -> tuple[Producer, Callable[[], ErrorCode]]:
    """Return a producer that has committed offset 5, and what lets its late AddOffsetsToTxn arrive.
    That is of version 1 only: nothing tells it from one of the next transaction.
    """
    cluster.create(name, partitions=PARTITIONS)
    producer = Producer(cluster, f"id-{name}", name, 1, timeout_ms)
    assert producer.init() is ErrorCode.NONE
    arrive = held_back(cluster, producer, producer.add_offsets_request())
    assert producer.commit_offset(5) is ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE
    cluster.until(lambda: producer.state is State.COMPLETE_COMMIT)
    return producer, arrive


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_row_20_a_late_end_of_version_1_ends_no_transaction_of_version_2(
    cluster: LiveCluster, commit: bool
) -> None:
    producer = producer_of(cluster, f"raised-{commit}", 1)
    assert producer.write(1, b"first") is ErrorCode.NONE
    arrive = held_back(cluster, producer, producer.end_request(commit=commit))
    assert producer.end(commit=commit) is ErrorCode.NONE
    assert producer.init() is ErrorCode.NONE  # As clients do when the version goes up.
    producer.version = 2
    assert producer.write(1, b"second") is ErrorCode.NONE
    assert arrive() is ErrorCode.PRODUCER_FENCED
    assert producer.write(2, b"third") is ErrorCode.NONE
    assert producer.end(commit=True) is ErrorCode.NONE
    kept = ([b"first"] if commit else []) + [b"second", b"third"]
    assert committed_values(cluster, producer.topic, PARTITIONS) == sorted(kept)


# Row 42: sequences.

LAST = MAX_SEQUENCE
SEQUENCES: tuple[tuple[str, int, int, int, ErrorCode, int | None], ...] = (
    # what comes                  producer, epoch, sequence, the answer, the record it is about
    ("an unknown producer", 1, 0, 0, ErrorCode.NONE, 0),
    ("the next one", 1, 0, 1, ErrorCode.NONE, 1),
    ("a duplicate of the last one", 1, 0, 1, ErrorCode.NONE, 1),
    ("a duplicate of the one before", 1, 0, 0, ErrorCode.NONE, 0),
    ("a gap", 1, 0, 3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None),
    ("far in the future", 1, 0, LAST, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None),
    ("after what was refused", 1, 0, 2, ErrorCode.NONE, 2),
    ("a third", 1, 0, 3, ErrorCode.NONE, 3),
    ("a fourth", 1, 0, 4, ErrorCode.NONE, 4),
    ("the oldest of five", 1, 0, 0, ErrorCode.NONE, 0),
    ("the one that makes six", 1, 0, 5, ErrorCode.NONE, 5),
    ("the sixth last", 1, 0, 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None),
    ("a new epoch that goes on", 1, 1, 6, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None),
    ("a new epoch", 1, 1, 0, ErrorCode.NONE, 6),
    ("an old epoch", 1, 0, 6, ErrorCode.INVALID_PRODUCER_EPOCH, None),
    ("a duplicate of an old epoch", 1, 0, 5, ErrorCode.INVALID_PRODUCER_EPOCH, None),
    ("an unknown producer that goes on", 2, 0, LAST, ErrorCode.NONE, 7),
    ("2^31", 2, 0, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None),
    ("the first one after 2^31 - 1", 2, 0, 0, ErrorCode.NONE, 8),
    ("a duplicate from before the wrap", 2, 0, LAST, ErrorCode.NONE, 7),
    ("the next one after the wrap", 2, 0, 1, ErrorCode.NONE, 9),
)


def send_batch(
    cluster: LiveCluster, topic: str, producer_id: int, epoch: int, sequence: int
) -> tuple[ErrorCode, int]:
    """Produce one record of an idempotent producer; return the error and the base offset."""
    request = cluster.idempotent_request(topic, producer_id, epoch, sequence)
    response = cluster.ask(cluster.leader(topic), request, PRODUCE_VERSION, ProduceResponse)
    answer = response.responses[0].partition_responses[0]
    return ErrorCode(answer.error_code), answer.base_offset


def check_sequences(cluster: LiveCluster, topic: str, rows: Iterable[Any]) -> None:
    """Send the rows' batches; what is refused or a duplicate changes nothing."""
    for what, producer_id, epoch, sequence, error, offset in rows:
        end = cluster.partition(cluster.leader(topic), topic).log.log_end_offset
        answer = send_batch(cluster, topic, producer_id, epoch, sequence)
        assert answer == (error, -1 if offset is None else offset), what
        after = cluster.partition(cluster.leader(topic), topic).log.log_end_offset
        assert after == (end + 1 if offset == end else end), what


def test_row_42_sequences_are_judged_alike_by_a_leader_and_by_those_after_it() -> None:
    cluster = LiveCluster(producer_id_expiration_ms="60000")
    cluster.create("t")
    check_sequences(cluster, "t", SEQUENCES)
    duplicates = [
        ("a duplicate after the failover", 1, 1, 0, ErrorCode.NONE, 6),
        ("a gap after the failover", 1, 1, 2, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None),
        ("an old epoch after the failover", 1, 0, 6, ErrorCode.INVALID_PRODUCER_EPOCH, None),
        ("a duplicate over the wrap", 2, 0, LAST, ErrorCode.NONE, 7),
        ("the last one again", 2, 0, 1, ErrorCode.NONE, 9),
    ]
    for lose in (SimMachine.kill, SimMachine.power_loss):
        cluster.await_healed()
        machine = cluster.machine(cluster.leader("t"))
        lose(machine)
        cluster.until(partial(has_another_leader, cluster, "t", machine.number))
        check_sequences(cluster, "t", duplicates)
        machine.boot()
    cluster.await_healed()
    leader = cluster.partition(cluster.leader("t"), "t")
    cluster.until(lambda: leader.log.producers.entry(1) is None, 3_600_000)
    check_sequences(cluster, "t", [("an expired producer", 1, 1, 77, ErrorCode.NONE, 10)])


def has_another_leader(cluster: LiveCluster, topic: str, lost: int) -> bool:
    """True if another node than the lost one leads."""
    nodes = nodes_of(cluster.world.machines)
    image = controller_image(nodes)
    known = None if image is None else image.topic(topic)
    leader = -1 if known is None else known.partitions[0].leader
    if leader in (-1, lost):
        return False
    partition = cluster.partition(leader, topic)
    return partition.is_leader and partition.is_in_epoch


# Row 44: the coordinator is lost while it has ids in every state.


def bring_to(producer: Producer, state: TransactionState) -> None:
    """Bring a new producer's id to a state; its markers are held in time."""
    assert producer.init() is ErrorCode.NONE
    if state is not State.EMPTY:
        for index in range(PARTITIONS):
            assert producer.write(index, f"{producer.id} first".encode()) is ErrorCode.NONE
    if state not in (State.EMPTY, State.ONGOING):
        commit = state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
        assert producer.end(commit=commit) is ErrorCode.NONE
    until_in(producer, state)


def kill(machine: SimMachine) -> None:
    machine.kill()
    machine.restart(12 * SECOND)


def fail_power(machine: SimMachine) -> None:
    machine.power_loss()
    machine.restart(12 * SECOND)


def pause(machine: SimMachine) -> None:
    assert machine.process is not None
    machine.process.paused_until_ns = machine.scheduler.now_ns + 20 * SECOND


ENDING_LAST = sorted(KEPT, key=lambda state: state in AFTER)


@pytest.mark.parametrize("lose", [kill, fail_power, pause])
def test_row_44_a_coordinator_that_is_lost_in_every_state_is_replaced(
    cluster: LiveCluster, lose: Callable[[SimMachine], None]
) -> None:
    topic = f"row-44-{lose.__name__}"
    cluster.create(topic, partitions=PARTITIONS)
    cluster.await_healed()
    new = same_coordinator(cluster, topic)
    producers = [(state, next(new)) for state in ENDING_LAST for _ in range(2)]
    lost = producers[0][1].coordinator
    held = None
    for state, producer in producers:
        if state in AFTER and held is None:
            held = HeldMarkers(cluster.node(lost))
        bring_to(producer, state)
    covered = {(producer.state, producer.version) for _, producer in producers}
    assert covered == {(state, version) for state in KEPT for version in (1, 2)}
    lose(cluster.machine(lost))
    cluster.until(lambda: producers[0][1].coordinator != lost)
    expected = set()
    for state, producer in producers:
        until_in(producer, AFTER.get(state, state))
        was_committed = AFTER.get(state, state) is State.COMPLETE_COMMIT
        if was_committed or state is State.ONGOING:
            expected.add(f"{producer.id} first".encode())
        # The next transaction, or the open one, is half done when late markers arrive.
        assert producer.write(0, f"{producer.id} second".encode()) is ErrorCode.NONE
        if not was_committed:
            expected.add(f"{producer.id} second".encode())
    cluster.until(lambda: cluster.machine(lost).running)
    cluster.await_healed()
    if lose is pause and held is not None:
        held.release()
    cluster.scheduler.run(cluster.scheduler.now_ns + SECOND)
    for state, producer in producers:
        commit = AFTER.get(state, state) is not State.COMPLETE_COMMIT
        assert producer.write(1, f"{producer.id} second".encode()) is ErrorCode.NONE
        assert producer.end(commit=commit) is ErrorCode.NONE
    cluster.until(lambda: all(producer.state not in AFTER for _, producer in producers))
    assert set(committed_values(cluster, topic, PARTITIONS)) == expected


# Row 44: the same id twice.


@BOTH
@pytest.mark.parametrize("state", KEPT)
def test_row_44_of_two_producers_of_one_id_the_later_one_wins_in_every_state(
    cluster: LiveCluster, state: TransactionState, version: int
) -> None:
    topic = f"rivals-{state.text}-{version}"
    cluster.create(topic, partitions=PARTITIONS)
    first, second = (Producer(cluster, f"id-{topic}", topic, version) for _ in range(2))
    held = HeldMarkers(cluster.node(first.coordinator)) if state in AFTER else None
    bring_to(first, state)
    request = second.init_request()
    answers = second.client(request[0]).send(request)
    cluster.until(lambda: answers)
    if held is not None:
        assert answers == [ErrorCode.CONCURRENT_TRANSACTIONS]
        held.release()
    assert answers == [ErrorCode.NONE] or second.init() is ErrorCode.NONE
    assert first.write(0, b"zombie") in (
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    )
    assert first.end(commit=True) is ErrorCode.PRODUCER_FENCED
    assert second.write(0, b"winner") is ErrorCode.NONE
    assert first.end(commit=True) is ErrorCode.PRODUCER_FENCED
    assert second.end(commit=True) is ErrorCode.NONE
    was_committed = AFTER.get(state, state) is State.COMPLETE_COMMIT
    kept = {b"winner"} | ({f"{first.id} first".encode()} if was_committed else set())
    assert set(committed_values(cluster, topic, PARTITIONS)) == kept


# Row 44: a commit comes as the timeout passes.


@BOTH
def test_row_44_of_a_commit_and_the_timeout_exactly_one_wins(
    cluster: LiveCluster, version: int
) -> None:
    topic, timeout_ms = f"race-{version}", 1_000
    cluster.create(topic, partitions=PARTITIONS)
    expected, outcomes = set(), set()
    for early_ms in (30, 10, 5, 2, 0, -5, -30):
        producer = Producer(cluster, f"{topic}-{early_ms}", topic, version, timeout_ms)
        assert producer.init() is ErrorCode.NONE
        began_ns = cluster.scheduler.now_ns
        values = [f"{producer.id} {index}".encode() for index in range(PARTITIONS)]
        for index, value in enumerate(values):
            assert producer.write(index, value) is ErrorCode.NONE
        cluster.scheduler.run(began_ns + (timeout_ms - early_ms) * MS)
        error = producer.end(commit=True)
        outcomes.add(error)
        if error is ErrorCode.NONE:
            expected |= set(values)
    cluster.scheduler.run(cluster.scheduler.now_ns + 2 * SECOND)
    assert ErrorCode.NONE in outcomes
    lost = {ErrorCode.PRODUCER_FENCED} if version == 1 else {ErrorCode.INVALID_TXN_STATE}
    assert outcomes - {ErrorCode.NONE} == lost
    assert set(committed_values(cluster, topic, PARTITIONS)) == expected


# Row 44: the last epochs.


def test_row_44_ids_rotate_at_the_last_epoch_while_coordinators_are_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begins_near_the_last_epoch(monkeypatch)
    rotated: set[int] = set()
    for seed in range(6):
        world = transactional(*KILLS, linger_rate=500, timeout_ms=700)(seed)
        outcome = run_seed(world)
        assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])
        observed = world.clients.transactions.observed
        for plan in world.plan.transactions.producers:
            ids = {
                each.producer_id
                for each in observed.acknowledged
                if each.transactional_id == plan.transactional_id
            }
            if len(ids) > 1:
                rotated.add(plan.version)
    assert rotated == {1, 2}
