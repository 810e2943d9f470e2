"""Groups whose members have an assignment that is not of the consumer protocol."""

from __future__ import annotations

from odradek.cli.group import summary
from odradek.client.admin.groups import description_of
from odradek.model.topics import TopicPartition
from odradek.protocol.api.describe_groups import DescribedGroup, DescribedGroupMember
from odradek.protocol.consumer_protocol import Assignment, encode_assignment


def group(protocol_type: str, *assignments: bytes) -> DescribedGroup:
    return DescribedGroup(
        error_code=0,
        group_id="g",
        group_state="Stable",
        protocol_type=protocol_type,
        protocol_data="range",
        members=[
            DescribedGroupMember(
                member_id=f"m{number}",
                client_id="c",
                client_host="/127.0.0.1",
                member_metadata=b"",
                member_assignment=assignment,
            )
            for number, assignment in enumerate(assignments)
        ],
    )


READABLE = encode_assignment(Assignment([TopicPartition("t", 1), TopicPartition("t", 0)]))


def test_an_unreadable_assignment_is_told_and_hides_no_other_member() -> None:
    found = description_of(group("consumer", b"\0\1a", READABLE, b""))
    first, second, third = found.members
    assert first.assignment == ()
    assert first.assignment_error is not None
    assert second.assignment == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert (second.assignment_error, third.assignment_error) == (None, None)
    assert summary(found) == (
        f"g: Stable, 3 members, range; assignment of m0 not readable: {first.assignment_error}"
    )


def test_the_assignment_of_a_group_that_is_no_consumer_group_is_not_read() -> None:
    (member,) = description_of(group("connect", b"\0\1a")).members
    assert (member.assignment, member.assignment_error) == ((), None)
