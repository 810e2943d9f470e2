"""Each cell of the table of states and events, through the operations of a shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.coordinator.answered_connection import ANSWER_READ_MS
from odradek.coordinator.operation import OperationResult, Reply
from odradek.coordinator.transaction.add_partitions import (
    NO_CONNECTION,
    ProducerIdentity,
    add_partitions,
    verify_partitions,
)
from odradek.coordinator.transaction.end_txn import complete, end_error, end_txn, timed_out
from odradek.coordinator.transaction.init_producer_id import init_error, init_producer_id
from odradek.coordinator.transaction.markers import TransactionEnd
from odradek.coordinator.transaction.transaction_metadata import (
    LAST_EPOCH,
    MAX_EPOCH,
    TransactionMetadata,
    tombstone,
)
from odradek.coordinator.transaction.transaction_shard import EXPIRE, TransactionShard
from odradek.coordinator.transaction.transaction_state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    ENDING,
    KEPT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TRANSITIONS,
    Event,
    TransactionState,
    outcome,
)
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from unit.coordinator.transaction_surroundings import Surroundings

NOW_MS = 10**12
PARTITION = TopicPartition("t", 0)


class OneId:
    """A shard with one transactional id in a state. Appends are committed at once."""

    def __init__(
        self, state: TransactionState | None = None, version: int = 2, **fields: Any
    ) -> None:
        self.around = Surroundings(version)
        self.shard = TransactionShard(self.around, 7, 3)
        if state is not None:
            open_now = state is ONGOING or state in ENDING
            values: dict[str, Any] = {
                "producer_id": 1,
                "producer_epoch": 5,
                "last_producer_epoch": 4,
                "timeout_ms": 1_000,
                "state": state,
                "partitions": frozenset({PARTITION}) if open_now else frozenset(),
                "start_ms": NOW_MS - 100,
                "last_update_ms": NOW_MS - 50,
                "transaction_version": 2,
                "previous_producer_id": 1,
            }
            self.shard.replay(TransactionMetadata("id", **values | fields).record())
        self.now_ms = NOW_MS
        self.monotonic_ms = 0

    @property
    def metadata(self) -> TransactionMetadata:
        found = self.shard.get("id")
        assert found is not None
        return found

    @property
    def producer(self) -> ProducerIdentity:
        return ProducerIdentity("id", self.metadata.producer_id, self.metadata.producer_epoch)

    def run(self, operation: Callable[[OperationResult, Reply[Any]], None], refusal: Any) -> Any:
        """Run an operation, and return its answer; None if it has none."""
        answers: list[Any] = []
        result = OperationResult(self.now_ms)
        operation(result, Reply(answers.append, refusal))
        for record in result.records:
            self.shard.replay(record)
        for step in result.steps if result.records else ():
            step()
        for reply, response in result.answers:
            reply.send(response)
        for step in result.committed_steps if result.records else ():
            step()
        return answers[0] if answers else None

    def init(self, expected: tuple[int, int] = (-1, -1)) -> tuple[ErrorCode, int, int]:
        request = InitProducerIdRequest(
            transactional_id="id",
            transaction_timeout_ms=1_000,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        found = self.run(
            lambda result, reply: init_producer_id(self.shard, result, request, reply), init_error
        )
        return ErrorCode(found.error_code), found.producer_id, found.producer_epoch

    def add(self, producer: ProducerIdentity | None = None, connection: int = 1) -> ErrorCode:
        of = producer or self.producer
        found: ErrorCode = self.run(
            lambda result, reply: add_partitions(
                self.shard, result, of, (PARTITION,), 0, connection, reply
            ),
            lambda error: error,
        )
        return found

    def end(
        self,
        committed: bool,
        bumps: bool = True,
        producer: ProducerIdentity | None = None,
        connection: int = NO_CONNECTION,
    ) -> tuple[ErrorCode, int, int]:
        of = producer or self.producer
        found = self.run(
            lambda result, reply: end_txn(
                self.shard, result, of, committed, bumps, connection, self.monotonic_ms, reply
            ),
            end_error,
        )
        return ErrorCode(found.error_code), found.producer_id, found.producer_epoch

    def markers_written(self) -> None:
        before = self.metadata
        end = TransactionEnd(
            "id", 7, 3, before.producer_id, before.producer_epoch, True, 2, before.partitions
        )
        self.run(
            lambda result, reply: complete(self.shard, result, end, reply), lambda error: error
        )

    def time_out(self) -> None:
        self.run(lambda result, reply: timed_out(self.shard, result, "id"), None)

    def expire(self) -> None:
        self.now_ms += 8 * 24 * 3600 * 1000
        self.run(lambda result, reply: self.shard.expired((EXPIRE,), result), None)


def happens(one: OneId, event: Event) -> ErrorCode:
    """Let an event happen; return the error that answers it."""
    epoch_before = ProducerIdentity("id", 1, one.metadata.producer_epoch - 1)
    actions: dict[Event, Callable[[], Any]] = {
        Event.INIT_PRODUCER_ID: lambda: one.init()[0],
        Event.ADD_PARTITIONS: one.add,
        Event.COMMIT: lambda: one.end(True, False)[0],
        Event.ABORT: lambda: one.end(False, False)[0],
        Event.COMMIT_AND_BUMP: lambda: one.end(True)[0],
        Event.ABORT_AND_BUMP: lambda: one.end(False)[0],
        Event.COMMIT_AGAIN: lambda: one.end(True, True, epoch_before)[0],
        Event.ABORT_AGAIN: lambda: one.end(False, True, epoch_before)[0],
        Event.MARKERS_WRITTEN: one.markers_written,
        Event.TIMED_OUT: one.time_out,
        Event.EXPIRED: one.expire,
    }
    error = actions[event]()
    return ErrorCode.NONE if error is None else error


def test_the_table_has_a_cell_for_each_state_and_event() -> None:
    assert list(TRANSITIONS) == list(Event)
    assert all(len(row) == len(KEPT) for row in TRANSITIONS.values())


@pytest.mark.parametrize("state", KEPT)
@pytest.mark.parametrize("event", Event)
def test_each_cell_is_what_happens(event: Event, state: TransactionState) -> None:
    one = OneId(state)
    before = one.metadata
    error = happens(one, event)
    after = outcome(event, state)
    if isinstance(after, ErrorCode):
        assert (error, one.metadata) == (after, before)
        assert not one.around.ends
    elif after is DEAD:
        assert one.shard.get("id") is None
    else:
        fences = event is Event.INIT_PRODUCER_ID and state is ONGOING
        assert error is (ErrorCode.CONCURRENT_TRANSACTIONS if fences else ErrorCode.NONE)
        assert one.metadata.state is after
        assert len(one.around.ends) == (after in ENDING)


@pytest.mark.parametrize("state", KEPT)
def test_verifying_partitions_leaves_the_state_of_the_id_as_it_is(state: TransactionState) -> None:
    one = OneId(state)
    before = one.metadata
    found = one.run(
        lambda result, reply: verify_partitions(
            one.shard, result, one.producer, (PARTITION,), reply
        ),
        None,
    )
    expected = ErrorCode.TRANSACTION_ABORTABLE
    if state in ENDING:
        expected = ErrorCode.CONCURRENT_TRANSACTIONS
    elif state is ONGOING:
        expected = ErrorCode.NONE
    assert found == {PARTITION: expected}
    assert one.metadata == before


@pytest.mark.parametrize("state", KEPT)
@pytest.mark.parametrize("version", [0, 2])
def test_an_id_with_the_last_epoch_is_replaced_in_every_state(
    state: TransactionState, version: int
) -> None:
    """KAFKA-18660, KAFKA-19367, KAFKA-20090: no client gets the epoch 32767."""
    epoch = MAX_EPOCH if state in ENDING and version == 2 else LAST_EPOCH
    fields = {"producer_epoch": epoch, "transaction_version": version}
    if state in ENDING and version == 2:
        fields |= {"next_producer_id": 90, "last_producer_epoch": LAST_EPOCH}
    one = OneId(state, version, **fields)
    for _ in range(3):
        error, producer_id, granted = one.init()
        if error is ErrorCode.NONE:
            break
        assert error is ErrorCode.CONCURRENT_TRANSACTIONS
        one.markers_written()
    assert error is ErrorCode.NONE
    assert producer_id != 1
    assert granted in (0, 1)
    assert one.metadata.next_producer_id == -1


def test_the_end_at_the_last_epoch_gives_the_next_transaction_a_new_id() -> None:
    one = OneId(ONGOING, producer_epoch=LAST_EPOCH)
    old = one.producer
    assert one.end(True) == (ErrorCode.NONE, 100, 0)
    assert one.around.ends[0].producer_epoch == MAX_EPOCH
    one.markers_written()
    assert one.end(True, producer=old) == (ErrorCode.NONE, 100, 0), "the request again"
    assert one.init((1, LAST_EPOCH)) == (ErrorCode.NONE, 100, 0), "it recovers"


def test_without_a_producer_id_an_end_that_needs_one_is_asked_again() -> None:
    one = OneId(ONGOING, producer_epoch=LAST_EPOCH)
    one.around.next_id = None
    assert one.end(True)[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert one.metadata.state is ONGOING
    one.time_out()
    assert one.metadata.state is ONGOING


def test_a_timeout_bumps_the_epoch_and_aborts() -> None:
    for version, last in ((2, 5), (0, -1)):
        one = OneId(ONGOING, version)
        one.time_out()
        found = one.metadata
        assert (found.state, found.producer_epoch, found.last_producer_epoch) == (
            PREPARE_ABORT,
            6,
            last,
        )
        (end,) = one.around.ends
        assert (end.producer_epoch, end.committed, end.transaction_version) == (6, False, version)
        assert one.around.timeouts == 1


def test_a_producer_that_recovers_gets_the_next_epoch_and_the_same_for_a_repeated_request() -> None:
    one = OneId(EMPTY)
    assert one.init((1, 5)) == (ErrorCode.NONE, 1, 6)
    assert one.init((1, 5)) == (ErrorCode.NONE, 1, 6)
    assert one.init((1, 4))[0] is ErrorCode.PRODUCER_FENCED
    assert one.init((2, 6))[0] is ErrorCode.PRODUCER_FENCED
    assert one.init() == (ErrorCode.NONE, 1, 7)
    assert one.init((1, 6))[0] is ErrorCode.PRODUCER_FENCED, "another producer has the id"


def test_an_earlier_producer_does_not_abort_the_transaction_of_the_present_one() -> None:
    """In Kafka it aborts that one, and learns afterwards that it is fenced."""
    one = OneId(ONGOING)
    assert one.init((1, 4))[0] is ErrorCode.PRODUCER_FENCED
    assert one.metadata.state is ONGOING


@pytest.mark.parametrize(
    ("added", "ended", "error"),
    [
        ((1,), 1, ErrorCode.NONE),
        ((1,), 2, ErrorCode.NONE),
        ((2,), 1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ((1, 2), 1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ((2, 1), 1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ((NO_CONNECTION,), 1, ErrorCode.NONE),
        ((2,), NO_CONNECTION, ErrorCode.NONE),
    ],
)
def test_an_end_of_an_older_connection_than_the_transactions_ends_nothing(
    added: tuple[int, ...], ended: int, error: ErrorCode
) -> None:
    one = OneId(EMPTY)
    for connection in added:
        assert one.add(connection=connection) is ErrorCode.NONE
    assert one.end(True, False, connection=ended)[0] is error
    assert one.metadata.state is (ONGOING if error else PREPARE_COMMIT)


def test_an_end_of_an_older_connection_whose_client_reads_the_answer_is_taken() -> None:
    one = OneId(EMPTY)
    one.add(connection=3)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert one.end(True, False, connection=2)[0] is loading
    assert one.end(True, False, connection=1)[0] is loading, "another one"
    one.monotonic_ms += ANSWER_READ_MS - 1
    assert one.end(True, False, connection=1)[0] is loading, "sent with the first one"
    one.monotonic_ms += 1
    assert one.end(True, False, connection=1)[0] is ErrorCode.NONE
    assert one.metadata.state is PREPARE_COMMIT


def test_the_next_transaction_asks_an_older_connection_again() -> None:
    one = OneId(EMPTY)
    for _ in range(2):
        one.add(connection=3)
        assert one.end(True, False, connection=1)[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        one.monotonic_ms += ANSWER_READ_MS
        assert one.end(True, False, connection=1)[0] is ErrorCode.NONE
        one.markers_written()


def test_with_transaction_version_2_the_epoch_tells_what_is_late() -> None:
    one = OneId(EMPTY)
    one.add(connection=2)
    assert one.end(True, connection=1)[0] is ErrorCode.NONE


@pytest.mark.parametrize("state", [COMPLETE_COMMIT, COMPLETE_ABORT])
@pytest.mark.parametrize("committed", [True, False])
def test_a_fenced_producer_does_not_get_the_epoch_of_its_successor_of_version_1(
    state: TransactionState, committed: bool
) -> None:
    one = OneId(state, transaction_version=0, last_producer_epoch=-1)
    fenced = ProducerIdentity("id", 1, 4)
    assert one.end(committed, producer=fenced)[0] is ErrorCode.PRODUCER_FENCED
    assert one.metadata.state is state


def test_a_tombstone_removes_an_id_and_its_count() -> None:
    one = OneId(EMPTY)
    assert one.shard.counts[EMPTY] == 1
    one.shard.replay(tombstone("id"))
    assert (len(one.shard), sum(one.shard.counts.values())) == (0, 0)


def test_an_end_without_markers_may_complete_while_its_shard_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = OneId(PREPARE_ABORT, partitions=frozenset())
    monkeypatch.setattr(one.around, "write_markers", lambda end: one.markers_written())
    result = OperationResult(NOW_MS)
    one.shard.loaded(result)
    assert one.metadata.state is COMPLETE_ABORT
    assert result.timers
