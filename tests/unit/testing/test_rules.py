"""Rules of a cluster: each accepts what is right and finds what breaks it."""

from __future__ import annotations

from odradek.testing.rules import (
    CommittedRecord,
    DurableAck,
    InSyncReplica,
    LeadershipClaim,
    ReplicaLog,
    Vote,
    Watermark,
    acks_are_on_platters,
    committed_logs_match,
    high_watermarks_rise,
    in_sync_have_committed,
    one_leader_per_epoch,
    one_vote_per_epoch,
    replicas_match,
    stable_offsets_rise,
)


def test_leaders_of_different_epochs_and_partitions_are_accepted() -> None:
    seen = [
        LeadershipClaim(1, "t-0", 1, "a"),
        LeadershipClaim(2, "t-0", 2, "b"),
        LeadershipClaim(3, "t-1", 1, "b"),
        LeadershipClaim(4, "t-0", 1, "a"),
    ]
    assert one_leader_per_epoch(seen) == []


def test_two_leaders_of_one_epoch_are_found() -> None:
    found = one_leader_per_epoch(
        [LeadershipClaim(1, "t-0", 1, "a"), LeadershipClaim(9, "t-0", 1, "b")]
    )
    assert found == ["t-0: epoch 1 has two leaders: a since 1 ns, and b at 9 ns"]


def test_a_process_that_leads_the_epoch_of_the_one_before_it_is_found() -> None:
    assert one_leader_per_epoch(
        [LeadershipClaim(1, "t-0", 1, "a", boot=1), LeadershipClaim(2, "t-0", 1, "a", boot=2)]
    )


def test_a_vote_may_be_repeated_but_not_changed() -> None:
    votes = [Vote(1, "a", 1, "b"), Vote(2, "a", 1, "b"), Vote(3, "a", 2, "c")]
    assert one_vote_per_epoch(votes) == []
    assert one_vote_per_epoch([*votes, Vote(4, "a", 2, "b")]) == [
        "a voted twice in epoch 2: for c at 3 ns, and for b at 4 ns"
    ]


def watermark(epoch: int, offset: int, *, node: str = "a", boot: int = 1) -> Watermark:
    return Watermark(offset, "t-0", epoch, node, boot, offset)


def test_a_high_watermark_may_be_lower_in_another_epoch_or_process() -> None:
    seen = [watermark(1, 5), watermark(1, 8), watermark(2, 6), watermark(2, 3, boot=2)]
    assert high_watermarks_rise(seen) == []


def test_a_high_watermark_that_falls_within_an_epoch_is_found() -> None:
    assert high_watermarks_rise([watermark(1, 5), watermark(1, 4)]) == [
        "t-0: the high watermark of a in epoch 1 fell from 5 to 4 at 4 ns"
    ]


def test_a_last_stable_offset_that_is_not_below_those_of_earlier_epochs_is_accepted() -> None:
    late = Watermark(9, "t-0", 1, "a", 1, 5)
    assert stable_offsets_rise([watermark(1, 4), watermark(2, 5), watermark(3, 7), late]) == []


def test_a_last_stable_offset_below_one_of_an_earlier_epoch_is_found() -> None:
    assert stable_offsets_rise([watermark(1, 5), watermark(2, 4)]) == [
        "t-0: the last stable offset of a in epoch 2 is 4 at 4 ns, and a had 5 in epoch 1"
    ]


def test_an_ack_needs_the_platter_of_every_in_sync_replica() -> None:
    on_all = DurableAck(1, "t-0", 5, {"a": 5, "b": 9})
    early = DurableAck(2, "t-0", 6, {"a": 6, "b": 5})
    assert acks_are_on_platters([on_all]) == []
    assert acks_are_on_platters([on_all, early]) == [
        "t-0: acked up to 6 at 2 ns, but on disk is b to 5"
    ]


def test_an_ack_of_a_quorum_needs_the_platters_of_a_majority() -> None:
    assert acks_are_on_platters([DurableAck(1, "m", 5, {"a": 5, "b": 5, "c": 0}, needed=2)]) == []
    assert acks_are_on_platters([DurableAck(1, "m", 5, {"a": 5, "b": 0, "c": 0}, needed=2)])


def replica(node: str, batches: dict[int, bytes], *, start: int = 0, end: int = 9) -> ReplicaLog:
    return ReplicaLog(node, "t-0", start, end, batches)


def test_replicas_may_differ_above_the_high_watermark_and_below_the_log_start() -> None:
    leader = replica("a", {0: b"x", 2: b"y", 5: b"z", 7: b"?"}, end=7)
    follower = replica("b", {2: b"y", 5: b"z", 7: b"!"}, start=2, end=7)
    assert replicas_match([leader, follower]) == []
    behind = replica("c", {0: b"x"}, end=2)
    assert replicas_match([leader, behind]) == []


def test_replicas_that_differ_below_the_high_watermark_are_found() -> None:
    leader = replica("a", {0: b"x", 2: b"y"}, end=4)
    other = replica("b", {0: b"x", 2: b"Y"}, end=4)
    holed = replica("c", {0: b"x"}, end=4)
    assert replicas_match([leader, other]) == ["t-0@2: a and b differ below the high watermark 4"]
    assert replicas_match([leader, holed]) == ["t-0@2: a and c differ below the high watermark 4"]


def committed(node: str, offset: int, epoch: int, content: str) -> CommittedRecord:
    return CommittedRecord(offset, node, offset, epoch, content)


def test_metadata_logs_match_below_the_commit() -> None:
    records = [committed("a", 0, 1, "x"), committed("b", 0, 1, "x"), committed("a", 1, 1, "y")]
    assert committed_logs_match(records) == []


def test_different_committed_records_are_found() -> None:
    assert committed_logs_match([committed("a", 0, 1, "x"), committed("b", 0, 1, "y")])
    assert committed_logs_match([committed("a", 0, 1, "x"), committed("b", 0, 2, "x")])


def test_a_replica_in_sync_that_ends_below_the_high_watermark_is_found() -> None:
    seen = [
        InSyncReplica(1, "t-0", 2, "a", end=5, high_watermark=5),
        InSyncReplica(2, "t-0", 2, "b", end=4, high_watermark=5),
    ]
    assert in_sync_have_committed(seen) == [
        "t-0: b is in sync in epoch 2 and ends at 4, below the high watermark 5, at 2 ns"
    ]
