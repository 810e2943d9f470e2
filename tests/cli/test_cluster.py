"""`odradek cluster` and `topic alter` on a cluster of one broker; `tests/interop` has three."""

from __future__ import annotations

import json

import pytest

from cli.piping import Run, lines
from odradek import Admin
from odradek.cli.cluster import (
    controllers_alone,
    partition_summary,
    quorum_ages,
    quorum_roles,
    unheard_voters,
)
from odradek.cli.exits import FAILED, NOT_FOUND
from odradek.client.admin.results import Partition, Quorum, QuorumReplica, Reassignment, Topic
from odradek.model.topics import ZERO_UUID, TopicPartition


def test_the_status_has_a_row_for_each_broker_and_one_for_all_partitions(
    run: Run, bootstrap: str
) -> None:
    broker, partitions = map(json.loads, run("cluster", "status", "--json").stdout.splitlines())
    assert broker == {
        "broker": 1,
        "address": bootstrap,
        "rack": None,
        "leads": 4,
        "replicas": 4,
        "bytes": 0,
        "quorum": "leader",
        "behind": 0,
        "fetched_ms_ago": 0,
        "caught_up_ms_ago": 0,
        "cordoned": False,
    }
    assert partitions == {
        "partitions": 4,
        "without_leader": 0,
        "under_replicated": 0,
        "not_preferred": 0,
        "moving": 0,
    }
    assert lines(run("cluster", "info")) == lines(run("cluster", "status"))


@pytest.mark.parametrize("command", [("cluster", "grow"), ("topic", "alter", "wide", "-r", "1")])
def test_nothing_is_moved_where_everything_is_in_its_place(
    run: Run, command: tuple[str, ...]
) -> None:
    done = run(*command, "--yes")
    assert done.stderr == "odradek: every partition is where it should be\n"
    assert done.stdout == ""
    assert run(*command, "--dry-run").exit_code == 0


def test_nobody_is_elected_where_every_partition_has_its_leader(run: Run) -> None:
    done = run("topic", "elect", "t", "wide")
    assert done.stderr == "odradek: every partition is led by its first replica\n"
    done = run("topic", "elect", "t", "-p", "0", "--unclean")
    assert done.stderr == "odradek: every partition has a leader\n"
    missing = run("topic", "elect", "no-such-topic", code=NOT_FOUND)
    assert "no-such-topic" in missing.stderr


def test_a_plan_that_needs_more_brokers_is_refused_with_the_way_out(run: Run) -> None:
    drained = run("cluster", "drain", "1", "--yes", code=FAILED)
    assert "there is no other broker to move t-0 to" in drained.stderr
    raised = run("topic", "alter", "t", "--replicas", "2", "--yes", code=FAILED)
    assert "2 replicas need 2 brokers, and 1 are running" in raised.stderr
    removed = run("cluster", "remove", "1", "--yes", code=FAILED)
    assert "What to do: odradek cluster drain 1" in removed.stderr


def test_the_only_voter_cannot_be_removed(run: Run, admin: Admin) -> None:
    for topic in admin.topics(internal=True):
        admin.delete_topic(topic.name)
    removed = run("cluster", "remove", "1", "--yes", code=FAILED)
    assert "the only voter of the metadata quorum" in removed.stderr


def test_a_broker_that_does_not_exist_is_not_found(run: Run) -> None:
    drained = run("cluster", "drain", "9", "--yes", code=NOT_FOUND)
    assert drained.stderr == "odradek: there is no broker 9; there are 1\n"


def test_a_removal_asks_unless_it_is_confirmed(run: Run, admin: Admin) -> None:
    done = run("cluster", "remove", "9", code=2)
    assert "confirm with --yes" in done.stderr
    tried = run("cluster", "remove", "9", "--dry-run", "--json")
    assert json.loads(tried.stdout) == {"step": "unregister", "broker": 9}


def replica(node_id: int, end: int) -> QuorumReplica:
    return QuorumReplica(node_id, ZERO_UUID, end, -1, -1)


def test_nodes_of_the_quorum_are_behind_by_the_records_they_lack() -> None:
    quorum = Quorum(2, 5, 90, (replica(1, 95), replica(2, 100)), (replica(3, -1), replica(4, 60)))
    assert quorum_roles(quorum) == [
        (1, "voter", 5),
        (2, "leader", 0),
        (3, "observer", None),
        (4, "observer", 40),
    ]


def test_only_the_leader_of_the_quorum_is_shown_as_one() -> None:
    quorum = Quorum(1, 5, 90, (replica(1, 90), replica(2, 90)), ())
    assert [role for _, role, _ in quorum_roles(quorum)] == ["leader", "voter"]


def test_a_voter_that_is_no_broker_and_fetches_is_shown_with_its_address() -> None:
    voters = tuple(
        QuorumReplica(number, ZERO_UUID, 90, fetched_ms, -1)
        for number, fetched_ms in ((1, 20_000), (2, 19_000), (3, 9_000), (4, 20_000))
    )
    addresses = {number: {"CLUSTER": f"ctl{number}:19092"} for number in (1, 2, 3, 4)}
    quorum = Quorum(1, 5, 90, voters, (), addresses)
    assert quorum.silent_voters() == {3}
    assert controllers_alone(quorum, {4}) == {
        1: "ctl1:19092",
        2: "ctl2:19092",
        3: "not answering",
    }
    assert unheard_voters(quorum) == [
        "odradek: voter 3 does not answer: it has not fetched the metadata log for 11.0 s. "
        "3 of 4 voters answer, 3 must"
    ]


@pytest.mark.parametrize(("ago_ms", "answers"), [(2_000, True), (2_001, False)])
def test_a_voter_answers_while_its_last_fetch_is_within_the_fetch_timeout(
    ago_ms: int, answers: bool
) -> None:
    """The leader fetches nothing; its own times are those of its clock, also in Apache Kafka."""
    at_ms = 1_700_000_000_000
    voters = (
        QuorumReplica(1, ZERO_UUID, 90, at_ms, at_ms),
        QuorumReplica(2, ZERO_UUID, 90, at_ms - ago_ms, at_ms - ago_ms - 30),
        QuorumReplica(3, ZERO_UUID, 90, at_ms - 450, at_ms - 450),
    )
    quorum = Quorum(1, 5, 90, voters, (), {2: {"CLUSTER": "ctl2:19092"}})
    assert quorum_ages(quorum) == {1: (0, 0), 2: (ago_ms, ago_ms + 30), 3: (450, 450)}
    assert (unheard_voters(quorum) == []) is answers
    assert controllers_alone(quorum, {1, 3}) == {2: "ctl2:19092" if answers else "not answering"}
    assert quorum.silent_voters() == set()  # Too early to say that it does not run.


def test_a_voter_that_a_new_leader_has_never_heard_does_not_answer() -> None:
    voters = (
        QuorumReplica(1, ZERO_UUID, 90, 20_000, 20_000),
        QuorumReplica(2, ZERO_UUID, -1, -1, -1),
    )
    quorum = Quorum(1, 5, 90, voters, ())
    assert quorum_ages(quorum)[2] == (None, None)
    assert unheard_voters(quorum) == [
        "odradek: voter 2 does not answer: it has not fetched the metadata log since leader 1 was "
        "elected. 1 of 2 voters answer, 2 must"
    ]


def test_a_quorum_that_tells_no_times_has_no_silent_voters() -> None:
    quorum = Quorum(1, 5, 90, (replica(1, 90), replica(2, 90)), ())
    assert quorum_ages(quorum) == {1: (None, None), 2: (None, None)}
    assert unheard_voters(quorum) == []


def test_a_controller_that_does_not_vote_yet_is_shown_as_running_while_it_fetches() -> None:
    voters = (QuorumReplica(1, ZERO_UUID, 90, 20_000, -1),)
    observers = tuple(
        QuorumReplica(number, ZERO_UUID, 90, fetched_ms, -1)
        for number, fetched_ms in ((2, 20_000), (3, 9_000), (11, 20_000))
    )
    quorum = Quorum(1, 5, 90, voters, observers, {1: {"CLUSTER": "ctl1:19092"}})
    assert controllers_alone(quorum, {11}) == {1: "ctl1:19092", 2: "runs", 3: "not answering"}


def test_partitions_that_need_attention_are_counted() -> None:
    partitions = (
        Partition(0, 1, (1, 2), (1, 2)),
        Partition(1, 2, (1, 2), (2,)),
        Partition(2, -1, (1,), ()),
    )
    moving = {TopicPartition("t", 0): Reassignment((1, 2, 3), (3,), (2,))}
    summary = partition_summary([Topic("t", ZERO_UUID, False, partitions)], moving)
    assert summary.rows == [(3, 1, 2, 2, 1)]
