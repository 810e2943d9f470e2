"""OffsetDelete, KIP-496: offsets of topics that a group does not read any more go when asked to.

What it reads is what its generation began with, whatever its members have said since.
"""

from __future__ import annotations

import pytest
from committing import assign, commit, committed, joining, leave, serving, stable_member
from serving import Asked, Serving

from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ErrorCode
from odradek.protocol.api.join_group import JoinGroupResponse
from odradek.protocol.api.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

NONE, SUBSCRIBED = ErrorCode.NONE, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
BOTH = {("a", 0): 1, ("b", 0): 2}


@pytest.fixture
def node() -> Serving:
    """Two topics, and the offsets that a group has committed for both."""
    node = serving(MemoryDisk())
    node.create("a")
    node.create("b")
    commit(node, "g", BOTH)
    return node


def join(node: Serving, topic: str, instance: str) -> Asked:
    """A static member, which reads a topic, joins or comes back."""
    asked = node.send(joining("g", topic, instance=instance), 9)
    node.settle()
    node.pass_time(1)
    return asked


def first(node: Serving, topic: str, instance: str = "i") -> str:
    """The first generation, of one member, which has yet to assign; its id."""
    return join(node, topic, instance).answer(JoinGroupResponse).member_id


def delete_offsets(node: Serving) -> dict[str, int]:
    """Ask for the end of all that the group has committed; the error per topic."""
    response = asked_to_delete(node)
    assert response.error_code == NONE
    return {topic.name: topic.partitions[0].error_code for topic in response.topics}


def asked_to_delete(node: Serving) -> OffsetDeleteResponse:
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
        )
        for name in ("a", "b")
    ]
    request = OffsetDeleteRequest(group_id="g", topics=topics)
    return node.ask(request, 0, OffsetDeleteResponse)


def test_what_a_group_reads_stays_and_the_rest_goes(node: Serving) -> None:
    assign(node, "g", first(node, "a"))
    assert delete_offsets(node) == {"a": SUBSCRIBED, "b": NONE}
    assert committed(node, "g") == {("a", 0): 1}


def test_all_go_of_a_group_without_members(node: Serving) -> None:
    assert delete_offsets(node) == {"a": NONE, "b": NONE}
    assert committed(node, "g") == {}


def test_all_go_when_the_last_member_has_left(node: Serving) -> None:
    first(node, "a")
    leave(node, "g", instance="i")
    assert delete_offsets(node) == {"a": NONE, "b": NONE}


def test_all_stay_of_consumers_of_whom_it_is_not_known_what_they_read(node: Serving) -> None:
    stable_member(node, "g", metadata=b"unreadable")
    assert delete_offsets(node) == {"a": SUBSCRIBED, "b": SUBSCRIBED}
    assert committed(node, "g") == BOTH


def test_all_stay_of_a_group_whose_members_are_no_consumers(node: Serving) -> None:
    stable_member(node, "g", protocol_type="connect")
    response = asked_to_delete(node)
    assert (response.error_code, response.topics) == (ErrorCode.NON_EMPTY_GROUP, [])
    assert committed(node, "g") == BOTH


def test_a_member_that_comes_back_for_another_topic_reads_it_from_the_next_generation(
    node: Serving,
) -> None:
    """In a stable group there is none: its assignment goes on."""
    assign(node, "g", first(node, "a"))
    join(node, "b", "i").answer(JoinGroupResponse)
    assert delete_offsets(node) == {"a": SUBSCRIBED, "b": NONE}


def test_so_does_one_that_comes_back_while_the_next_generation_is_prepared(node: Serving) -> None:
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


def test_what_a_member_reads_that_leaves_is_read_until_the_next_generation(node: Serving) -> None:
    first(node, "a", "i")
    joining = join(node, "b", "j")
    join(node, "a", "i")
    assert joining.answer(JoinGroupResponse).generation_id == 2
    leave(node, "g", instance="j")
    assert delete_offsets(node) == {"a": SUBSCRIBED, "b": SUBSCRIBED}
    assert join(node, "a", "i").answer(JoinGroupResponse).generation_id == 3
    assert delete_offsets(node) == {"a": SUBSCRIBED, "b": NONE}


def test_a_generation_that_was_loaded_reads_what_is_kept_of_its_members(node: Serving) -> None:
    assign(node, "g", first(node, "a"))
    join(node, "b", "i")
    node.disk.locks.clear()  # as the system does for a process that was killed
    again = serving(node.disk)
    assert delete_offsets(again) == {"a": NONE, "b": SUBSCRIBED}
