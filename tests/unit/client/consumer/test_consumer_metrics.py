"""Every metric of a consumer, in simulated time."""

from __future__ import annotations

from odradek.client.consumer.metrics import GroupMetrics
from odradek.testing.scripted import ScriptedCluster
from odradek.testing.scripted_logs import ScriptedLogs
from transcripts.consumer_machine import ConsumerMachine
from unit.client.consumer.application import Application, numbered

ORDERS, BILLS = ("orders", 0), ("orders", 1)


def reading() -> tuple[ScriptedCluster, ScriptedLogs, Application]:
    cluster = ScriptedCluster(brokers=1)
    cluster.create("orders", leaders=(1, 1))
    return cluster, ScriptedLogs(cluster), Application(cluster)


def metrics(application: Application) -> dict[str, float]:
    return application.side.do(application.consumer.snapshot)


class TestFetching:
    def test_fetch_metrics_count_records_and_bytes_per_fetch(self) -> None:
        _, logs, application = reading()
        logs[ORDERS].append(numbered(0, 7))
        logs[ORDERS].append(numbered(7, 3))
        application.assign([ORDERS])
        before = metrics(application)
        assert before["records-consumed-total"] == before["fetch-total"] == 0
        application.read(10)
        found = metrics(application)
        sent = sum(len(batch.data) for batch in logs[ORDERS].batches)
        assert found["records-consumed-total"] == 10
        assert found["bytes-consumed-total"] == sent
        assert found["fetch-total"] == 1
        assert found["records-per-request-max"] == 10
        assert found["fetch-size-max"] == sent
        assert found["fetch-latency-max"] >= found["fetch-latency-avg"] >= 0

    def test_records_before_the_fetch_offset_are_not_counted(self) -> None:
        _, logs, application = reading()
        logs[ORDERS].append(numbered(0, 10))
        application.assign([ORDERS], starts={ORDERS: 6})
        application.read(4)
        assert metrics(application)["records-consumed-total"] == 4

    def test_fetch_latency_includes_the_brokers_wait(self) -> None:
        cluster, _, application = reading()
        application.assign([ORDERS])
        cluster.run(20_000)  # Nothing to read: each fetch waits for `fetch.max.wait.ms`.
        assert 500 <= metrics(application)["fetch-latency-avg"] <= 600

    def test_lag_is_given_per_partition_and_as_maximum(self) -> None:
        _, logs, application = reading()
        logs[ORDERS].append(numbered(0, 10))
        logs[BILLS].append(numbered(0, 3))
        assert metrics(application)["records-lag-max"] == 0
        application.assign([ORDERS, BILLS])
        application.read(1)
        first = metrics(application)
        [(partition, _)] = application.places
        assert first["records-lag-max"] == (9 if partition == 0 else 10)
        application.read(12)
        application.drain()
        found = metrics(application)
        assert found["orders-0.records-lag"] == found["orders-1.records-lag"] == 0
        assert found["assigned-partitions"] == 2
        assert found["buffered-bytes"] == 0
        assert first["buffered-bytes"] > 0

    def test_a_consumer_without_a_group_has_no_group_metrics(self) -> None:
        _, _, application = reading()
        assert "commit-total" not in metrics(application)


class TestGroup:
    def test_group_metrics_count_commits_heartbeats_and_rebalances(self) -> None:
        machine = ConsumerMachine()
        found = machine_metrics(machine, "consumer topics=t assignors=range")
        assert found["rebalance-total"] == found["commit-total"] == found["heartbeat-total"] == 0
        assert found["last-rebalance-seconds-ago"] == found["last-heartbeat-seconds-ago"] == -1
        found = machine_metrics(
            machine,
            "poll",
            "answer FindCoordinator node=1",
            "poll",
            "wait 40",
            "answer JoinGroup error=COORDINATOR_LOAD_IN_PROGRESS",
            "wait 150",
            "answer JoinGroup generation=1 member=m1 leader=m2",
            "answer SyncGroup assigned=t-0",
            "poll",
            "returned",
        )
        assert (found["rebalance-total"], found["failed-rebalance-total"]) == (1, 1)
        assert found["rebalance-latency-max"] == 190, "through both attempts"
        found = machine_metrics(
            machine,
            "commit c1 t-0=1 within=5000",
            "answer OffsetCommit error=COORDINATOR_LOAD_IN_PROGRESS",
            "wait 200",
            "answer OffsetCommit",
            "commit c2 t-0=2",
            "answer OffsetCommit error=TOPIC_AUTHORIZATION_FAILED",
        )
        assert (found["commit-total"], found["failed-commit-total"]) == (1, 1)
        assert found["commit-latency-max"] == 200
        found = machine_metrics(
            machine, "wait 3000", "wait 25", "answer Heartbeat", "wait 2000", "poll"
        )
        assert found["heartbeat-total"] == 1
        assert found["heartbeat-response-time-max"] == 225
        assert found["last-heartbeat-seconds-ago"] == 2.0
        assert found["last-rebalance-seconds-ago"] == 5.225
        assert found["last-poll-seconds-ago"] == 0

    def test_member_id_required_is_not_counted_as_a_failed_rebalance(self) -> None:
        machine = ConsumerMachine()
        found = machine_metrics(
            machine,
            "consumer topics=t assignors=range",
            "poll",
            "answer FindCoordinator node=1",
            "poll",
            "answer JoinGroup error=MEMBER_ID_REQUIRED member=m1",
            "answer JoinGroup generation=1 member=m1 leader=m2",
            "answer SyncGroup assigned=t-0",
        )
        assert (found["rebalance-total"], found["failed-rebalance-total"]) == (1, 0)


def machine_metrics(machine: ConsumerMachine, *lines: str) -> dict[str, float]:
    for line in lines:
        machine.run(line)
    kept: GroupMetrics = machine.coordinator.member.metrics
    last_poll_ms = machine.coordinator.membership.heartbeat.last_poll_ms
    return kept.snapshot(last_poll_ms, machine.now_ms)
