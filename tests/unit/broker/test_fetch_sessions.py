"""Incremental fetch sessions (KIP-227), request by request."""

from __future__ import annotations

from random import Random

from odradek.broker.fetch_sessions import FetchPlan, FetchSessionCache
from odradek.model.errors import ErrorCode
from odradek.protocol.api.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

V = 12


def cache(slots: int = 10) -> FetchSessionCache:
    return FetchSessionCache(slots, Random(1), eviction_ms=1000)


def request(
    session_id: int, epoch: int, *offsets: tuple[int, int], forget: tuple[int, ...] = ()
) -> FetchRequest:
    """A request for partitions of topic `t`: (partition, fetch offset) each."""
    partitions = [
        FetchPartition(partition=p, fetch_offset=offset, partition_max_bytes=100)
        for p, offset in offsets
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=partitions)] if partitions else [],
        forgotten_topics_data=[ForgottenTopic(topic="t", partitions=list(forget))]
        if forget
        else [],
    )


def asked(plan: FetchPlan | ErrorCode) -> list[tuple[int, int]]:
    assert isinstance(plan, FetchPlan), plan
    return [(cached.partition, cached.fetch_offset) for cached in plan.partitions]


def listed(plan: FetchPlan | ErrorCode, sizes: dict[int, int], mark: int = 5) -> list[int]:
    """The partitions that the response lists, if it returns so many bytes of each."""
    assert isinstance(plan, FetchPlan), plan
    return [
        cached.partition
        for cached in plan.partitions
        if plan.update_and_list(cached, ErrorCode.NONE, sizes.get(cached.partition, 0), mark, 0)
    ]


def open_session(sessions: FetchSessionCache, *offsets: tuple[int, int], now: int = 0) -> int:
    plan = sessions.plan(request(0, 0, *offsets), V, now)
    assert isinstance(plan, FetchPlan)
    listed(plan, {})
    return plan.session_id


def test_a_sessionless_request_lists_all_partitions_and_makes_no_session() -> None:
    sessions = cache()
    plan = sessions.plan(request(0, -1, (0, 7), (1, 8)), V, 0)
    assert asked(plan) == [(0, 7), (1, 8)]
    assert listed(plan, {}) == [0, 1] and plan.session_id == 0  # type: ignore[union-attr]
    assert not sessions.sessions


def test_an_incremental_request_carries_only_changes() -> None:
    sessions = cache()
    number = open_session(sessions, (0, 7), (1, 8))
    assert number != 0
    plan = sessions.plan(request(number, 1, (1, 9), (2, 0)), V, 0)
    assert asked(plan) == [(0, 7), (1, 9), (2, 0)]
    plan = sessions.plan(request(number, 2, forget=(0,)), V, 0)
    assert asked(plan) == [(1, 9), (2, 0)]


def test_an_incremental_response_lists_only_changed_partitions() -> None:
    sessions = cache()
    number = open_session(sessions, (0, 0), (1, 0), (2, 0))
    assert listed(sessions.plan(request(number, 1), V, 0), {1: 50}) == [1]
    assert listed(sessions.plan(request(number, 2), V, 0), {}) == []
    assert listed(sessions.plan(request(number, 3), V, 0), {}, mark=6) == [0, 2, 1]


def test_a_partition_that_returned_records_moves_to_the_end() -> None:
    sessions = cache()
    number = open_session(sessions, (0, 0), (1, 0), (2, 0))
    listed(sessions.plan(request(number, 1), V, 0), {0: 50})
    assert [p for p, _ in asked(sessions.plan(request(number, 2), V, 0))] == [1, 2, 0]


def test_an_unknown_session_and_a_wrong_epoch_are_errors() -> None:
    sessions = cache()
    number = open_session(sessions, (0, 0))
    assert sessions.plan(request(number + 1, 1), V, 0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.plan(request(number, 2), V, 0) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_session_of_names_refuses_topic_ids() -> None:
    sessions = cache()
    number = open_session(sessions, (0, 0))
    plan = sessions.plan(request(number, 1, (0, 0)), 13, 0)
    assert plan is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_final_request_closes_its_session() -> None:
    sessions = cache()
    number = open_session(sessions, (0, 0))
    sessions.plan(request(number, -1), V, 0)
    assert not sessions.sessions


def test_a_session_without_partitions_is_removed() -> None:
    sessions = cache()
    number = open_session(sessions, (0, 0))
    plan = sessions.plan(request(number, 1, forget=(0,)), V, 0)
    assert asked(plan) == [] and not sessions.sessions


def test_a_full_cache_evicts_the_least_recently_used_session() -> None:
    sessions = cache(slots=2)
    first = open_session(sessions, (0, 0), now=0)
    second = open_session(sessions, (0, 0), now=1)
    assert open_session(sessions, (0, 0), now=500) == 0
    sessions.plan(request(first, 1), V, 600)
    third = open_session(sessions, (0, 0), now=1200)
    assert third != 0 and set(sessions.sessions) == {first, third}
    assert second not in sessions.sessions


def test_epochs_begin_again_at_1_after_the_largest() -> None:
    sessions = cache()
    number = open_session(sessions, (0, 0))
    sessions.sessions[number].epoch = 2**31 - 1
    sessions.plan(request(number, 2**31 - 1), V, 0)
    assert sessions.sessions[number].epoch == 1


def test_the_partitions_of_all_sessions_are_bounded() -> None:
    """Beyond the limit a new session is not made, and one that grows is removed."""
    sessions = FetchSessionCache(10, Random(1), max_partitions=3)
    first = sessions.plan(request(0, 0, (0, 0), (1, 0)), V, 0)
    second = sessions.plan(request(0, 0, (0, 0), (1, 0)), V, 0)
    assert isinstance(first, FetchPlan) and isinstance(second, FetchPlan)
    assert first.session_id != 0 and second.session_id == 0
    assert asked(second) == [(0, 0), (1, 0)]
    known = first.session_id
    assert asked(sessions.plan(request(known, 1, (2, 0)), V, 0)) == [(0, 0), (1, 0), (2, 0)]
    grown = sessions.plan(request(known, 2, (3, 0)), V, 0)
    assert grown is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions.sessions), sessions.total_partitions) == (0, 0)
