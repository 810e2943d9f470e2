"""Declarations of messages: the classes they make, and invalid declarations."""

from __future__ import annotations

import pytest

from odradek.protocol.api_keys import FIRST_OWN_KEY, MESSAGES
from odradek.protocol.schema import (
    TEXT,
    ArrayOf,
    Fixed,
    StructOf,
    declaration,
    field,
    fields_of,
    i16,
    i32,
    message,
    struct,
)


@struct
class Inner:
    number: i16


@message(api=77, versions=(1, 4), flexible=3)
class Outer:
    name: str | None = field(nullable_since=2)
    inners: list[Inner]
    extra: list[i32] = field(factory=list, since=2)
    late: Inner | None = field(default=None, tag=0, since=3)


def test_a_constructor_takes_keywords_and_has_the_declared_defaults() -> None:
    first = Outer(name="a", inners=[])
    assert first == Outer(name="a", inners=[], extra=[], late=None)
    assert first != Outer(name="b", inners=[])
    assert first.extra is not Outer(name="a", inners=[]).extra
    with pytest.raises(TypeError):
        Outer(name="a")  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Outer("a", [])  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Outer(name="a", inners=[], nmae="b")  # type: ignore[call-arg]


def test_messages_are_equal_by_their_fields_and_not_hashable() -> None:
    value = Outer(name="a", inners=[Inner(number=1)])
    assert repr(value) == "Outer(name='a', inners=[Inner(number=1)], extra=[], late=None)"
    with pytest.raises(AttributeError):
        value.other = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        hash(value)


def test_annotations_resolve_to_wire_types() -> None:
    name, inners, extra, late = fields_of(Outer)
    assert (name.type, inners.type) == (TEXT, ArrayOf(StructOf(Inner)))
    assert (extra.type, late.type) == (ArrayOf(Fixed("i", 4)), StructOf(Inner))
    assert [name.nullable(version) for version in (1, 2)] == [False, True]
    assert [extra.present(version) for version in (1, 2)] == [False, True]
    assert [declaration(Outer).is_flexible(version) for version in (2, 3)] == [False, True]


def test_a_field_that_some_version_lacks_without_a_default_is_refused() -> None:
    with pytest.raises(TypeError, match="has no default"):

        @message(api=1, versions=(0, 3), flexible=None)
        class Late:
            number: i32 = field(since=2)


def test_nullable_since_without_an_optional_type_is_refused() -> None:
    @struct
    class Wrong:
        number: str = field(nullable_since=2)

    with pytest.raises(TypeError, match="nullable"):
        fields_of(Wrong)


def test_a_type_without_a_wire_form_is_refused() -> None:
    @struct
    class Wrong:
        number: int

    with pytest.raises(TypeError, match="not a wire type"):
        fields_of(Wrong)


def test_the_table_of_apis_has_kafkas_versions() -> None:
    # Kafka 4.4, from the floor of KIP-896 up.
    table = {
        api.name: (api.key, api.versions, api.flexible)
        for api in MESSAGES.values()
        if api.key < FIRST_OWN_KEY
    }
    assert table == {
        "Produce": (0, (3, 13), 9),
        "Fetch": (1, (4, 18), 12),
        "ListOffsets": (2, (1, 11), 6),
        "Metadata": (3, (0, 13), 9),
        "OffsetCommit": (8, (2, 10), 8),
        "OffsetFetch": (9, (1, 10), 6),
        "FindCoordinator": (10, (0, 6), 3),
        "JoinGroup": (11, (0, 9), 6),
        "Heartbeat": (12, (0, 4), 4),
        "LeaveGroup": (13, (0, 5), 4),
        "SyncGroup": (14, (0, 5), 4),
        "DescribeGroups": (15, (0, 6), 5),
        "ListGroups": (16, (0, 5), 3),
        "SaslHandshake": (17, (0, 1), None),
        "ApiVersions": (18, (0, 5), 3),
        "CreateTopics": (19, (2, 7), 5),
        "DeleteTopics": (20, (1, 6), 4),
        "DeleteRecords": (21, (0, 2), 2),
        "InitProducerId": (22, (0, 6), 2),
        "OffsetForLeaderEpoch": (23, (2, 4), 4),
        "AddPartitionsToTxn": (24, (0, 5), 3),
        "AddOffsetsToTxn": (25, (0, 4), 3),
        "EndTxn": (26, (0, 5), 3),
        "WriteTxnMarkers": (27, (1, 2), 1),
        "TxnOffsetCommit": (28, (0, 5), 3),
        "DescribeAcls": (29, (1, 3), 2),
        "CreateAcls": (30, (1, 3), 2),
        "DeleteAcls": (31, (1, 3), 2),
        "DescribeConfigs": (32, (1, 4), 4),
        "AlterConfigs": (33, (0, 2), 2),
        "DescribeLogDirs": (35, (1, 5), 2),
        "SaslAuthenticate": (36, (0, 2), 2),
        "CreatePartitions": (37, (0, 3), 2),
        "DeleteGroups": (42, (0, 3), 2),
        "ElectLeaders": (43, (0, 2), 2),
        "OffsetDelete": (47, (0, 0), None),
        "DescribeClientQuotas": (48, (0, 1), 1),
        "DescribeUserScramCredentials": (50, (0, 0), 0),
        "Vote": (52, (0, 2), 0),
        "BeginQuorumEpoch": (53, (0, 1), 1),
        "EndQuorumEpoch": (54, (0, 1), 1),
        "FetchSnapshot": (59, (0, 1), 0),
        "AddRaftVoter": (80, (0, 1), 0),
        "RemoveRaftVoter": (81, (0, 0), 0),
        "UpdateRaftVoter": (82, (0, 0), 0),
        "DescribeQuorum": (55, (0, 2), 0),
        "AlterPartition": (56, (2, 3), 0),
        "UpdateFeatures": (57, (0, 2), 0),
        "Envelope": (58, (0, 0), 0),
        "IncrementalAlterConfigs": (44, (0, 1), 1),
        "AlterPartitionReassignments": (45, (0, 1), 0),
        "ListPartitionReassignments": (46, (0, 0), 0),
        "DescribeCluster": (60, (0, 2), 0),
        "DescribeProducers": (61, (0, 0), 0),
        "BrokerRegistration": (62, (0, 4), 0),
        "BrokerHeartbeat": (63, (0, 2), 0),
        "UnregisterBroker": (64, (0, 0), 0),
        "DescribeTransactions": (65, (0, 0), 0),
        "ListTransactions": (66, (0, 2), 0),
        "AllocateProducerIds": (67, (0, 0), 0),
        "ListConfigResources": (74, (0, 1), 0),
        "DescribeTopicPartitions": (75, (0, 0), 0),
    }
