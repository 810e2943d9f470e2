"""Three broker processes: what is acknowledged is on all three, and a killed leader is replaced."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from clients.cluster_processes import ClusterProcesses, until
from clients.killing import IDEMPOTENT, PLAIN, Load, check, read_back

SETTINGS = {"min_insync_replicas": "2", "offsets_topic_num_partitions": "3"}


def has_full_isr(cluster: ClusterProcesses, topic: str) -> bool:
    return cluster.partition(topic)[1] == [1, 2, 3]


def test_a_killed_leader_is_replaced_and_comes_back_without_a_lost_record(tmp_path: Path) -> None:
    with ClusterProcesses(tmp_path, **SETTINGS) as cluster:
        for topic in (IDEMPOTENT, PLAIN):
            cluster.create(topic)
        loads = [Load(topic, cluster.bootstrap) for topic in (IDEMPOTENT, PLAIN)]
        for load in loads:
            load.await_ack()
        first, in_sync = cluster.partition(IDEMPOTENT)
        assert in_sync == [1, 2, 3]
        cluster.kill(first)
        until(lambda: cluster.moved_from(first, IDEMPOTENT))
        for load in loads:
            load.await_ack()
        cluster.start(first)
        for topic in (IDEMPOTENT, PLAIN):
            until(partial(has_full_isr, cluster, topic))
        for load in loads:
            load.finish()
        assert all(cluster.await_equal_logs().values())
        for load in loads:
            check(load, read_back(cluster.bootstrap, load.topic))


def test_a_rolling_restart_gives_up_leaderships_first_and_fails_no_send(tmp_path: Path) -> None:
    """The producer is idempotent: librdkafka's others may send the next batch to the new leader
    while the one before waits at the old one.
    """
    with ClusterProcesses(tmp_path, **SETTINGS) as cluster:
        cluster.create(IDEMPOTENT)
        load = Load(IDEMPOTENT, cluster.bootstrap)
        for number in cluster.numbers:
            load.await_ack()
            assert cluster.stop(number) == 0
            assert "stops while it still leads" not in cluster.log_of(number)
            until(partial(cluster.moved_from, number, IDEMPOTENT))
            cluster.start(number)
            until(partial(has_full_isr, cluster, IDEMPOTENT))
        load.finish()
        check(load, read_back(cluster.bootstrap, IDEMPOTENT))


def test_two_nodes_go_on_when_all_were_killed_at_once_and_the_third_stays_away(
    tmp_path: Path,
) -> None:
    with ClusterProcesses(tmp_path, **SETTINGS) as cluster:
        cluster.create(IDEMPOTENT, partitions=1)
        load = Load(IDEMPOTENT, cluster.bootstrap)
        load.await_ack()
        away, in_sync = cluster.partition(IDEMPOTENT)
        assert in_sync == [1, 2, 3]
        for number in cluster.numbers:
            cluster.processes[number].kill()
        for number in cluster.numbers:
            cluster.processes[number].communicate()
        others = [number for number in cluster.numbers if number != away]
        cluster.start(*others)
        until(lambda: cluster.partition(IDEMPOTENT)[1] == others)
        load.await_ack()
        cluster.start(away)
        until(partial(has_full_isr, cluster, IDEMPOTENT))
        load.finish()
        check(load, read_back(cluster.bootstrap, IDEMPOTENT))
