"""Invalid and confusable names of topics and groups.

Topic names have few allowed characters. A group name may be any text, and identifies that group
alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from clients.asking import until
from clients.wire import RawConnection
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.api.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.api.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from odradek.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.api.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from odradek.protocol.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from odradek.protocol.api.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.testing.broker import Broker

TOPIC = "read"
GROUPS = (
    "",
    ".",
    "..",
    "a",
    "A",
    "\u0430",  # Cyrillic
    "a/b",
    "a%2Fb",
    "a\0b",
    "a\n",
    " ",
    "\u00e9",
    "e\u0301",  # Looks the same.
    "__consumer_offsets",
    "x" * 249,
    "x" * 250,
    "x" * 32_767,
)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\0b", "../../etc/passwd", "x" * 250, "t\u00f6pic", "a b"]
)
def test_an_invalid_topic_name_is_refused(broker: Broker, name: str) -> None:
    asked = CreatableTopic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    with RawConnection(broker.bootstrap) as wire:
        answer = wire.ask(CreateTopicsRequest(topics=[asked]), 7, CreateTopicsResponse)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION]


def test_a_topic_name_too_long_for_the_message_is_refused(broker: Broker) -> None:
    asked = CreatableTopic(
        name="x" * 32_767, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    with RawConnection(broker.bootstrap) as wire:
        answer = wire.ask(CreateTopicsRequest(topics=[asked]), 7, CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(answer.topics[0].error_message or "") < 2_100


def test_metadata_of_10_000_unknown_topics_creates_none_and_logs_one_line(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    names = [MetadataRequestTopic(name=f"none-{number}") for number in range(10_000)]
    with RawConnection(broker.bootstrap, timeout=60) as wire:
        wire.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
        asked = MetadataRequest(topics=names, allow_auto_topic_creation=True)
        for _ in range(3):
            answer = wire.ask(asked, 9, MetadataResponse)
            assert len(answer.topics) == len(names)
        everything = wire.ask(MetadataRequest(topics=None), 9, MetadataResponse)
    assert not any((topic.name or "").startswith("none-") for topic in everything.topics)
    assert len(caplog.records) == 3


def test_names_that_collide_in_dots_and_underscores_are_refused(
    broker: Broker,
) -> None:
    def created(name: str) -> ErrorCode:
        asked = CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        with RawConnection(broker.bootstrap) as wire:
            answer = wire.ask(CreateTopicsRequest(topics=[asked]), 7, CreateTopicsResponse)
        return ErrorCode(answer.topics[0].error_code)

    assert created("one.name") == ErrorCode.NONE
    assert created("one_name") == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert created("One.name") == ErrorCode.NONE
    assert created("\u043ene.name") == ErrorCode.INVALID_TOPIC_EXCEPTION  # Cyrillic o


def coordinator(wire: RawConnection, group: str) -> ErrorCode:
    request = FindCoordinatorRequest(key=group)
    return ErrorCode(wire.ask(request, 3, FindCoordinatorResponse).error_code)


def commit(wire: RawConnection, group: str, offset: int) -> int:
    """Commit without membership; return the error code."""
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=group[:100]
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )
    (topic,) = wire.ask(request, 8, OffsetCommitResponse).topics
    return int(topic.partitions[0].error_code)


def committed(wire: RawConnection) -> dict[str, tuple[int, str | None]]:
    """Return the committed offset and metadata of every group."""
    topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
    asked = [OffsetFetchRequestGroup(group_id=group, topics=[topic]) for group in GROUPS]
    answer = wire.ask(OffsetFetchRequest(groups=asked), 8, OffsetFetchResponse)
    found = {group.group_id: group.topics[0].partitions[0] for group in answer.groups}
    return {group: (p.committed_offset, p.metadata) for group, p in found.items()}


def test_every_group_name_has_offsets_of_its_own(tmp_path: Path) -> None:
    kept = {group: (number, group[:100]) for number, group in enumerate(GROUPS)}
    with Broker(data_dir=tmp_path) as broker, RawConnection(broker.bootstrap) as wire:
        wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 9, MetadataResponse)
        assert until(lambda: coordinator(wire, "any") == ErrorCode.NONE)
        for group, (offset, _) in kept.items():
            assert coordinator(wire, group) == ErrorCode.NONE
            assert commit(wire, group, offset) == ErrorCode.NONE
        assert committed(wire) == kept
        assert broker.bugs == 0
    with Broker(data_dir=tmp_path) as broker, RawConnection(broker.bootstrap) as wire:
        assert until(lambda: committed(wire) == kept)
        listed = wire.ask(ListGroupsRequest(), 4, ListGroupsResponse).groups
        assert sorted(group.group_id for group in listed) == sorted(GROUPS)
        assert broker.bugs == 0


def test_a_group_with_an_empty_name_has_offsets_but_no_members(known: RawConnection) -> None:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    join = JoinGroupRequest(
        group_id="",
        session_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    sync = SyncGroupRequest(group_id="", generation_id=1, member_id="m", assignments=[])
    beat = HeartbeatRequest(group_id="", generation_id=1, member_id="m")
    leave = LeaveGroupRequest(group_id="", members=[MemberIdentity(member_id="m")])
    answers = [
        known.ask(join, 5, JoinGroupResponse),
        known.ask(sync, 3, SyncGroupResponse),
        known.ask(beat, 3, HeartbeatResponse),
        known.ask(leave, 4, LeaveGroupResponse),
    ]
    assert {answer.error_code for answer in answers} == {ErrorCode.INVALID_GROUP_ID}  # type: ignore[attr-defined]
