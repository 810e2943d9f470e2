"""Asking the controller to change ISRs: the AlterPartition requests of this broker.

Leaders submit proposals; one request at a time carries those of all partitions (KIP-497):

    submit ─► unsent ─► [end of event, nothing in flight] send ─► answered ─► the proposal is done
                 ▲                                             └► again in RETRY_MS

A pure state machine: `send` is an argument, answers and time are given to it. What an answer means:

| error                                        | then                                             |
|----------------------------------------------|--------------------------------------------------|
| none                                         | the partition takes the ISR that is committed    |
| OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA  | not changed: the partition withdraws its change  |
| FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, | this broker's metadata is old: the change stays  |
| NEW_LEADER_ELECTED, UNKNOWN_TOPIC_ID,        | pending until newer metadata replaces it, as the |
| UNKNOWN_TOPIC_OR_PARTITION, INVALID_REQUEST  | controller may have made it                      |
| anything else, of a partition or the request | sent again                                       |

A broker epoch that is stale is retried as well: the broker is registering again.

A replica whose log is damaged, or whose disk is full, asks in the same way to be out of the ISR,
and no leader.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from odradek.model.errors import ErrorCode
from odradek.protocol.api.alter_partition import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    ProposedReplica,
)
from odradek.replication.leadership import IsrProposal

logger = logging.getLogger(__name__)

RETRY_MS: Final = 50
MAX_AT_ONCE: Final = 500
"""Partitions in one request; the others follow in the next. The controller reads it in one turn."""
WITHDRAWN: Final = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
OLD_METADATA: Final = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_REQUEST,
)

Key = tuple[UUID, int]


class IsrCommitted(NamedTuple):
    """The ISR of a partition that the controller answers."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int


class IsrListener(Protocol):
    """Gets the outcomes of proposals, by the partition's topic id and number."""

    def isr_committed(self, key: Key, answer: IsrCommitted) -> None:
        """Handle the ISR that the controller has committed: the proposed one or a newer one."""
        ...

    def isr_withdrawn(self, key: Key, proposal: IsrProposal) -> None:
        """Handle that the controller did not change the ISR and will not."""
        ...


class ControllerSender(Protocol):
    """Sends one request to the active controller."""

    def __call__(
        self,
        request: AlterPartitionRequest,
        answered: Callable[[AlterPartitionResponse | None], None],
    ) -> None:
        """`answered` is called once, later; None: there was no answer."""
        ...


class AlterPartitionManager:
    """The proposals of this broker. Owner thread."""

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        send: ControllerSender,
        call_later: Callable[[int, Callable[[], None]], object],
    ) -> None:
        """`call_later(ms, function)`: a timer."""
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._send = send
        self._call_later = call_later
        self._unsent: dict[Key, tuple[IsrListener, IsrProposal]] = {}
        self._in_flight: dict[Key, tuple[IsrListener, IsrProposal]] = {}
        self._scheduled = False
        self._sending = False

    @property
    def pending(self) -> int:
        """The number of proposals that wait for an answer."""
        return len({**self._in_flight, **self._unsent})

    def submit(self, key: Key, proposal: IsrProposal, listener: IsrListener) -> None:
        """Send a proposal; it replaces one of the same partition that was not sent yet.

        A partition has one proposal at a time, but makes another after newer metadata has replaced
        the first.
        """
        self._unsent[key] = listener, proposal
        self._schedule(0)

    def forget(self, key: Key) -> None:
        """Drop the proposal of a partition that this broker does not lead any more."""
        self._unsent.pop(key, None)
        self._in_flight.pop(key, None)

    def _schedule(self, delay_ms: int) -> None:
        if not self._scheduled and not self._sending:
            self._scheduled = True
            self._call_later(delay_ms, self._propagate)

    def _propagate(self) -> None:
        self._scheduled = False
        if not self._unsent or self._sending:
            return
        self._sending = True
        self._in_flight = dict(islice(self._unsent.items(), MAX_AT_ONCE))
        for key in self._in_flight:
            del self._unsent[key]
        sent, broker_epoch = self._in_flight, self._broker_epoch()
        topics: dict[UUID, AlterPartitionTopic] = {}
        for (topic_id, number), (_, proposal) in sent.items():
            topic = topics.setdefault(
                topic_id, AlterPartitionTopic(topic_id=topic_id, partitions=[])
            )
            topic.partitions.append(partition_of(number, proposal, self._node_id, broker_epoch))
        request = AlterPartitionRequest(
            broker_id=self._node_id,
            broker_epoch=broker_epoch,
            topics=list(topics.values()),
        )
        self._send(request, self._answered)

    def _answered(self, response: AlterPartitionResponse | None) -> None:
        sent, self._in_flight, self._sending = self._in_flight, {}, False
        done = False
        if response is None or response.error_code != ErrorCode.NONE:
            if response is not None:
                logger.warning("AlterPartition: %s", ErrorCode(response.error_code).name)
        else:
            done = True
            for topic in response.topics:
                for answer in topic.partitions:
                    key = topic.topic_id, answer.partition_index
                    if key in sent and self._take(key, *sent[key], answer):
                        del sent[key]
        for key, proposed in sent.items():  # without an answer, or to be sent again
            self._unsent.setdefault(key, proposed)
        if self._unsent:
            self._schedule(0 if done and not sent else RETRY_MS)

    def _take(
        self, key: Key, listener: IsrListener, proposal: IsrProposal, answer: AlteredPartition
    ) -> bool:
        """Handle the answer to one proposal. True if it is done, False to send it again."""
        error = answer.error_code
        if error == ErrorCode.NONE:
            listener.isr_committed(
                key,
                IsrCommitted(
                    tuple(answer.isr),
                    answer.leader_epoch,
                    answer.partition_epoch,
                    answer.leader_recovery_state,
                ),
            )
        elif error in WITHDRAWN:
            listener.isr_withdrawn(key, proposal)
        elif error in OLD_METADATA:
            logger.info("a proposed ISR was refused with %s", ErrorCode(error).name)
        else:
            logger.warning("a proposed ISR is sent again after %s", ErrorCode(error).name)
            return False
        return True


def partition_of(
    number: int, proposal: IsrProposal, node_id: int, broker_epoch: int
) -> AlterPartitionPartition:
    """A proposal as the request of this broker carries it."""
    return AlterPartitionPartition(
        partition_index=number,
        leader_epoch=proposal.leader_epoch,
        new_isr_with_epochs=[
            ProposedReplica(
                broker_id=broker_id, broker_epoch=broker_epoch if broker_id == node_id else known
            )
            for broker_id, known in proposal.isr
        ],
        leader_recovery_state=proposal.leader_recovery_state,
        partition_epoch=proposal.partition_epoch,
        is_damaged=proposal.is_damaged,
        has_no_room=proposal.has_no_room,
    )
