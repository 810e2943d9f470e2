"""The AlterPartition requests of a broker: batches, answers, retries."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from odradek.replication.alter_partition_manager import AlterPartitionManager, IsrCommitted, Key
from odradek.replication.leadership import IsrProposal

TOPIC = UUID(int=7)


def proposal(*isr: int) -> IsrProposal:
    return IsrProposal(tuple((broker, 100 + broker) for broker in isr), 5, 9)


class Controller:
    """What a broker sends, and what its partitions hear. `timers` are (delay, function)."""

    def __init__(self) -> None:
        self.sent: list[AlterPartitionRequest] = []
        self.callbacks: list[Callable[[AlterPartitionResponse | None], None]] = []
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.heard: list[tuple[int, object]] = []
        self.manager = AlterPartitionManager(
            1, lambda: 555, self.send, lambda ms, run: self.timers.append((ms, run))
        )

    def send(
        self,
        request: AlterPartitionRequest,
        answered: Callable[[AlterPartitionResponse | None], None],
    ) -> None:
        self.sent.append(request)
        self.callbacks.append(answered)

    def isr_committed(self, key: Key, answer: IsrCommitted) -> None:
        self.heard.append((key[1], answer.isr))

    def isr_withdrawn(self, key: Key, proposal: IsrProposal) -> None:
        self.heard.append((key[1], proposal))

    def submit(self, number: int, *isr: int) -> IsrProposal:
        made = proposal(*isr)
        self.manager.submit((TOPIC, number), made, self)
        return made

    def run_timer(self) -> int:
        """Run the only timer and return its delay."""
        ((delay_ms, run),) = self.timers
        self.timers = []
        run()
        return delay_ms

    def partitions(self) -> list[int]:
        """The partitions of the last request."""
        return [each.partition_index for topic in self.sent[-1].topics for each in topic.partitions]

    def answer(self, errors: dict[int, ErrorCode], top: ErrorCode = ErrorCode.NONE) -> None:
        partitions = [
            AlteredPartition(
                partition_index=number,
                error_code=error,
                leader_id=1,
                leader_epoch=5,
                isr=[1, 2],
                partition_epoch=10,
            )
            for number, error in errors.items()
        ]
        topics = [AlteredTopic(topic_id=TOPIC, partitions=partitions)]
        self.callbacks[-1](AlterPartitionResponse(error_code=top, topics=topics))


def test_proposals_of_one_event_share_a_request():
    controller = Controller()
    controller.submit(0, 1, 2)
    controller.submit(1, 1, 2)
    assert controller.sent == []
    assert controller.run_timer() == 0
    request = controller.sent[0]
    assert (request.broker_id, request.broker_epoch, controller.partitions()) == (1, 555, [0, 1])
    members = request.topics[0].partitions[0].new_isr_with_epochs
    assert [(each.broker_id, each.broker_epoch) for each in members] == [(1, 555), (2, 102)]


def test_one_request_is_in_flight_at_a_time():
    controller = Controller()
    controller.submit(0, 1)
    controller.run_timer()
    controller.submit(1, 1)
    assert controller.timers == []
    controller.answer({0: ErrorCode.NONE})
    assert controller.run_timer() == 0
    assert controller.partitions() == [1]


def test_the_partition_takes_what_the_controller_has_committed():
    controller = Controller()
    controller.submit(0, 1)
    controller.run_timer()
    controller.answer({0: ErrorCode.NONE})
    assert controller.heard == [(0, (1, 2))]
    assert controller.manager.pending == 0


@pytest.mark.parametrize("error", [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA])
def test_a_change_that_was_not_made_is_withdrawn(error: ErrorCode):
    controller = Controller()
    made = controller.submit(0, 1)
    controller.run_timer()
    controller.answer({0: error})
    assert controller.heard == [(0, made)]
    assert controller.timers == []


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_with_old_metadata_a_change_stays_pending_until_newer_comes(error: ErrorCode):
    controller = Controller()
    controller.submit(0, 1)
    controller.run_timer()
    controller.answer({0: error})
    assert (controller.heard, controller.timers, controller.manager.pending) == ([], [], 0)


def test_another_error_of_a_partition_is_retried_alone():
    controller = Controller()
    controller.submit(0, 1)
    controller.submit(1, 1)
    controller.run_timer()
    controller.answer({0: ErrorCode.NONE, 1: ErrorCode.UNKNOWN_SERVER_ERROR})
    assert controller.run_timer() == 50
    assert controller.partitions() == [1]


def test_without_an_answer_or_with_a_stale_broker_epoch_all_are_retried():
    controller = Controller()
    controller.submit(0, 1)
    controller.submit(1, 1)
    controller.run_timer()
    controller.callbacks[-1](None)
    assert controller.run_timer() == 50
    controller.answer({}, ErrorCode.STALE_BROKER_EPOCH)
    assert controller.run_timer() == 50
    assert controller.partitions() == [0, 1]


def test_a_partition_that_is_led_elsewhere_is_not_retried_and_hears_nothing():
    controller = Controller()
    controller.submit(0, 1)
    controller.submit(1, 1)
    controller.run_timer()
    controller.manager.forget((TOPIC, 0))
    controller.answer({0: ErrorCode.NONE, 1: ErrorCode.NONE})
    assert controller.heard == [(1, (1, 2))]


def test_a_newer_proposal_of_the_same_partition_is_sent_instead_of_a_failed_one():
    controller = Controller()
    controller.submit(0, 1)
    controller.run_timer()
    controller.submit(0, 1, 3)
    controller.callbacks[-1](None)
    controller.run_timer()
    members = controller.sent[-1].topics[0].partitions[0].new_isr_with_epochs
    assert [each.broker_id for each in members] == [1, 3]
