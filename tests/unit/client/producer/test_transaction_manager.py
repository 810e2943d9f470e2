"""Sequence numbers, step by step. With failing brokers: `test_exactly_once`."""

from __future__ import annotations

from librt.threading import Lock

from odradek.client.producer.buffer_pool import Buffer
from odradek.client.producer.futures import CoroutineWait, ProduceRequestResult
from odradek.client.producer.producer_batch import ORDINAL_STEP, ProducerBatch
from odradek.client.producer.transaction_manager import TransactionManager
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.record_batch_builder import RecordBatchBuilder

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
MISSING = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
LAST_SEQUENCE = 0x7FFFFFFF
LEADER, NEW_LEADER = 1, 2


class Sending:
    """A manager with a producer id, and batches of given sizes."""

    def __init__(self) -> None:
        self.manager = TransactionManager()
        self.manager.set_producer_id(7, 0)
        self.made = 0

    def batch(self, records: int = 1, partition: TopicPartition = P0) -> ProducerBatch:
        self.made += 1
        result = ProduceRequestResult(*partition, CoroutineWait(), Lock())
        buffer = Buffer(10_000)
        builder = RecordBatchBuilder(writer=buffer.writer)
        made = ProducerBatch(
            partition, result, builder, buffer, 10_000, 0, self.made * ORDINAL_STEP
        )
        for _ in range(records):
            made.try_append(0, None, b"x", b"\0")
        return made

    def drained(self, records: int = 1, partition: TopicPartition = P0) -> ProducerBatch:
        batch = self.batch(records, partition)
        assert self.manager.may_drain(batch, LEADER)
        self.manager.assign_sequence(batch)
        return batch

    def written(self, records: int = 1, partition: TopicPartition = P0) -> ProducerBatch:
        batch = self.drained(records, partition)
        self.manager.handle_completed_batch(batch)
        return batch

    def missed(self, batch: ProducerBatch) -> bool:
        """The broker misses a batch in front of it."""
        return self.manager.can_retry(batch, MISSING, 0)

    def refused(self, batch: ProducerBatch) -> None:
        """It fails, and was not written."""
        self.manager.handle_failed_batch(batch)

    def given_up(self, batch: ProducerBatch) -> None:
        """It fails, and no request that carried it got a response."""
        batch.response_lost()
        self.manager.handle_failed_batch(batch)

    @property
    def bumps(self) -> int:
        self.manager.maybe_resolve_sequences()
        return self.manager.epoch_bumps


def place(batch: ProducerBatch) -> tuple[int, int]:
    return int(batch.producer_epoch), int(batch.base_sequence)


def test_sequences_count_the_records_of_each_partition():
    s = Sending()
    assert [place(s.written(3)), place(s.written(2)), place(s.written())] == [
        (0, 0),
        (0, 3),
        (0, 5),
    ]
    assert place(s.written(1, P1)) == (0, 0)


def test_the_sequence_after_the_highest_is_zero():
    s = Sending()
    s.written()
    entry = s.manager.entry(P0)
    entry.next_sequence = LAST_SEQUENCE
    batch = s.written(3)
    assert batch.base_sequence == LAST_SEQUENCE
    assert place(s.written()) == (0, 2)


def test_nothing_is_drained_without_a_producer_id():
    s = Sending()
    s.manager = TransactionManager()
    assert s.manager.needs_producer_id
    assert not s.manager.may_drain(s.batch(), LEADER)


def test_the_first_batch_of_an_epoch_goes_alone():
    s = Sending()
    first = s.drained()
    assert not s.manager.may_drain(s.batch(), LEADER)
    s.manager.handle_completed_batch(first)
    assert s.manager.may_drain(s.batch(), LEADER)


def test_no_more_are_drained_than_a_broker_remembers():
    s = Sending()
    s.written()
    oldest = s.drained()
    for _ in range(4):
        s.written()
    assert not s.manager.may_drain(s.batch(), LEADER), "four were written behind the one in doubt"
    s.manager.handle_completed_batch(oldest)
    assert s.manager.may_drain(s.batch(), LEADER)


def test_nothing_new_goes_to_a_new_leader_before_the_former_one_has_answered():
    """The new one may have what the former one was sent, and acknowledge later batches first."""
    s = Sending()
    s.written()
    asked = s.drained()
    asked.node_id, asked.in_flight = LEADER, True
    assert s.manager.may_drain(s.batch(), LEADER)
    assert not s.manager.may_drain(s.batch(), NEW_LEADER)
    assert s.manager.may_drain(s.batch(partition=P1), NEW_LEADER)
    asked.in_flight = False
    s.manager.handle_completed_batch(asked)
    assert s.manager.may_drain(s.batch(), NEW_LEADER)


def test_retried_batches_are_sent_one_by_one_in_order():
    s = Sending()
    s.written()
    first, second = s.drained(), s.drained()
    assert s.manager.may_drain(first, LEADER)
    assert not s.manager.may_drain(second, LEADER)
    s.manager.handle_completed_batch(first)
    assert s.manager.may_drain(second, LEADER)


def test_a_batch_behind_a_missing_one_is_sent_again():
    s = Sending()
    s.written()
    s.drained()
    assert s.missed(s.drained())
    s.manager.maybe_resolve_sequences()
    assert s.manager.epoch_bumps == 0


def test_a_gap_bumps_the_epoch_and_renumbers_batches_in_flight():
    s = Sending()
    s.written()
    first, second = s.drained(2), s.drained(3)
    assert s.missed(first)
    assert not s.manager.may_drain(s.batch(), LEADER)
    s.manager.maybe_resolve_sequences()
    assert s.manager.epoch_bumps == 1
    assert [place(first), place(second)] == [(1, 0), (1, 2)]
    assert not s.manager.may_drain(s.batch(), LEADER), "the first of an epoch goes alone"


def test_a_gap_waits_for_batches_still_in_flight():
    s = Sending()
    s.written()
    first, second = s.drained(), s.drained()
    second.in_flight = True
    s.missed(first)
    s.manager.maybe_resolve_sequences()
    assert s.manager.epoch_bumps == 0
    second.in_flight = False
    s.manager.maybe_resolve_sequences()
    assert s.manager.epoch_bumps == 1


def test_a_batch_that_failed_for_good_leaves_a_gap():
    s = Sending()
    s.written()
    s.refused(s.drained())
    s.manager.maybe_resolve_sequences()
    assert place(s.drained()) == (1, 0)


def test_an_expired_batch_is_resolved_by_a_later_success():
    s = Sending()
    s.written()
    lost, behind = s.drained(), s.drained()
    s.given_up(lost)
    assert not s.manager.may_drain(s.batch(), LEADER)
    s.manager.handle_completed_batch(behind)
    s.manager.maybe_resolve_sequences()
    assert s.manager.epoch_bumps == 0
    assert place(s.drained()) == (0, 3)


def test_an_expired_batch_bumps_the_epoch_without_a_later_success():
    s = Sending()
    s.written()
    s.given_up(s.drained())
    s.manager.maybe_resolve_sequences()
    assert place(s.drained()) == (1, 0)


def test_a_late_response_resolves_an_expired_batch():
    s = Sending()
    s.written()
    lost, behind = s.drained(), s.drained()
    s.given_up(lost)
    s.manager.handle_completed_batch(lost)
    s.manager.handle_completed_batch(behind)
    s.manager.maybe_resolve_sequences()
    assert s.manager.epoch_bumps == 0


def test_another_partition_stays_in_the_old_epoch_until_nothing_is_in_flight():
    s = Sending()
    s.written()
    s.written(2, P1)
    other = s.drained(1, P1)
    s.refused(s.drained())
    s.manager.maybe_resolve_sequences()
    assert place(other) == (0, 2)
    assert not s.manager.may_drain(s.batch(1, P1), LEADER)
    s.manager.handle_completed_batch(other)
    assert place(s.drained(1, P1)) == (1, 0)


def test_when_the_epochs_are_used_up_a_new_id_is_needed():
    s = Sending()
    s.manager.set_producer_id(7, 32767)
    s.written()
    s.refused(s.drained())
    s.manager.maybe_resolve_sequences()
    assert s.manager.needs_producer_id
    s.manager.set_producer_id(8, 0)
    s.manager.maybe_resolve_sequences()
    batch = s.drained()
    assert (batch.producer_id, *place(batch)) == (8, 0, 0)


def test_the_parts_of_a_split_batch_share_its_sequences():
    s = Sending()
    s.written()
    big = s.drained(5)
    parts = [s.batch(2), s.batch(3)]
    s.manager.replace_by_parts(big, parts)
    assert [place(part) for part in parts] == [(0, 1), (0, 3)]
    assert s.manager.may_drain(parts[0], LEADER)
    assert not s.manager.may_drain(parts[1], LEADER)


def test_a_batch_without_a_response_keeps_its_sequence_behind_one_that_may_arrive():
    s = Sending()
    s.written()
    lost, unanswered, refused = s.drained(), s.drained(), s.drained()
    unanswered.response_lost()
    s.given_up(lost)
    assert s.missed(unanswered) and s.missed(refused)
    assert s.bumps == 0
    assert s.manager.may_drain(unanswered, LEADER) and not s.manager.may_drain(refused, LEADER)
    s.manager.handle_completed_batch(unanswered)
    assert s.manager.may_drain(refused, LEADER), "it was written: nothing is missing any more"
    assert s.bumps == 0


def test_batches_behind_one_without_a_response_are_renumbered_when_it_expires():
    s = Sending()
    s.written()
    lost, unanswered, refused = s.drained(), s.drained(), s.drained()
    unanswered.response_lost()
    s.given_up(lost)
    assert s.missed(unanswered)
    s.given_up(unanswered)
    assert s.missed(refused)
    assert s.bumps == 1
    assert place(refused) == (1, 0)


def test_a_batch_with_all_attempts_answered_is_renumbered_with_those_behind_it():
    """No batch behind an unwritten one is written, with or without a response."""
    s = Sending()
    s.written()
    lost, answered, unanswered = s.drained(), s.drained(), s.drained()
    unanswered.response_lost()
    s.given_up(lost)
    assert s.missed(answered)
    assert s.bumps == 1
    assert [place(answered), place(unanswered)] == [(1, 0), (1, 1)]
    assert not unanswered.in_doubt


def test_batches_behind_one_that_was_always_refused_are_renumbered():
    s = Sending()
    s.written()
    refused, unanswered = s.drained(), s.drained()
    unanswered.response_lost()
    s.refused(refused)
    assert s.missed(unanswered)
    assert s.bumps == 1
    assert place(unanswered) == (1, 0)


def test_batches_behind_one_that_the_broker_lost_are_renumbered():
    """The broker acknowledged it, and lost it."""
    s = Sending()
    s.written()
    unanswered = s.drained()
    unanswered.response_lost()
    assert s.missed(unanswered)
    assert s.bumps == 1
    assert place(unanswered) == (1, 0)


def test_batches_in_front_of_a_gap_keep_their_sequences():
    s = Sending()
    s.written()
    first, second, refused = s.drained(), s.drained(), s.drained()
    for batch in (first, second):
        batch.response_lost()
    s.refused(refused)
    assert s.missed(second), "the first one is still to be sent again"
    s.manager.handle_completed_batch(first)
    assert s.bumps == 0
    assert s.manager.may_drain(second, LEADER)
    s.manager.handle_completed_batch(second)
    assert s.bumps == 1


def test_parts_of_a_batch_that_may_be_written_keep_its_sequences():
    s = Sending()
    s.written()
    big = s.drained(5)
    big.response_lost()
    parts = [s.batch(2), s.batch(3)]
    for index, part in enumerate(parts):
        part.ordinal = big.ordinal + index
    s.manager.replace_by_parts(big, parts)
    assert s.missed(parts[0])
    assert s.bumps == 0
    assert place(parts[0]) == (0, 1)
    s.manager.handle_completed_batch(parts[0])
    assert s.missed(parts[1]), "the whole cannot be written any more: this one was lost"
    assert s.bumps == 1
