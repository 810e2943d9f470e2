"""A partition takes the first batch of a transaction when its coordinator knows of it (KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from odradek.broker.transaction_verification import (
    CONCURRENT_WAIT_MS,
    TransactionalBatches,
    TransactionVerification,
    VerificationResult,
    operation_of_produce,
    operation_of_txn_offset_commit,
)
from odradek.log.verification import VerificationGuard
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from odradek.timing import SystemTimer

HERE, ELSEWHERE = 1, 2
Errors = dict[TopicPartition, ErrorCode]
TV1, ABORTABLE, TV2 = (operation_of_produce(version) for version in (10, 11, 12))


def test_versions_stand_for_kafkas_operations() -> None:
    assert [operation_of_produce(each) for each in (9, 11, 12, 13)] == [TV1, ABORTABLE, TV2, TV2]
    of_offsets = [operation_of_txn_offset_commit(each) for each in (3, 4, 5)]
    assert of_offsets == [TV1, ABORTABLE, TV2]


class Partition:
    """A partition whose log has an open transaction or none."""

    def __init__(self, number: int) -> None:
        self.topic_partition = TopicPartition("t", number)
        self.found: VerificationGuard | ErrorCode | None = VerificationGuard(0, 0, True)
        self.started: list[tuple[int, int, int, bool]] = []
        self.ended: list[tuple[int, VerificationGuard]] = []

    def start_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, supports_epoch_bump: bool
    ) -> VerificationGuard | ErrorCode | None:
        self.started.append((producer_id, producer_epoch, base_sequence, supports_epoch_bump))
        return self.found

    def end_verification(self, producer_id: int, guard: VerificationGuard) -> None:
        self.ended.append((producer_id, guard))

    def guard_stands(self, producer_id: int, guard: VerificationGuard) -> bool:
        return guard is self.found


@dataclass
class Transactions:
    """The coordinators: what was asked of the one here, and who has the ids."""

    nodes: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    answers: list[Callable[[Errors], None]] = field(default_factory=list)
    ends: list[tuple[str, int, Callable[[], None]]] = field(default_factory=list)

    def coordinator_node(self, transactional_id: str) -> int:
        return self.nodes.get(transactional_id, HERE)

    def add_partitions_to_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        verify_only: bool,
        partitions: Sequence[TopicPartition],
        answer: Callable[[Errors], None],
    ) -> None:
        self.asked.append((transactional_id, producer_id, producer_epoch, verify_only, partitions))
        self.answers.append(answer)

    def after_end(
        self, transactional_id: str, timeout_ms: int, callback: Callable[[], None]
    ) -> None:
        self.ends.append((transactional_id, timeout_ms, callback))


@dataclass
class Channel:
    """The requests to other nodes."""

    sent: list[tuple[int, AddPartitionsToTxnRequest]] = field(default_factory=list)
    answers: list[Callable[[AddPartitionsToTxnResponse | None], None]] = field(default_factory=list)

    def send(
        self,
        node_id: int,
        request: AddPartitionsToTxnRequest,
        answered: Callable[[AddPartitionsToTxnResponse | None], None],
        timeout_ms: int,
    ) -> None:
        self.sent.append((node_id, request))
        self.answers.append(answered)

    def asked(self) -> list[list[tuple[str, int, bool, list[tuple[str, list[int]]]]]]:
        """Each request: (id, epoch, verify only, partitions by topic) of its transactions."""
        return [
            [
                (
                    each.transactional_id,
                    each.producer_epoch,
                    each.verify_only,
                    [(topic.name, topic.partitions) for topic in each.topics],
                )
                for each in request.transactions
            ]
            for _, request in self.sent
        ]


class Stage:
    """A broker that has coordinators and a way to other nodes, and notes what was verified."""

    node_id = HERE

    def __init__(self) -> None:
        self.timer = SystemTimer(0)
        self.transactions = Transactions()
        self.broker_channel = Channel()
        self.replicas = self
        self.verifies_transactions = True
        self.env = self
        self.soon: list[Callable[[], None]] = []
        self.partitions = {number: Partition(number) for number in range(3)}
        self.verification = TransactionVerification(cast("Any", self))
        self.answered: list[tuple[str, VerificationResult]] = []
        self.raises: set[str] = set()

    def call_soon(self, function: Callable[[], None]) -> None:
        self.soon.append(function)

    def run_soon(self) -> None:
        while self.soon:
            self.soon.pop(0)()

    def verify(
        self,
        name: str = "first",
        *numbers: int,
        transactional_id: str = "id",
        producer_id: int = 7,
        epoch: int = 0,
        operation: Any = TV2,
    ) -> VerificationResult | None:
        partitions = [(cast("Any", self.partitions[each]), 10 * each) for each in numbers or (0,)]
        batches = TransactionalBatches(transactional_id, producer_id, epoch, partitions, operation)

        def answered(verified: VerificationResult) -> None:
            if name in self.raises:
                raise ZeroDivisionError
            self.answered.append((name, verified))

        return self.verification.verify(batches, answered)

    def key(self, number: int) -> TopicPartition:
        return TopicPartition("t", number)

    def guard(self, number: int) -> VerificationGuard:
        found = self.partitions[number].found
        assert isinstance(found, VerificationGuard)
        return found


def refused(verified: VerificationResult) -> dict[int, str]:
    return {key.partition: error.name for key, error in verified.errors.items()}


def test_open_transaction_asks_nobody() -> None:
    stage = Stage()
    stage.partitions[0].found = None
    assert stage.verify() == VerificationResult({}, {})
    assert stage.transactions.asked == []
    assert stage.partitions[0].started == [(7, 0, 0, True)]


def test_first_batch_waits_for_the_coordinator_and_gets_the_guard() -> None:
    stage = Stage()
    assert stage.verify() is None
    assert stage.transactions.asked == [("id", 7, 0, False, [stage.key(0)])]
    assert stage.answered == []
    stage.transactions.answers.pop()({})
    assert stage.answered == [("first", VerificationResult({}, {stage.key(0): stage.guard(0)}))]
    assert len(stage.verification) == 0


def test_older_clients_are_verified_only() -> None:
    stage = Stage()
    stage.verify(operation=TV1)
    assert stage.transactions.asked == [("id", 7, 0, True, [stage.key(0)])]
    assert stage.partitions[0].started == [(7, 0, 0, False)]


def test_nothing_is_verified_for_older_clients_when_it_is_switched_off() -> None:
    stage = Stage()
    stage.verifies_transactions = False
    assert stage.verify(operation=TV1) == VerificationResult({}, {})
    assert stage.verify(operation=TV2) is None, "a partition must still be added"


def test_fenced_epoch_is_refused_before_anybody_is_asked() -> None:
    stage = Stage()
    stage.partitions[0].found = ErrorCode.INVALID_PRODUCER_EPOCH
    verified = stage.verify("first", 0)
    assert verified is not None
    assert refused(verified) == {0: "INVALID_PRODUCER_EPOCH"}
    assert stage.transactions.asked == []


def test_partition_led_elsewhere_is_refused_alone() -> None:
    stage = Stage()
    stage.partitions[0].found = ErrorCode.NOT_LEADER_OR_FOLLOWER
    stage.verify("first", 0, 1)
    stage.transactions.answers.pop()({})
    ((_, verified),) = stage.answered
    assert refused(verified) == {0: "NOT_LEADER_OR_FOLLOWER"}
    assert list(verified.guards) == [stage.key(1)]


@pytest.mark.parametrize(
    ("operation", "error", "expected"),
    [
        (TV2, ErrorCode.PRODUCER_FENCED, "INVALID_PRODUCER_EPOCH"),
        (TV1, ErrorCode.TRANSACTION_ABORTABLE, "INVALID_TXN_STATE"),
        (ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE, "TRANSACTION_ABORTABLE"),
        (TV1, ErrorCode.CONCURRENT_TRANSACTIONS, "CONCURRENT_TRANSACTIONS"),
        (TV2, ErrorCode.INVALID_PRODUCER_ID_MAPPING, "INVALID_PRODUCER_ID_MAPPING"),
    ],
)
def test_errors_of_the_coordinator_become_those_of_clients(
    operation: Any, error: ErrorCode, expected: str
) -> None:
    stage = Stage()
    stage.verify("first", 0, 1, operation=operation)
    stage.transactions.answers.pop()({stage.key(0): error})
    ((_, verified),) = stage.answered
    assert refused(verified) == {0: expected}
    assert list(verified.guards) == [stage.key(1)], "no guard where it is refused"


def test_no_coordinator_is_coordinator_not_available() -> None:
    stage = Stage()
    stage.transactions.nodes["id"] = -1
    stage.verify()
    ((_, verified),) = stage.answered
    assert refused(verified) == {0: "COORDINATOR_NOT_AVAILABLE"}


def test_concurrent_end_is_waited_for_with_a_new_guard() -> None:
    """The marker of the transaction before voids a guard that was taken before it."""
    stage = Stage()
    stage.verify()
    stage.timer.advance_clock(10)
    stage.transactions.answers.pop()({stage.key(0): ErrorCode.CONCURRENT_TRANSACTIONS})
    assert stage.answered == []
    transactional_id, left_ms, ended = stage.transactions.ends.pop()
    assert (transactional_id, left_ms) == ("id", CONCURRENT_WAIT_MS - 10)
    after_the_marker = stage.partitions[0].found = VerificationGuard(0, 0, True)
    ended()
    stage.transactions.answers.pop()({})
    assert stage.answered == [("first", VerificationResult({}, {stage.key(0): after_the_marker}))]


def test_answer_that_the_marker_before_has_overtaken_is_asked_for_once_more() -> None:
    """The coordinator has ended the transaction before when the question arrives, and has added the
    partition to the next one; but the guard was taken before the marker was written here."""
    stage = Stage()
    stage.verify()
    after_the_marker = stage.partitions[0].found = VerificationGuard(0, 0, True)
    stage.transactions.answers.pop()({})
    assert stage.answered == []
    stage.transactions.answers.pop()({})
    assert stage.answered == [("first", VerificationResult({}, {stage.key(0): after_the_marker}))]


def test_guard_that_is_void_again_is_left_to_the_append() -> None:
    stage = Stage()
    stage.verify()
    for _ in range(2):
        void = stage.guard(0)
        stage.partitions[0].found = VerificationGuard(0, 0, True)
        stage.transactions.answers.pop()({})
    assert stage.transactions.answers == []
    assert stage.answered == [("first", VerificationResult({}, {stage.key(0): void}))]


def test_end_that_takes_longer_than_the_limit_is_concurrent_transactions() -> None:
    stage = Stage()
    stage.verify()
    stage.timer.advance_clock(CONCURRENT_WAIT_MS)
    stage.transactions.answers.pop()({stage.key(0): ErrorCode.CONCURRENT_TRANSACTIONS})
    ((_, verified),) = stage.answered
    assert refused(verified) == {0: "CONCURRENT_TRANSACTIONS"}


def test_requests_of_a_producer_are_answered_in_their_order() -> None:
    """Else the second one, of the next sequences, could be appended first."""
    stage = Stage()
    stage.verify("first", 0)
    stage.verify("second", 1)
    stage.partitions[2].found = None
    assert stage.verify("third", 2) is None, "it waits, though its own transaction is open"
    assert stage.verify("another", 2, producer_id=8) is not None
    first, second = stage.transactions.answers
    second({})
    assert stage.answered == []
    first({stage.key(0): ErrorCode.TRANSACTION_ABORTABLE})
    assert [name for name, _ in stage.answered] == ["first", "second", "third"]
    assert len(stage.verification) == 0


def remote(stage: Stage) -> None:
    stage.transactions.nodes = {"id": ELSEWHERE, "other": ELSEWHERE}


def response(*results: tuple[str, int, ErrorCode]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResult(
                transactional_id=transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name="t",
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=number, partition_error_code=error
                            )
                        ],
                    )
                ],
            )
            for transactional_id, number, error in results
        ]
    )


def test_another_node_is_asked_for_all_that_came_in_one_turn() -> None:
    stage = Stage()
    remote(stage)
    stage.verify("first", 0, 1)
    stage.verify("other", 2, transactional_id="other", producer_id=8, operation=TV1)
    assert stage.broker_channel.sent == []
    stage.run_soon()
    assert stage.broker_channel.asked() == [
        [("id", 0, False, [("t", [0, 1])]), ("other", 0, True, [("t", [2])])]
    ]
    stage.broker_channel.answers.pop()(
        response(
            ("id", 0, ErrorCode.NONE),
            ("other", 2, ErrorCode.TRANSACTION_ABORTABLE),
        )
    )
    assert [(name, refused(verified)) for name, verified in stage.answered] == [
        ("first", {}),
        ("other", {2: "INVALID_TXN_STATE"}),
    ]


def test_one_request_is_in_flight_and_the_next_has_each_id_once() -> None:
    stage = Stage()
    remote(stage)
    stage.verify("first", 0)
    stage.run_soon()
    stage.verify("second", 1)
    stage.verify("third", 2)
    stage.run_soon()
    assert len(stage.broker_channel.sent) == 1
    stage.broker_channel.answers.pop(0)(response(("id", 0, ErrorCode.NONE)))
    assert stage.broker_channel.asked()[1] == [("id", 0, False, [("t", [1, 2])])]
    stage.broker_channel.answers.pop(0)(response(("id", 2, ErrorCode.PRODUCER_FENCED)))
    assert [(name, refused(verified)) for name, verified in stage.answered] == [
        ("first", {}),
        ("second", {}),
        ("third", {2: "INVALID_PRODUCER_EPOCH"}),
    ]


def test_older_epoch_that_waits_is_fenced_by_a_newer_one() -> None:
    stage = Stage()
    remote(stage)
    stage.verify("old", 0, epoch=1)
    stage.verify("new", 1, epoch=2)
    stage.verify("older still", 2, epoch=0)
    stage.run_soon()
    assert stage.broker_channel.asked() == [[("id", 2, False, [("t", [1])])]]
    stage.broker_channel.answers.pop()(response(("id", 1, ErrorCode.NONE)))
    assert [(name, refused(verified)) for name, verified in stage.answered] == [
        ("old", {0: "INVALID_PRODUCER_EPOCH"}),
        ("new", {}),
        ("older still", {2: "INVALID_PRODUCER_EPOCH"}),
    ]


def test_node_without_an_answer_is_a_network_exception() -> None:
    stage = Stage()
    remote(stage)
    stage.verify()
    stage.run_soon()
    stage.broker_channel.answers.pop()(None)
    ((_, verified),) = stage.answered
    assert refused(verified) == {0: "NETWORK_EXCEPTION"}
    stage.verify("next")
    stage.run_soon()
    assert len(stage.broker_channel.sent) == 2, "the next request is sent"


def test_error_for_the_whole_request_is_one_for_all_of_its_partitions() -> None:
    stage = Stage()
    remote(stage)
    stage.verify("first", 0, 1)
    stage.run_soon()
    answer = AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    stage.broker_channel.answers.pop()(answer)
    ((_, verified),) = stage.answered
    assert refused(verified) == {0: "INVALID_TXN_STATE", 1: "INVALID_TXN_STATE"}


def test_concurrent_end_on_another_node_is_asked_about_again_after_growing_waits() -> None:
    stage = Stage()
    remote(stage)
    stage.verify()
    stage.run_soon()
    asked = [stage.timer.now_ms]
    while stage.broker_channel.answers:
        answer = response(("id", 0, ErrorCode.CONCURRENT_TRANSACTIONS))
        stage.broker_channel.answers.pop()(answer)
        for _ in range(CONCURRENT_WAIT_MS):
            stage.timer.advance_clock(stage.timer.now_ms + 1)
            stage.run_soon()
            if stage.broker_channel.answers:
                asked.append(stage.timer.now_ms)
                break
    assert asked == [0, 2, 6, 14, 30, 62, 100]
    ((_, verified),) = stage.answered
    assert refused(verified) == {0: "CONCURRENT_TRANSACTIONS"}


def test_next_request_leaves_out_what_another_node_coordinates_by_now() -> None:
    """The node of before may be silent: the client tries again with the coordinator of now."""
    stage = Stage()
    remote(stage)
    stage.verify("first", 0)
    stage.run_soon()
    stage.verify("moved", 1)
    stage.verify("other", 2, transactional_id="other", producer_id=8)
    stage.transactions.nodes["id"] = -1
    stage.broker_channel.answers.pop(0)(None)
    assert stage.broker_channel.asked()[1:] == [[("other", 0, False, [("t", [2])])]]
    assert [(name, refused(verified)) for name, verified in stage.answered] == [
        ("first", {0: "NETWORK_EXCEPTION"}),
        ("moved", {1: "NOT_COORDINATOR"}),
    ]
    stage.broker_channel.answers.pop(0)(None)
    stage.verify("next", 1, transactional_id="other", producer_id=8)
    stage.run_soon()
    assert len(stage.broker_channel.sent) == 3, "a request is in flight only while one is sent"


def test_answer_that_raises_leaves_no_other_waiting() -> None:
    stage = Stage()
    remote(stage)
    stage.verify("first", 0)
    stage.verify("other", 2, transactional_id="other", producer_id=8)
    stage.run_soon()
    stage.raises = {"first"}
    stage.verify("behind", 1)
    with pytest.raises(ZeroDivisionError):
        stage.broker_channel.answers.pop()(response(("id", 0, ErrorCode.NONE)))
    assert [name for name, _ in stage.answered] == ["other"]
    assert len(stage.broker_channel.sent) == 2, "the next request is sent"
    stage.broker_channel.answers.pop()(response(("id", 1, ErrorCode.NONE)))
    assert [name for name, _ in stage.answered] == ["other", "behind"]
    assert len(stage.verification) == 0


def test_error_that_this_version_does_not_know_is_an_unknown_server_error() -> None:
    stage = Stage()
    remote(stage)
    stage.verify()
    stage.run_soon()
    stage.broker_channel.answers.pop()(response(("id", 0, cast("ErrorCode", 9_999))))
    ((_, verified),) = stage.answered
    assert refused(verified) == {0: "UNKNOWN_SERVER_ERROR"}


def test_guard_is_withdrawn_when_the_last_batch_that_waits_for_it_is_refused() -> None:
    """Until then it keeps a higher sequence from overtaking a lower one."""
    stage = Stage()
    partition = stage.partitions[0]
    stage.verify("first", 0, 1)
    stage.verify("second", 0)
    first, second = stage.transactions.answers
    second({stage.key(0): ErrorCode.INVALID_PRODUCER_ID_MAPPING})
    assert partition.ended == []
    first({stage.key(0): ErrorCode.INVALID_PRODUCER_ID_MAPPING})
    assert partition.ended == [(7, stage.guard(0))]
    assert stage.partitions[1].ended == [], "it was confirmed there"


@pytest.mark.parametrize("operation", [TV1, ABORTABLE, TV2])
def test_batch_of_no_producer_is_refused_even_if_nothing_is_verified(operation: Any) -> None:
    stage = Stage()
    stage.verifies_transactions = False
    verified = stage.verify("first", 0, producer_id=-1, operation=operation)
    assert verified is not None
    assert refused(verified) == {0: "INVALID_PRODUCER_ID_MAPPING"}
    assert stage.transactions.asked == []
