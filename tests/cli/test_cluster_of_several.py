"""`odradek cluster` on several nodes of our own: one is drained and removed, one cordoned."""

from __future__ import annotations

import json
import subprocess

from cli.processes import ODRADEK, run
from cli.test_up_nodes import until
from odradek import Admin, Producer
from odradek.cli.exits import FAILED, NOT_FOUND, REFUSED, UNREACHABLE, USAGE
from odradek.client.errors import ApiTimeout
from odradek.testing import Cluster


def voters(admin: Admin) -> set[int]:
    return {each.node_id for each in admin.quorum().voters}


def has_leader(address: str) -> bool:
    """True if the broker gets an answer of the quorum within half a second."""
    with Admin(brokers=address, default_api_timeout_ms=500) as admin:
        try:
            admin.quorum()
        except ApiTimeout:
            return False
        return True


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


def test_a_drained_broker_gets_no_replicas_also_from_another_controller() -> None:
    """Topics are made while it is drained, after that, and after a failover and a restart."""
    least = {"min.insync.replicas": 1}
    with Cluster(4) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.bootstrap)
        admin.create_topic("t", partitions=6, replication=1, config=least)
        command = [*ODRADEK, "cluster", "drain", "4", "--yes", "--json", "--at-once", "1", *at]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as drain:
            assert drain.stdout is not None
            drain.stdout.readline()
            admin.create_topic("meanwhile", partitions=8, replication=1, config=least)
            lines = drain.communicate(timeout=60)[0].splitlines()
        assert drain.returncode == 0
        assert json.loads(lines[-1]) == {"broker": 4, "drained": True, "cordoned": True}
        assert 4 not in holders(admin)

        cluster.kill(cluster.controller())
        cluster.controller()
        cluster.kill(4)
        cluster.start(4)
        until(lambda: 4 in {node.id for node in admin.cluster().nodes})
        admin.create_topic("later", partitions=8, replication=2, config=least)
        assert 4 not in holders(admin)

        refused = run("topic", "create", "wider", "-p", "1", "-r", "4", *at)
        assert refused.returncode == REFUSED
        again = run("cluster", "uncordon", "4", "--json", *at)
        assert json.loads(again.stdout) == {"broker": 4, "cordoned": False}
        admin.create_topic("wider", partitions=1, replication=4)
        assert 4 in holders(admin)


def test_a_stopped_broker_is_drained_and_is_said_not_to_be_cordoned() -> None:
    with Cluster(4) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.bootstrap)
        admin.create_topic("t", partitions=4)
        cluster.kill(4)
        until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2, 3})
        drained = run("cluster", "drain", "4", "--yes", *at)
        assert drained.returncode == 0, drained.stderr
        assert "broker 4 is not cordoned: it does not run." in drained.stderr
        until(lambda: 4 not in holders(admin))
        assert "uncordon" not in drained.stderr


def test_a_drain_that_is_refused_or_only_tried_cordons_nobody() -> None:
    with Cluster(3) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.bootstrap)
        admin.create_topic("t", partitions=1)
        assert run("cluster", "drain", "3", "--yes", *at).returncode == 1
        assert run("topic", "alter", "t", "-r", "2", "--yes", *at).returncode == 0
        until(lambda: len(admin.topic("t").partitions[0].replicas) == 2)
        for node in cluster.ids:
            assert run("cluster", "drain", str(node), "--dry-run", *at).returncode == 0
            assert not admin.log_dirs(node)[node][0].is_cordoned


def test_a_broker_without_replicas_is_cordoned_only_when_that_is_confirmed() -> None:
    with Cluster(3) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        drain = ("cluster", "drain", "3", "-b", cluster.bootstrap)
        assert 3 not in holders(admin)
        tried = run(*drain, "--dry-run", "--json")
        assert json.loads(tried.stdout) == {"step": "cordon", "broker": 3}
        refused = run(*drain)
        assert refused.returncode == USAGE
        assert "confirm with --yes" in refused.stderr
        assert not admin.log_dirs(3)[3][0].is_cordoned

        drained = run(*drain, "--yes", "--json")
        assert drained.returncode == 0, drained.stderr
        assert json.loads(drained.stdout) == {"broker": 3, "drained": True, "cordoned": True}
        said = "odradek: broker 3 is cordoned; `odradek cluster uncordon 3` undoes it\n"
        assert drained.stderr == said
        again = run(*drain)  # Nothing is left to confirm.
        assert again.returncode == 0, again.stderr
        assert said not in again.stderr


def test_a_broker_is_not_uncordoned_before_it_is_started() -> None:
    with Cluster(3) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.address_of(1))
        admin.set_config({"cordoned.log.dirs": "*"}, broker=3)
        cluster.kill(3)
        until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2})
        refused = run("cluster", "uncordon", "3", *at)
        assert refused.returncode == FAILED
        assert "broker 3 does not run. What to do: start it, then uncordon it" in refused.stderr
        missing = run("cluster", "uncordon", "9", *at)
        assert missing.returncode == NOT_FOUND
        assert missing.stderr == "odradek: there is no broker 9; there are 1, 2, 3\n"
        cluster.start(3)
        until(lambda: {node.id for node in admin.cluster().nodes} == {1, 2, 3})
        done = run("cluster", "uncordon", "3", *at)
        assert done.returncode == 0, done.stderr
        assert done.stderr == "odradek: broker 3 gets new replicas\n"


def test_the_status_of_a_cluster_without_a_majority_shows_what_its_broker_knows() -> None:
    with Cluster(3) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        until(lambda: voters(admin) == {1, 2, 3})
        admin.create_topic("t", partitions=6)
        at = ("-b", cluster.address_of(1), "-X", "default.api.timeout.ms=1500")
        cluster.kill(2)
        cluster.kill(3)
        until(lambda: not has_leader(cluster.address_of(1)))
        shown = run("cluster", "status", "--json", *at)
        assert shown.returncode == UNREACHABLE, shown.stderr
        *brokers, partitions = map(json.loads, shown.stdout.splitlines())
        assert 1 in {row["broker"] for row in brokers if row["replicas"] == 6}
        assert [row["broker"] for row in brokers] == [1, 2, 3]
        unknown = {(row["quorum"], row["bytes"], row["cordoned"]) for row in brokers}
        assert unknown == {(None, None, None)}
        assert (partitions["partitions"], partitions["moving"]) == (6, None)
        assert "the metadata quorum does not answer" in shown.stderr
