"""`cluster grow` and `cluster drain` that are killed, interrupted, or lose a node half way.

The commands are processes of their own; the nodes are real ones, in memory.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Sequence

from cli.processes import ODRADEK, run
from cli.test_up_nodes import until
from odradek import Admin, Producer
from odradek.cli.exits import DONE, FAILED, INTERRUPTED, TERMINATED
from odradek.model.topics import TopicPartition
from odradek.testing import Cluster

SETTINGS = {"default.replication.factor": 1, "min.insync.replicas": 1}
TOPIC, PARTITIONS, RECORDS = "orders", 12, 120


def create_on(admin: Admin, assignment: Sequence[tuple[int, ...]]) -> None:
    """Create the topic with these replicas."""
    admin.create_topic(TOPIC, partitions=len(assignment), replication=len(assignment[0]))
    plan = {TopicPartition(TOPIC, number): each for number, each in enumerate(assignment)}
    assert set(admin.alter_reassignments(plan).values()) == {None}
    until(lambda: replicas(admin) == list(assignment))


def write(cluster: Cluster) -> None:
    with Producer(brokers=cluster.bootstrap, acks="all") as producer:
        for number in range(RECORDS):
            producer.send(TOPIC, str(number).encode(), partition=number % PARTITIONS)


def nothing_is_lost(cluster: Cluster) -> bool:
    done = run("consume", TOPIC, "-e", "-b", cluster.bootstrap)
    return sorted(map(int, done.stdout.split())) == list(range(RECORDS))


def interrupted(signal_number: int, *arguments: str) -> tuple[int, str]:
    """Send a signal to a command when it has moved one partition, and return its exit code and what
    it told on stderr."""
    command = [*ODRADEK, *arguments, "--yes", "--json", "--at-once", "1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        moved = json.loads(process.stdout.readline())
        assert moved["topic"] == TOPIC
        process.send_signal(signal_number)
        _, told = process.communicate(timeout=60)
        return process.returncode, told


def replicas(admin: Admin) -> list[tuple[int, ...]]:
    return [each.replicas for each in admin.topic(TOPIC).partitions]


def in_sync(admin: Admin) -> list[int]:
    return [len(each.isr) for each in admin.topic(TOPIC).partitions]


def leaders(admin: Admin) -> Counter[int]:
    return Counter(each.leader for each in admin.topic(TOPIC).partitions)


def test_growing_goes_on_after_a_kill_and_an_interrupt_and_ends_as_if_at_once() -> None:
    with Cluster(3, settings=SETTINGS) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.bootstrap)
        admin.create_topic(TOPIC, partitions=PARTITIONS)
        write(cluster)
        grow = ("cluster", "grow", *at)

        assert interrupted(signal.SIGKILL, *grow) == (-signal.SIGKILL, "")
        until(lambda: admin.reassignments() == {})
        assert 3 in in_sync(admin)
        assert 1 in in_sync(admin)

        for number, code in ((signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)):
            ended, told = interrupted(number, *grow)
            assert ended == code
            assert "under way" in told
            assert "run the same command again" in told
            until(lambda: admin.reassignments() == {})
            assert 1 in in_sync(admin)

        done = run(*grow, "--yes")
        assert done.returncode == DONE, done.stderr
        assert " moved\n" in done.stderr
        until(lambda: in_sync(admin) == [3] * PARTITIONS)
        until(lambda: leaders(admin) == dict.fromkeys((1, 2, 3), PARTITIONS // 3))
        assert run(*grow, "--yes").stderr == "odradek: every partition is where it should be\n"
        assert nothing_is_lost(cluster)


def test_draining_goes_on_after_a_kill_and_an_interrupt_until_nothing_is_left() -> None:
    with Cluster(3, settings=SETTINGS) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.bootstrap)
        admin.create_topic(TOPIC, partitions=PARTITIONS, replication=2)
        write(cluster)
        drain = ("cluster", "drain", "2", *at)

        ended, told = interrupted(signal.SIGKILL, *drain)
        assert ended == -signal.SIGKILL
        assert told == "odradek: broker 2 is cordoned; `odradek cluster uncordon 2` undoes it\n"
        until(lambda: admin.reassignments() == {})
        assert any(2 in each for each in replicas(admin))
        refused = run("cluster", "remove", "2", "--yes", *at)
        assert refused.returncode == FAILED
        assert "What to do: odradek cluster drain 2" in refused.stderr

        assert interrupted(signal.SIGINT, *drain)[0] == INTERRUPTED
        done = run(*drain, "--yes")
        assert done.returncode == DONE, done.stderr
        until(lambda: replicas(admin) != [] and all(2 not in each for each in replicas(admin)))
        assert in_sync(admin) == [2] * PARTITIONS
        assert nothing_is_lost(cluster)


def test_a_node_that_is_lost_while_it_copies_is_replaced_by_the_next_run() -> None:
    """For each of the commands: the interrupted run has begun to copy to the node that is lost."""
    with Cluster(5, settings=SETTINGS) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.bootstrap)
        create_on(admin, [(1 + number % 3,) for number in range(PARTITIONS)])
        write(cluster)
        cluster.kill(4)
        until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2, 3, 5})

        under_way = {TopicPartition(TOPIC, 0): (1, 4), TopicPartition(TOPIC, 1): (4, 2)}
        assert set(admin.alter_reassignments(under_way).values()) == {None}
        grown = run("cluster", "grow", "-r", "2", "--yes", "--at-once", "1", *at)
        assert grown.returncode == DONE, grown.stderr
        until(lambda: in_sync(admin) == [2] * PARTITIONS)
        assert all(4 not in each for each in replicas(admin))

        leaving = replicas(admin)[0][0]
        assert admin.alter_reassignments({TopicPartition(TOPIC, 0): (4,)}) == {
            TopicPartition(TOPIC, 0): None
        }
        refused = run("cluster", "remove", str(leaving), "--yes", *at)
        assert refused.returncode == FAILED
        assert "being moved away" in refused.stderr
        drained = run("cluster", "drain", str(leaving), "--yes", *at)
        assert drained.returncode == DONE, drained.stderr
        until(lambda: {4, leaving}.isdisjoint(each for r in replicas(admin) for each in r))
        assert nothing_is_lost(cluster)


def test_a_move_of_others_to_a_lost_node_holds_up_nobody() -> None:
    with Cluster(4, settings=SETTINGS) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        create_on(admin, [(1,), (3,)])
        cluster.kill(4)
        until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2, 3})
        admin.create_topic("payments", partitions=1)
        first = TopicPartition(TOPIC, 0)
        assert admin.alter_reassignments({first: (1, 4)}) == {first: None}
        at = ("--yes", "--json", "--at-once", "1", "-b", cluster.address_of(1))
        drained = run("cluster", "drain", "3", *at)
        assert drained.returncode == DONE, drained.stderr
        moved = [json.loads(line) for line in drained.stdout.splitlines()]
        assert {"topic": TOPIC, "partition": 0} not in [
            {name: each.get(name) for name in ("topic", "partition")} for each in moved
        ]
        assert moved[-1] == {"broker": 3, "drained": True, "cordoned": True}
        altered = run("topic", "alter", "payments", "--replicas", "2", *at)
        assert altered.returncode == DONE, altered.stderr
        assert admin.reassignments().keys() == {first}


def test_a_drained_node_may_be_lost_on_the_way() -> None:
    with Cluster(4, settings=SETTINGS) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.bootstrap)
        admin.create_topic(TOPIC, partitions=PARTITIONS, replication=3)
        write(cluster)
        assert interrupted(signal.SIGINT, "cluster", "drain", "2", *at)[0] == INTERRUPTED
        cluster.kill(2)
        until(lambda: {node.id for node in admin.cluster().nodes} == {1, 3, 4})
        drained = run("cluster", "drain", "2", "--yes", *at)
        assert drained.returncode == DONE, drained.stderr
        until(lambda: all(2 not in each for each in replicas(admin)))
        until(lambda: in_sync(admin) == [3] * PARTITIONS)
        assert run("cluster", "remove", "2", "--yes", *at).returncode == DONE
        assert nothing_is_lost(cluster)


def test_a_node_to_which_an_interrupted_growth_copies_can_be_drained() -> None:
    """Three nodes are no more than a partition is to have: what only copies there is given up."""
    with Cluster(3, settings=SETTINGS) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.bootstrap)
        create_on(admin, [(1, 2)] * PARTITIONS)
        write(cluster)
        cluster.kill(3)
        until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2})
        moves = {TopicPartition(TOPIC, number): (1, 2, 3) for number in range(2)}
        assert set(admin.alter_reassignments(moves).values()) == {None}
        drained = run("cluster", "drain", "3", "--yes", *at)
        assert drained.returncode == DONE, drained.stderr
        until(lambda: replicas(admin) == [(1, 2)] * PARTITIONS)
        assert admin.reassignments() == {}
        assert nothing_is_lost(cluster)
