"""`odradek cluster` on several nodes of our own: one is drained and removed, one cordoned."""

from __future__ import annotations

import json

from cli.processes import run
from cli.test_up_nodes import until
from odradek import Admin, Producer
from odradek.testing import Cluster


def voters(admin: Admin) -> set[int]:
    return {each.node_id for each in admin.quorum().voters}


def holders(admin: Admin) -> set[int]:
    """The nodes that have a replica of any partition."""
    topics = admin.topics(internal=True)
    return {node for topic in topics for each in topic.partitions for node in each.replicas}


def test_a_voter_is_drained_and_removed_and_the_fourth_node_takes_its_place() -> None:
    with Cluster(4) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.bootstrap)
        with Producer(brokers=cluster.bootstrap) as producer:
            for number in range(100):
                producer.send("t", str(number).encode()).result()
        admin.create_topic("wide", partitions=4)
        until(lambda: voters(admin) == {1, 2, 3})

        drained = run("cluster", "drain", "2", "--yes", *at)
        assert drained.returncode == 0, drained.stderr
        until(lambda: not holders(admin) & {2})
        assert run("cluster", "drain", "2", "--yes", *at).returncode == 0  # It goes on: nothing.

        refused = run("cluster", "remove", "2", "--yes", *at)
        assert refused.returncode == 1
        assert "stop it, then odradek cluster remove 2" in refused.stderr
        assert voters(admin) == {1, 2, 3}
        cluster.stop(2)
        removed = run("cluster", "remove", "2", "--yes", "--json", *at)
        assert removed.returncode == 0, removed.stderr
        assert json.loads(removed.stdout.splitlines()[-1]) == {"broker": 2, "removed": True}
        until(lambda: voters(admin) == {1, 3, 4})
        read = run("consume", "t", "-e", *at)
        assert sorted(map(int, read.stdout.split())) == list(range(100))


def test_a_cordoned_broker_gets_no_replicas_and_is_shown_as_cordoned() -> None:
    with Cluster(3) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.bootstrap)
        admin.set_config({"cordoned.log.dirs": "*"}, broker=3)
        rows = [
            json.loads(line)
            for line in run("cluster", "status", "--json", *at).stdout.splitlines()
            if "cordoned" in line
        ]
        assert {row["broker"] for row in rows if row["cordoned"]} == {3}
        admin.create_topic("t", partitions=6, replication=1, config={"min.insync.replicas": 1})
        grown = run("cluster", "grow", "-r", "2", "--yes", *at)
        assert grown.returncode == 0, grown.stderr
        assert holders(admin) == {1, 2}
