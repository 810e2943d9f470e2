"""Transactions of a producer against scripted coordinators: transcripts of what they are asked."""

from __future__ import annotations

import gc

import pytest

from odradek.client.consumer.batch import OffsetAndMetadata
from odradek.client.errors import (
    ApiTimeout,
    CommitUnknown,
    IllegalState,
    ProducerFenced,
    TransactionalIdAuthorizationError,
    TransactionFailed,
)
from odradek.client.producer import transaction_steps
from odradek.client.producer.transaction_phases import Phase
from odradek.client.transaction import OpenTransaction
from odradek.client.waiter import Waiter
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from odradek.protocol.api.end_txn import EndTxnRequest
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.api.txn_offset_commit import TxnOffsetCommitRequest
from odradek.testing.scripted import CLOSE
from unit.client.producer.transacting import GROUP, LOST, Transacting

OFFSETS = {TopicPartition("in", 0): OffsetAndMetadata(5)}
VERSIONS = pytest.mark.parametrize("version", [1, 2])


def test_version_2_writes_at_once_and_every_end_bumps_the_epoch():
    t = Transacting()
    t.init_transactions()
    for value in (b"a", b"b"):
        t.begin_transaction()
        t.send(value)
        t.commit()
    assert t.script == [
        "init id",
        "produce v12 0 epoch 0 sequence 0",
        "commit v5 epoch 0",
        "produce v12 0 epoch 1 sequence 0",
        "commit v5 epoch 1",
    ]


def test_version_1_adds_each_partition_once_and_keeps_epoch_and_sequences():
    t = Transacting(version=1, leaders={"t": [1, 1]})
    t.init_transactions()
    for _ in range(2):
        t.begin_transaction()
        t.send(b"a", partition=0)
        t.flush()
        t.send(b"b", partition=1)
        t.commit()
    assert t.script == [
        "init id",
        "add t[0]",
        "produce v11 0 epoch 0 sequence 0",
        "add t[1]",
        "produce v11 1 epoch 0 sequence 0",
        "commit v4 epoch 0",
        "add t[0]",
        "produce v11 0 epoch 0 sequence 1",
        "add t[1]",
        "produce v11 1 epoch 0 sequence 1",
        "commit v4 epoch 0",
    ]


def test_the_newest_levels_of_features_decide_and_only_between_transactions():
    t = Transacting(version=1, brokers=2, leaders={"t": [1]})
    t.started()
    t.cluster.features["transaction.version"] = 2
    t.cluster.features_epoch = 2
    t.cluster[1].close_connections()
    t.send(b"a")
    t.commit()
    assert t.script[-1].startswith("commit v4")
    t.begin_transaction()
    t.send(b"b")
    t.commit()
    assert t.script[-1].startswith("commit v5")


def raised(t: Transacting) -> None:
    """Raise the level of the cluster, and let the producer learn of it."""
    t.cluster.features["transaction.version"] = 2
    t.cluster.features_epoch += 1
    t.cluster[1].close_connections()
    t.cluster.run(5_000)


@pytest.mark.parametrize("commits", [True, False])
def test_the_first_transaction_of_version_2_has_another_epoch_than_those_of_version_1(commits):
    t = Transacting(version=1, brokers=2, leaders={"t": [1]})
    t.started()
    t.send(b"a")
    t.flush()
    raised(t)
    t.commit() if commits else t.abort()
    for value in (b"b", b"c"):
        t.begin_transaction()
        t.send(value)
        t.commit()
    end = "commit" if commits else "abort"
    assert t.script[-6:] == [
        f"{end} v4 epoch 0",
        "init id at 0",
        "produce v12 0 epoch 1 sequence 0",
        "commit v5 epoch 1",
        "produce v12 0 epoch 2 sequence 0",
        "commit v5 epoch 2",
    ]


def test_a_producer_that_has_not_begun_yet_keeps_its_epoch_for_version_2():
    t = Transacting(version=1, brokers=2, leaders={"t": [1]})
    t.init_transactions()
    raised(t)
    t.begin_transaction()
    t.send(b"a")
    t.commit()
    assert t.script == ["init id", "produce v12 0 epoch 0 sequence 0", "commit v5 epoch 0"]


def test_a_producer_that_is_fenced_as_the_version_goes_up_cannot_go_on():
    t = Transacting(version=1, brokers=2, leaders={"t": [1]})
    t.started()
    t.send(b"a")
    raised(t)
    t.commit()
    t.fail_next(InitProducerIdRequest, ErrorCode.PRODUCER_FENCED)
    with pytest.raises(ProducerFenced):
        t.begin_transaction()
    assert t.transactions.transaction.phase is Phase.FATAL_ERROR


@VERSIONS
def test_an_empty_transaction_needs_no_request(version):
    t = Transacting(version=version)
    t.started()
    t.commit()
    t.begin_transaction()
    t.abort()
    assert t.script == []


@VERSIONS
def test_offsets_are_committed_as_the_member_of_the_group(version):
    t = Transacting(version=version)
    t.started()
    t.offsets(5)
    t.commit()
    added = ["add offsets of group"] if version == 1 else []
    sent, ended = ("v4", "v4") if version == 1 else ("v5", "v5")
    assert t.script == [
        *added,
        f"offsets {sent} group/3/member in-0=5",
        f"commit {ended} epoch 0",
    ]


@pytest.mark.parametrize(
    "failure",
    [
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        CLOSE,
        LOST,
    ],
)
@pytest.mark.parametrize("kind", [InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest])
def test_requests_are_sent_again_until_the_answer_is_known(failure, kind):
    t = Transacting(version=1)
    t.fail_next(kind, failure, failure)
    t.init_transactions()
    t.begin_transaction()
    t.send(b"a")
    t.commit()
    assert t.values() == [b"a"]
    assert t.transactions.transaction.phase is Phase.READY


def test_the_coordinator_is_looked_up_again_when_it_has_moved():
    t = Transacting(brokers=2, leaders={"t": [1]})
    t.started()
    t.send(b"a")
    t.coordinator_node = 2
    t.fail_next(EndTxnRequest, ErrorCode.NOT_COORDINATOR)
    t.commit()
    assert [len(t.cluster[node].of(EndTxnRequest)) for node in (1, 2)] == [1, 1]


def test_a_coordinator_that_is_not_there_yet_is_awaited():
    t = Transacting()
    t.fail_next(FindCoordinatorRequest, *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3)
    t.init_transactions()
    assert t.transactions.transaction.phase is Phase.READY


def test_a_failed_record_fails_the_commit_and_the_next_transaction_is_another_one():
    t = Transacting()
    t.started()
    t.brokers.fail_next("t", 0, ErrorCode.INVALID_RECORD)
    t.send(b"bad")
    with pytest.raises(TransactionFailed, match="INVALID_RECORD") as raised:
        t.commit()
    assert raised.value.requires_abort and not raised.value.fatal
    t.abort()
    t.begin_transaction()
    t.send(b"good")
    t.commit()
    assert t.script == [
        "produce v12 0 epoch 0 sequence 0",
        "abort v5 epoch 0",
        "produce v12 0 epoch 1 sequence 0",
        "commit v5 epoch 1",
    ]


def test_a_failed_transaction_takes_no_more_records_and_sends_none_that_wait():
    t = Transacting(brokers=2, leaders={"t": [1, 2]}, linger_ms=1_000_000)
    t.started()
    waiting = t.send(b"waits", partition=1)
    t.brokers.fail_next("t", 0, ErrorCode.INVALID_RECORD)
    failing = t.send(b"x" * 10_000, partition=0)
    t.send(b"x" * 10_000, partition=0)  # The batch before is full.
    assert t.outcome(failing).code is ErrorCode.INVALID_RECORD
    assert isinstance(t.outcome(waiting), TransactionFailed)
    with pytest.raises(TransactionFailed):
        t.send(b"more")
    t.abort()
    assert t.values(partition=1) == []


def test_version_1_bumps_the_epoch_after_an_abort_with_a_record_in_doubt():
    t = Transacting(version=1, delivery_timeout_ms=2_000, engine={"request_timeout_ms": 60_000})
    t.started()
    t.brokers.fail_next("t", 0, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    t.send(b"a")
    with pytest.raises(TransactionFailed):
        t.commit()
    t.abort()
    assert t.script[-2:] == ["abort v4 epoch 0", "init id at 0"]
    t.begin_transaction()
    t.send(b"b")
    t.commit()
    assert "produce v11 0 epoch 1 sequence 0" in t.script


def test_version_1_keeps_the_epoch_after_an_abort_without_doubt():
    t = Transacting(version=1)
    t.started()
    t.send(b"a")
    t.flush()
    t.abort()
    t.begin_transaction()
    t.send(b"b")
    t.commit()
    assert t.script[-1] == "commit v4 epoch 0"


@VERSIONS
def test_a_missing_sequence_fails_the_transaction_and_is_never_renumbered(version):
    t = Transacting(version=version)
    t.started()
    t.send(b"a")
    t.flush()
    t.brokers.log("t").recent[7][-1] = (0, 4, 4, 0)  # The broker has lost or gained records.
    t.send(b"b")
    with pytest.raises(TransactionFailed, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        t.commit()
    manager = t.core.accumulator.transaction_manager
    assert manager is not None and manager.epoch_bumps == 0


def test_an_abort_fails_waiting_records_and_the_producer_goes_on():
    t = Transacting(linger_ms=1_000_000)
    t.started()
    future = t.send(b"a")
    t.abort()
    assert "aborted before the record was acknowledged" in str(t.outcome(future))
    assert t.script == []
    t.begin_transaction()
    t.send(b"b")
    t.commit()
    assert t.values() == [b"b"]


def test_a_fenced_producer_cannot_go_on_and_says_why():
    t = Transacting()
    t.started()
    t.send(b"a")
    t.fail_next(EndTxnRequest, ErrorCode.PRODUCER_FENCED)
    with pytest.raises(ProducerFenced, match="another producer has taken") as raised:
        t.commit()
    assert raised.value.fatal
    for call in (t.begin_transaction, t.abort, t.commit):
        with pytest.raises(ProducerFenced):
            call()
    with pytest.raises(ProducerFenced):
        t.send(b"more")


def test_a_commit_that_is_refused_after_a_lost_answer_may_have_taken_effect():
    t = Transacting()
    t.started()
    t.send(b"a")
    t.fail_next(EndTxnRequest, LOST, ErrorCode.PRODUCER_FENCED)
    with pytest.raises(ProducerFenced, match="may be committed"):
        t.commit()


def test_a_commit_whose_coordinator_is_refused_after_a_lost_answer_may_have_taken_effect():
    t = Transacting()
    t.started()
    t.send(b"a")
    t.fail_next(EndTxnRequest, LOST)
    t.fail_next(FindCoordinatorRequest, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(TransactionalIdAuthorizationError, match="may be committed"):
        t.commit()


def test_a_commit_without_an_answer_in_time_is_unknown_and_told_by_the_next_call():
    t = Transacting()
    t.started()
    t.send(b"a")
    t.flush()
    t.cluster[1].fall_silent()
    with pytest.raises(CommitUnknown, match="may or may not take effect"):
        t.commit(3_000)
    with pytest.raises(IllegalState, match="was not told yet"):
        t.begin_transaction()


def test_the_second_commit_returns_what_the_first_did_not_live_to_see():
    t = Transacting()
    t.started()
    t.send(b"a")
    t.fail_next(EndTxnRequest, *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 30)
    with pytest.raises(CommitUnknown):
        t.commit(500)
    t.commit()
    t.begin_transaction()
    assert t.transactions.transaction.phase is Phase.IN_TRANSACTION


def test_the_next_transaction_waits_for_an_abort_that_took_too_long():
    t = Transacting()
    t.started()
    t.send(b"a")
    t.flush()
    t.fail_next(EndTxnRequest, *[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 10)
    with pytest.raises(ApiTimeout):
        t.abort(500)
    t.begin_transaction()
    t.send(b"b")
    t.commit()
    assert t.script[-1] == "commit v5 epoch 1"


@VERSIONS
def test_offsets_of_a_replaced_member_fail_the_transaction(version):
    t = Transacting(version=version)
    t.started()
    t.fail_next(TxnOffsetCommitRequest, ErrorCode.ILLEGAL_GENERATION)
    with pytest.raises(TransactionFailed, match="group group"):
        t.offsets(5)
    with pytest.raises(TransactionFailed):
        t.commit()
    t.abort()
    assert t.script[-1].startswith("abort")


def test_a_coordinator_that_has_forgotten_the_producer_gives_another_id():
    t = Transacting()
    t.started()
    t.send(b"a")
    t.flush()
    t.fail_next(EndTxnRequest, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    with pytest.raises(TransactionFailed):
        t.commit()
    t.abort()
    assert t.script[-1] == "init id at 0"
    t.begin_transaction()
    t.send(b"b")
    t.commit()


def test_initializing_ends_after_its_timeout_and_may_be_repeated():
    t = Transacting()
    t.fail_next(InitProducerIdRequest, *[ErrorCode.CONCURRENT_TRANSACTIONS] * 200)
    with pytest.raises(ApiTimeout, match=r"CONCURRENT_TRANSACTIONS.*What to do: call init"):
        t.init_transactions(1_000)
    t.failures.clear()
    t.init_transactions()
    t.begin_transaction()


def test_a_late_initializing_goes_on_and_the_next_call_is_told_of_it():
    t = Transacting()
    t.fail_next(InitProducerIdRequest, *[ErrorCode.CONCURRENT_TRANSACTIONS] * 100)
    with pytest.raises(ApiTimeout, match=r"call init_transactions\(\) again, which goes on"):
        t.init_transactions(200)
    with pytest.raises(IllegalState, match="is getting its producer id"):
        t.init_transactions(name="other")
    t.cluster.run(10_000)
    t.init_transactions()
    assert t.script.count("init id") == 1
    t.begin_transaction()
    t.commit()
    t.init_transactions()
    assert t.script.count("init id") == 2


def test_a_late_initializing_that_has_ended_lets_a_transaction_begin():
    t = Transacting()
    t.fail_next(InitProducerIdRequest, *[ErrorCode.CONCURRENT_TRANSACTIONS] * 100)
    with pytest.raises(ApiTimeout):
        t.init_transactions(200)
    t.cluster.run(10_000)
    t.begin_transaction()
    t.commit()
    t.init_transactions()
    assert t.script.count("init id") == 2


def test_a_user_without_permission_is_told_at_once():
    t = Transacting()
    t.fail_next(InitProducerIdRequest, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    with pytest.raises(TransactionalIdAuthorizationError) as raised:
        t.init_transactions()
    assert raised.value.fatal


@VERSIONS
def test_a_detached_transaction_stays_open_and_another_id_may_follow(version):
    t = Transacting(version=version)
    t.started()
    t.send(b"a")
    detached = t.wait(lambda each: each.detach(60_000))
    assert detached == OpenTransaction("id", 7, 0, version)
    t.init_transactions(name="other")
    t.begin_transaction()
    assert t.wait(lambda each: each.detach(60_000)) is None
    assert not [line for line in t.script if line.startswith(("commit", "abort"))]
    assert t.script[-1] == "init other"
    t.side.wait(lambda: t.core.close(None))
    assert t.script[-1] == "init other"


def test_a_producer_of_many_ids_forgets_the_coordinators_of_the_first(monkeypatch):
    monkeypatch.setattr(transaction_steps, "MAX_COORDINATORS", 2)
    t = Transacting()
    for name in ("first", "second", "third"):
        t.init_transactions(name=name)
    kept = {name for _, name in t.transactions._coordinators}
    assert kept == {"second", "third"}


def test_a_transaction_with_a_failed_record_cannot_be_detached():
    t = Transacting()
    t.started()
    t.brokers.fail_next("t", 0, ErrorCode.INVALID_RECORD)
    t.send(b"a")
    with pytest.raises(TransactionFailed):
        t.wait(lambda each: each.detach(60_000))


def test_closing_aborts_what_is_open():
    t = Transacting()
    t.started()
    t.send(b"a")
    t.flush()
    t.side.wait(lambda: t.core.close(None))
    assert t.script[-1] == "abort v5 epoch 0"


def test_closing_aborts_after_a_commit_that_fails_and_was_not_told():
    t = Transacting()
    t.started()
    t.send(b"a")
    loading = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 30
    t.fail_next(EndTxnRequest, *loading, ErrorCode.TRANSACTION_ABORTABLE)
    with pytest.raises(CommitUnknown):
        t.commit(500)
    t.side.wait(lambda: t.core.close(None))
    assert t.script[-2:] == ["commit v5 epoch 0: TRANSACTION_ABORTABLE", "abort v5 epoch 0"]


def test_version_1_ends_by_another_epoch_what_an_unanswered_request_may_have_begun():
    t = Transacting(version=1)
    t.started()
    t.fail_next(AddPartitionsToTxnRequest, *[LOST] * 100)
    t.send(b"a")
    t.cluster.run(1_000)
    t.abort()
    assert t.script[-1] == "init id at 0"
    assert not [line for line in t.script if line.startswith("abort")]


def test_version_1_takes_another_epoch_after_late_offsets():
    t = Transacting(version=1)
    t.started()
    t.fail_next(AddOffsetsToTxnRequest, *[LOST] * 100)
    with pytest.raises(TransactionFailed, match="not done within 500 ms"):
        t.wait(lambda each: each.commit_offsets(GROUP, OFFSETS, 500))
    t.abort()
    assert t.script[-1] == "init id at 0"


@VERSIONS
def test_offsets_that_the_application_gave_up_waiting_for_fail_the_transaction(version):
    t = Transacting(version=version)
    t.started()
    waiter = t.side.do(lambda: t.transactions.commit_offsets(GROUP, OFFSETS, 60_000))
    t.side.do(lambda: waiter.fail(KeyboardInterrupt()))
    with pytest.raises(TransactionFailed, match="gave up waiting"):
        t.commit()
    t.abort()
    assert t.script[-1] == ("init id at 0" if version == 1 else "abort v5 epoch 0")
    t.begin_transaction()
    t.offsets(6)
    t.commit()


@VERSIONS
def test_a_commit_waits_for_all_commits_of_offsets(version):
    t = Transacting(version=version)
    t.started()
    t.fail_next(TxnOffsetCommitRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    for _ in range(2):
        t.side.do(lambda: t.transactions.commit_offsets(GROUP, OFFSETS, 60_000))
    t.commit()
    ended = [line.partition(" ")[0] for line in t.script if not line.startswith("add")]
    assert ended == ["offsets"] * 3 + ["commit"]


def test_commits_of_offsets_that_are_done_are_not_kept():
    def waiters() -> int:
        gc.collect()
        return sum(isinstance(each, Waiter) for each in gc.get_objects())

    t = Transacting()
    t.init_transactions()
    counts = []
    for _ in range(2):
        for _ in range(20):
            t.begin_transaction()
            t.offsets(5)
            t.commit()
        counts.append(waiters())
    assert counts[1] < counts[0] + 10


def test_records_outside_of_a_transaction_are_refused():
    t = Transacting()
    with pytest.raises(IllegalState, match=r"init_transactions\(\) first"):
        t.send(b"a")
    t.started()
    t.commit()
    with pytest.raises(IllegalState, match=r"begin_transaction\(\) first"):
        t.send(b"a")


def test_parts_of_a_batch_that_is_too_large_belong_to_the_transaction():
    t = Transacting()
    t.brokers.max_batch_bytes = 300
    t.started()
    for _ in range(10):
        t.send(b"x" * 100)
    t.commit()
    assert t.values() == [b"x" * 100] * 10
    assert all(header.is_transactional for header in t.brokers.log("t").batches)
