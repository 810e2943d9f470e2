"""Random requests, failures and failovers of a transactional id.

A coordinator that replays the records of another one has the same state and gives the same answers;
no two producers get the same id and epoch; an id and epoch that were replaced can change nothing.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odradek.coordinator.operation import OperationResult, Reply
from odradek.coordinator.records import CoordinatorRecord
from odradek.coordinator.transaction.add_partitions import (
    NO_CONNECTION,
    ProducerIdentity,
    add_partitions,
)
from odradek.coordinator.transaction.end_txn import complete, end_error, end_txn, timed_out
from odradek.coordinator.transaction.init_producer_id import init_error, init_producer_id
from odradek.coordinator.transaction.markers import TransactionEnd
from odradek.coordinator.transaction.transaction_metadata import MAX_EPOCH, TransactionMetadata
from odradek.coordinator.transaction.transaction_shard import TransactionShard
from odradek.coordinator.transaction.transaction_state import EMPTY, ENDING
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from unit.coordinator.transaction_surroundings import Surroundings

NOW_MS = 10**12
PARTITIONS = [TopicPartition("t", number) for number in range(3)]
Producer = tuple[int, int]


class TransactionalIds(RuleBasedStateMachine):
    """One id under requests of several clients, which may be late or repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.seen: list[Producer] = []
        self.given: set[Producer] = set()
        self.now_ms = NOW_MS
        self.around = Surroundings()
        self.shard = TransactionShard(self.around, 0, 1)

    @initialize(epoch=st.sampled_from([-1, 32_763, 32_765, 32_766]))
    def begin_with(self, epoch: int) -> None:
        if epoch >= 0:
            metadata = TransactionMetadata(
                "id", 1, epoch, state=EMPTY, timeout_ms=1, last_update_ms=NOW_MS
            )
            self.append(self.shard, metadata.record())
            self.seen.append((1, epoch))
            self.given.add((1, epoch))

    # -- running -----------------------------------------------------------------------------------

    def append(self, shard: TransactionShard, record: CoordinatorRecord) -> None:
        key = shard.codec.key_bytes(record)
        value = shard.codec.value_bytes(record)
        self.log.append((key, value))
        shard.replay(record)

    def replayed(self) -> TransactionShard:
        """A shard that another node has loaded."""
        other = TransactionShard(Surroundings(), 0, 2)
        for key, value in self.log:
            record = other.codec.decode(key, value)
            assert record is not None
            other.replay(record)
        return other

    def run(self, operation: Any, refusal: Any) -> Any:
        """Run a request here, and on a copy of another node: both must answer alike."""
        copy = self.replayed()
        assert isinstance(copy.environment, Surroundings)
        copy.environment.next_id = self.around.next_id
        copy.environment.version = self.around.version
        answers = [self.run_on(shard, operation, refusal) for shard in (copy, self.shard)]
        assert answers[0] == answers[1]
        return answers[1]

    def run_on(self, shard: TransactionShard, operation: Any, refusal: Any) -> Any:
        answers: list[Any] = []
        result = OperationResult(self.now_ms)
        operation(shard, result, Reply(answers.append, refusal))
        for record in result.records:
            if shard is self.shard:
                self.append(shard, record)
            else:
                shard.replay(record)
        for step in result.steps if result.records else ():
            step()
        for reply, response in result.answers:
            reply.send(response)
        return answers[0] if answers else None

    def took_id(self, before: TransactionMetadata | None) -> None:
        after = self.shard.get("id")
        used = {after.producer_id, after.next_producer_id} if after else set()
        if self.around.next_id in used:
            assert self.around.next_id is not None
            self.around.next_id += 1

    # -- requests ----------------------------------------------------------------------------------

    def known(self, data: st.DataObject) -> Producer:
        return data.draw(st.sampled_from([*self.seen[-4:], (99, 0)]))

    @rule(data=st.data(), recovers=st.booleans())
    def init(self, data: st.DataObject, recovers: bool) -> None:
        expected = self.known(data) if recovers else (-1, -1)
        before = self.shard.get("id")
        request = InitProducerIdRequest(
            transactional_id="id",
            transaction_timeout_ms=1_000,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        answer = self.run(
            lambda shard, result, reply: init_producer_id(shard, result, request, reply), init_error
        )
        self.took_id(before)
        if answer.error_code == ErrorCode.NONE:
            got = answer.producer_id, answer.producer_epoch
            is_repeated = before is not None and got == (before.producer_id, before.producer_epoch)
            if is_repeated:
                assert recovers and expected != got
            else:
                assert got not in self.given
            assert got[1] < MAX_EPOCH
            self.given.add(got)
            self.seen.append(got)

    @rule(data=st.data(), partition=st.sampled_from(PARTITIONS), version=st.sampled_from([0, 2]))
    def add(self, data: st.DataObject, partition: TopicPartition, version: int) -> None:
        of = ProducerIdentity("id", *self.known(data))
        before = self.shard.get("id")
        error = self.run(
            lambda shard, result, reply: add_partitions(
                shard, result, of, (partition,), version, NO_CONNECTION, reply
            ),
            lambda error: error,
        )
        self.only_the_present_one_changes(before, of, error)

    @rule(data=st.data(), committed=st.booleans(), bumps=st.booleans())
    def end(self, data: st.DataObject, committed: bool, bumps: bool) -> None:
        of = ProducerIdentity("id", *self.known(data))
        before = self.shard.get("id")

        def operation(shard: TransactionShard, result: OperationResult, reply: Any) -> None:
            end_txn(shard, result, of, committed, bumps, NO_CONNECTION, 0, reply)

        answer = self.run(operation, end_error)
        self.took_id(before)
        changed = self.only_the_present_one_changes(before, of, ErrorCode(answer.error_code))
        if changed and bumps:
            got = answer.producer_id, answer.producer_epoch
            assert got not in self.given
            self.given.add(got)
            self.seen.append(got)
            assert self.run(operation, end_error).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
            self.markers_written()
            assert self.run(operation, end_error) == answer, "the request again"

    def only_the_present_one_changes(
        self, before: TransactionMetadata | None, of: ProducerIdentity, error: ErrorCode
    ) -> bool:
        """Check that nothing changed unless the request came from the present producer; True if
        something did.
        """
        after = self.shard.get("id")
        if after != before:
            assert error is ErrorCode.NONE
            assert before is not None
            assert (before.producer_id, before.producer_epoch) == (of.producer_id, of.epoch)
        return after != before

    # -- what happens by itself --------------------------------------------------------------------

    def is_ending(self) -> bool:
        metadata = self.shard.get("id")
        return metadata is not None and metadata.state in ENDING

    @precondition(is_ending)
    @rule()
    def markers_written(self) -> None:
        before = self.shard.get("id")
        assert before is not None
        end = TransactionEnd(
            "id", 0, 1, before.producer_id, before.producer_epoch, True, 2, before.partitions
        )
        self.run(
            lambda shard, result, reply: complete(shard, result, end, reply), lambda error: error
        )
        assert not self.is_ending()

    @rule()
    def time_out(self) -> None:
        before = self.shard.get("id")
        self.run(lambda shard, result, reply: timed_out(shard, result, "id"), None)
        self.took_id(before)

    @rule(version=st.sampled_from([0, 2]))
    def change_version(self, version: int) -> None:
        self.around.version = version

    @rule()
    def fail_over(self) -> None:
        fresh = self.replayed()
        fresh.environment = self.around
        self.shard = fresh

    @invariant()
    def replaying_gives_the_same_state(self) -> None:
        assert list(self.replayed()) == list(self.shard)
        assert self.replayed().counts == self.shard.counts


TestTransactionalIds = TransactionalIds.TestCase
TestTransactionalIds.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
