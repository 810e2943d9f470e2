"""Replicas, elections and the quorum by the admin client, on a cluster of one broker."""

from __future__ import annotations

import pytest

from odradek.client.blocking.admin import Admin
from odradek.client.errors import KafkaError
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition

FIRST, SECOND = TopicPartition("moved", 0), TopicPartition("moved", 1)


@pytest.fixture(autouse=True, scope="module")
def topic(admin: Admin) -> None:
    admin.create_topic("moved", partitions=2)


def test_the_only_broker_leads_the_quorum_and_is_its_only_voter(admin: Admin) -> None:
    quorum = admin.quorum()
    assert quorum.leader == 1
    assert [voter.node_id for voter in quorum.voters] == [1]
    assert quorum.observers == ()
    assert quorum.high_watermark > 0


def test_a_partition_is_reassigned_to_where_it_is(admin: Admin) -> None:
    assert admin.alter_reassignments({FIRST: [1], SECOND: (1,)}) == {FIRST: None, SECOND: None}
    assert admin.reassignments() == {}
    assert admin.reassignments([FIRST]) == {}


def test_a_reassignment_that_is_impossible_has_an_error_of_its_own(admin: Admin) -> None:
    results = admin.alter_reassignments({FIRST: [1], SECOND: [1, 9], TopicPartition("no", 0): [1]})
    assert results[FIRST] is None
    codes = {key: error.code for key, error in results.items() if isinstance(error, KafkaError)}
    assert codes == {
        SECOND: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        TopicPartition("no", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_cancelling_where_nothing_is_moved_is_an_error(admin: Admin) -> None:
    error = admin.alter_reassignments({FIRST: None})[FIRST]
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


@pytest.mark.parametrize("unclean", [False, True])
def test_an_election_that_is_not_needed_counts_as_done(admin: Admin, unclean: bool) -> None:
    assert admin.elect_leaders([FIRST, SECOND], unclean=unclean) == {FIRST: None, SECOND: None}
    error = admin.elect_leaders([TopicPartition("no", 0)])[TopicPartition("no", 0)]
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_election_of_all_partitions_returns_those_that_it_changed(admin: Admin) -> None:
    assert admin.elect_leaders() == {}
