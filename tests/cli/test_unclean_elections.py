"""`odradek topic elect --unclean` where the replicas with all records do not come back."""

from __future__ import annotations

import json

from cli.processes import run
from cli.test_up_nodes import until
from odradek import Admin, Producer
from odradek.testing import Cluster

SETTINGS = {"default.replication.factor": 2, "min.insync.replicas": 1}


def test_a_partition_that_nobody_leads_gets_a_leader_that_lacks_records() -> None:
    with Cluster(3, settings=SETTINGS) as cluster, Admin(brokers=cluster.bootstrap) as admin:
        at = ("-b", cluster.bootstrap)
        admin.create_topic("t")
        (partition,) = admin.topic("t").partitions
        lost, behind = partition.replicas
        with Producer(brokers=cluster.bootstrap) as producer:
            producer.send("t", b"on both").result()
            cluster.stop(behind)
            until(lambda: admin.topic("t").partitions[0].isr == (lost,))
            producer.send("t", b"on one").result()
        cluster.kill(lost)
        cluster.start(behind)
        until(lambda: admin.topic("t").partitions[0].leader == -1)

        tried = run("topic", "elect", "t", "--unclean", "--dry-run", *at)
        row = ["t", "0", "", f"{lost},{behind}", "", str(lost)]
        assert tried.stdout.rstrip("\n").split("\t") == row, tried.stderr
        elected = run("topic", "elect", "t", "--unclean", "--yes", "--json", *at)
        assert elected.returncode == 0, elected.stderr
        assert json.loads(elected.stdout) == {"topic": "t", "partition": 0, "elected": True}
        assert cluster.leader_of("t") == behind
        assert run("consume", "t", "-e", *at).stdout == "on both\n"
