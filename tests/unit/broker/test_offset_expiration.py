"""Committed offsets are deleted with their topic, with their group, and when they expire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ErrorCode
from odradek.model.topics import CONSUMER_OFFSETS
from odradek.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from odradek.protocol.api.join_group import JoinGroupResponse
from unit.broker.group_requests import (
    MINUTE_MS,
    assign,
    commit,
    committed,
    delete,
    groups,
    joining,
    leave,
    serving,
    stable_member,
    with_id,
)
from unit.broker.memory_broker import MemoryBroker


class TestTopics:
    def test_a_deleted_topic_loses_its_offsets_and_its_successor_has_none(self) -> None:
        node = serving()
        node.create("t", 2)
        node.create("u")
        for group in ("g", "h"):
            commit(node, group, {("t", 0): 5, ("t", 1): 5, ("u", 0): 9})
        delete(node, "t")
        node.create("t", 2)
        for group in ("g", "h"):
            assert committed(node, group) == {("u", 0): 9}

    def test_many_offsets_are_deleted_in_batches(self) -> None:
        node = serving()
        node.create("t", 50)
        for number in range(60):
            commit(node, f"g{number}", {("t", index): 1 for index in range(50)})
        before = records(node)
        delete(node, "t")
        assert 0 < records(node) - before < 3000
        node.pass_time(100)
        assert records(node) - before == 3000
        assert all(committed(node, f"g{number}") == {} for number in range(60))


def records(node: MemoryBroker) -> int:
    """The number of records in all partitions of `__consumer_offsets`."""
    return sum(
        partition.log.log_end_offset
        for partition in node.node.replicas
        if partition.topic_partition.topic == CONSUMER_OFFSETS
    )


class TestExpiration:
    def test_offsets_of_a_group_without_members_expire_after_their_commit(self) -> None:
        node = serving()
        node.create("t", 2)
        commit(node, "g", {("t", 0): 1})
        node.pass_time(30 * MINUTE_MS)
        commit(node, "g", {("t", 1): 2})
        node.pass_time(29 * MINUTE_MS)
        assert committed(node, "g") == {("t", 0): 1, ("t", 1): 2}
        node.pass_time(2 * MINUTE_MS)
        assert committed(node, "g") == {("t", 1): 2}
        node.pass_time(30 * MINUTE_MS)
        assert committed(node, "g") == {}
        node.pass_time(MINUTE_MS)
        assert groups(node) == []

    def test_offsets_of_subscribed_topics_do_not_expire(self) -> None:
        node = serving()
        node.create("read")
        node.create("left")
        member = stable_member(node, "g", "read")
        offsets = {("read", 0): 1, ("left", 0): 2}
        assert commit(node, "g", offsets, generation=1, member=member) == {ErrorCode.NONE}
        node.pass_time(200 * MINUTE_MS)
        assert committed(node, "g") == {("read", 0): 1}

    @pytest.mark.parametrize(
        "fields",
        [{"metadata": b"unreadable"}, {"protocol_type": "connect"}],
        ids=["bytes", "connect"],
    )
    def test_offsets_do_not_expire_while_the_subscription_is_unknown(self, fields: Any) -> None:
        node = serving()
        node.create("t")
        member = stable_member(node, "g", **fields)
        commit(node, "g", {("t", 0): 1}, generation=1, member=member)
        node.pass_time(200 * MINUTE_MS)
        assert committed(node, "g") == {("t", 0): 1}

    def test_offsets_do_not_expire_while_a_group_rebalances(self) -> None:
        """The subscription of the next generation is unknown."""
        node = serving()
        node.create("read")
        node.create("left")
        member = stable_member(node, "g", "read")
        offsets = {("read", 0): 1, ("left", 0): 2}
        commit(node, "g", offsets, generation=1, member=member)
        node.pass_time(30 * MINUTE_MS)
        node.send(with_id(node, joining("g", "read", rebalance_ms=100 * MINUTE_MS)), 9)
        node.pass_time(90 * MINUTE_MS)
        assert committed(node, "g") == offsets, "the first member has yet to join again"
        again = replace(joining("g", "read", rebalance_ms=100 * MINUTE_MS), member_id=member)
        assert node.call(again, 9, JoinGroupResponse).generation_id == 2
        node.pass_time(90 * MINUTE_MS)
        assert committed(node, "g") == offsets, "it has yet to assign"
        assign(node, "g", member, generation=2)
        node.pass_time(MINUTE_MS)
        assert committed(node, "g") == {("read", 0): 1}

    def test_an_empty_group_with_a_pending_member_id_is_not_deleted(self) -> None:
        node = serving()
        long: dict[str, Any] = {"session_ms": 10 * MINUTE_MS, "rebalance_ms": 10 * MINUTE_MS}
        join = with_id(node, joining("g", "t", **long))
        with_id(node, joining("nobody comes", "t", **long))
        node.pass_time(9 * MINUTE_MS)
        assert groups(node) == ["g", "nobody comes"]
        asked = node.send(join, 9)
        node.pass_time(3 * MINUTE_MS)
        assert asked.answer(JoinGroupResponse).error_code == ErrorCode.NONE
        assert groups(node) == ["g"]

    def test_offsets_of_an_emptied_group_expire_after_its_last_member_left(self) -> None:
        node = serving()
        node.create("t")
        member = stable_member(node, "g", "t")
        commit(node, "g", {("t", 0): 1}, generation=1, member=member)
        node.pass_time(200 * MINUTE_MS)
        leave(node, "g", member)
        node.pass_time(58 * MINUTE_MS)
        assert committed(node, "g") == {("t", 0): 1}
        node.pass_time(3 * MINUTE_MS)
        assert committed(node, "g") == {}
        assert groups(node) == []

    def test_a_retention_time_in_the_request_takes_precedence(self) -> None:
        node = serving()
        node.create("t", 2)
        commit(node, "g", {("t", 0): 1}, version=4, retention_ms=5 * MINUTE_MS)
        commit(node, "g", {("t", 1): 1}, version=4, retention_ms=500 * MINUTE_MS)
        node.pass_time(7 * MINUTE_MS)
        assert committed(node, "g") == {("t", 1): 1}
        node.pass_time(400 * MINUTE_MS)
        assert committed(node, "g") == {("t", 1): 1}
        node.pass_time(100 * MINUTE_MS)
        assert committed(node, "g") == {}

    def test_expired_offsets_are_gone_after_a_restart(self) -> None:
        disk = MemoryDisk()
        node = serving(disk)
        node.create("t")
        commit(node, "g", {("t", 0): 1})
        node.pass_time(62 * MINUTE_MS)
        node.node.stop(lambda: None)
        node.run_until_idle()
        again = serving(disk)
        assert committed(again, "g") == {}
        assert groups(again) == []


def test_a_deleted_group_loses_its_offsets() -> None:
    disk = MemoryDisk()
    node = serving(disk)
    node.create("t", 2)
    commit(node, "g", {("t", 0): 1, ("t", 1): 2})
    request = DeleteGroupsRequest(groups_names=["g"])
    assert node.call(request, 2, DeleteGroupsResponse).results[0].error_code == ErrorCode.NONE
    assert committed(node, "g") == {}
    disk.locks.clear()
    assert committed(serving(disk), "g") == {}


def check_that_commits_keep_it_alive(node: MemoryBroker, member: str) -> None:
    """Commit as a member whose session is ten minutes, and let time pass."""
    for number in range(5):
        node.pass_time(9 * MINUTE_MS)
        error = commit(node, "g", {("t", 0): number}, generation=1, member=member)
        assert error == {ErrorCode.NONE}
    node.pass_time(11 * MINUTE_MS)
    unknown = {ErrorCode.UNKNOWN_MEMBER_ID}
    assert commit(node, "g", {("t", 0): 9}, generation=1, member=member) == unknown


def test_a_commit_keeps_the_session_of_a_member_alive() -> None:
    node = serving()
    node.create("t")
    member = stable_member(node, "g", "t", session_ms=10 * MINUTE_MS)
    check_that_commits_keep_it_alive(node, member)


def test_a_commit_during_a_rebalance_keeps_the_session_alive() -> None:
    """A member commits before it joins again."""
    node = serving()
    node.create("t")
    member = stable_member(node, "g", "t", session_ms=10 * MINUTE_MS)
    node.send(with_id(node, joining("g", "t", rebalance_ms=100 * MINUTE_MS)), 9)
    check_that_commits_keep_it_alive(node, member)
