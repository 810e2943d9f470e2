"""OffsetDelete (KIP-496): deletes offsets of topics that a group does not subscribe to.

The subscription of a group is that of its members when the generation began.
"""

from __future__ import annotations

import pytest

from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ErrorCode
from odradek.protocol.api.join_group import JoinGroupResponse
from odradek.protocol.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from unit.broker.group_requests import (
    assign,
    commit,
    committed,
    joining,
    leave,
    serving,
    stable_member,
)
from unit.broker.memory_broker import MemoryBroker, SentRequest

NONE, SUBSCRIBED = ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
BOTH = {("a", 0): 1, ("b", 0): 2}


@pytest.fixture
def node() -> MemoryBroker:
    """A broker with two topics, for both of which a group has committed offsets."""
    node = serving(MemoryDisk())
    node.create("a")
    node.create("b")
    commit(node, "g", BOTH)
    return node


def join(node: MemoryBroker, topic: str, instance: str) -> SentRequest:
    """A static member that subscribes to a topic joins, or joins again."""
    asked = node.send(joining("g", topic, instance=instance), 9)
    node.run_until_idle()
    node.pass_time(1)
    return asked


def first(node: MemoryBroker, topic: str, instance: str = "i") -> str:
    """Begin the first generation, of one member that has yet to sync; return its member id."""
    return join(node, topic, instance).answer(JoinGroupResponse).member_id


def delete_offsets(node: MemoryBroker) -> dict[str, int]:
    """Delete all offsets of the group; return the error of each topic."""
    response = asked_to_delete(node)
    assert response.error_code == NONE
    return {topic.name: topic.partitions[0].error_code for topic in response.topics}


def asked_to_delete(node: MemoryBroker) -> OffsetDeleteResponse:
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
        for name in ("a", "b")
    ]
    request = OffsetDeleteRequest(group_id="g", topics=topics)
    return node.call(request, 0, OffsetDeleteResponse)


def test_offsets_of_subscribed_topics_stay_and_others_are_deleted(node: MemoryBroker) -> None:
    assign(node, "g", first(node, "a"))
    assert delete_offsets(node) == {"a": SUBSCRIBED, "b": NONE}
    assert committed(node, "g") == {("a", 0): 1}


def test_all_offsets_of_a_group_without_members_are_deleted(node: MemoryBroker) -> None:
    assert delete_offsets(node) == {"a": NONE, "b": NONE}
    assert committed(node, "g") == {}


def test_all_offsets_are_deleted_after_the_last_member_left(node: MemoryBroker) -> None:
    first(node, "a")
    leave(node, "g", instance="i")
    assert delete_offsets(node) == {"a": NONE, "b": NONE}


def test_all_offsets_stay_if_the_subscription_of_consumers_is_unknown(node: MemoryBroker) -> None:
    stable_member(node, "g", metadata=b"unreadable")
    assert delete_offsets(node) == {"a": SUBSCRIBED, "b": SUBSCRIBED}
    assert committed(node, "g") == BOTH


def test_all_offsets_stay_if_the_members_are_not_consumers(node: MemoryBroker) -> None:
    stable_member(node, "g", protocol_type="connect")
    response = asked_to_delete(node)
    assert (response.error_code, response.topics) == (ErrorCode.NON_EMPTY_GROUP, [])
    assert committed(node, "g") == BOTH


def test_a_changed_subscription_counts_from_the_next_generation(
    node: MemoryBroker,
) -> None:
    """A stable group has none yet: the static member gets its assignment back."""
    assign(node, "g", first(node, "a"))
    join(node, "b", "i").answer(JoinGroupResponse)
    assert delete_offsets(node) == {"a": SUBSCRIBED, "b": NONE}


def test_a_subscription_changed_during_a_rebalance_counts_from_the_next_generation(
    node: MemoryBroker,
) -> None:
    first(node, "a")
    joining = join(node, "a", "j")
    back = join(node, "b", "i")
    assert back.answer(JoinGroupResponse).generation_id == 2
    assert joining.answer(JoinGroupResponse).generation_id == 2
    back = join(node, "b", "j")
    assert back.parts is None, "the other one is waited for"
    assert delete_offsets(node) == {"a": SUBSCRIBED, "b": SUBSCRIBED}
    join(node, "b", "i")
    assert back.answer(JoinGroupResponse).generation_id == 3
    assert delete_offsets(node) == {"a": NONE, "b": SUBSCRIBED}


def test_the_subscription_of_a_leaving_member_counts_until_the_next_generation(
    node: MemoryBroker,
) -> None:
    first(node, "a", "i")
    joining = join(node, "b", "j")
    join(node, "a", "i")
    assert joining.answer(JoinGroupResponse).generation_id == 2
    leave(node, "g", instance="j")
    assert delete_offsets(node) == {"a": SUBSCRIBED, "b": SUBSCRIBED}
    assert join(node, "a", "i").answer(JoinGroupResponse).generation_id == 3
    assert delete_offsets(node) == {"a": SUBSCRIBED, "b": NONE}


def test_a_loaded_generation_has_the_subscriptions_in_its_record(node: MemoryBroker) -> None:
    assign(node, "g", first(node, "a"))
    join(node, "b", "i")
    node.disk.locks.clear()  # as the system does for a process that was killed
    again = serving(node.disk)
    assert delete_offsets(again) == {"a": NONE, "b": SUBSCRIBED}
