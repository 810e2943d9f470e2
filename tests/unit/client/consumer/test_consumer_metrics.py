"""Every metric of a consumer, in simulated time."""

from __future__ import annotations

from odradek.client.metrics.consumer_table import GROUP, consumer_metrics
from odradek.client.metrics.metric import Metrics
from odradek.testing.scripted import ScriptedCluster
from odradek.testing.scripted_logs import ScriptedLogs
from transcripts.consumer_machine import ConsumerMachine
from unit.client.consumer.application import Application, numbered

ORDERS, BILLS = ("orders", 0), ("orders", 1)


def reading() -> tuple[ScriptedCluster, ScriptedLogs, Application]:
    cluster = ScriptedCluster(brokers=1)
    cluster.create("orders", leaders=(1, 1))
    return cluster, ScriptedLogs(cluster), Application(cluster)


def metrics(application: Application) -> Metrics:
    return application.side.do(lambda: consumer_metrics(application.consumer))


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

    def test_lag_and_lead_are_recorded_when_the_application_comes_back(self) -> None:
        _, logs, application = reading()
        logs[ORDERS].append(numbered(0, 10))
        application.assign([ORDERS], starts={ORDERS: 4})
        application.read(6)
        found = metrics(application)
        assert found["orders-0.records-lag"] == 0
        assert found["orders-0.records-lead"] == 10
        assert "orders-1.records-lag" not in found
        assert found["orders-0.records-lag-avg"] == 0, "the application has not come back yet"
        logs[ORDERS].append(numbered(10, 2))
        application.drain()
        application.cluster.run(1_000)
        application.read(2)
        application.drain()
        found = metrics(application)
        assert found["orders-0.records-lead"] == found["records-lead-min"] + 2 == 12
        assert found["orders-0.records-lead-avg"] == 11, "after 10 and after 12 records"
        assert found["orders-0.records-lag-max"] == found["records-lag-max"] == 0

    def test_topics_are_counted_apart_and_together(self) -> None:
        cluster, logs, application = reading()
        cluster.create("bills", leaders=(1,))
        logs[ORDERS].append(numbered(0, 7))
        logs[("bills", 0)].append(numbered(0, 2))
        application.assign([ORDERS, ("bills", 0)])
        application.read(9)
        found = metrics(application)
        assert found["orders.records-consumed-total"] == 7
        assert found["bills.records-consumed-total"] == 2
        both = found["orders.bytes-consumed-total"] + found["bills.bytes-consumed-total"]
        assert both == found["bytes-consumed-total"]
        assert found["orders.fetch-size-max"] == found["orders.bytes-consumed-total"]
        assert found["orders.records-per-request-avg"] == 7
        assert found["records-consumed-rate"] > 0

    def test_the_latency_of_fetches_is_given_per_node(self) -> None:
        cluster, _, application = reading()
        application.assign([ORDERS])
        cluster.run(20_000)
        found = metrics(application)
        assert found["node-1.request-latency-max"] == found["fetch-latency-max"] >= 500

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
        assert found["heartbeat-rate"] > 0
        assert found["join-total"] == found["sync-total"] == 1
        assert found["rebalance-latency-total"] == found["rebalance-latency-max"]
        assert found["last-heartbeat-seconds-ago"] == 2.225, "since it was sent"
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


class Counted:
    """What the table of a group is read of, for a member without an engine."""

    def __init__(self, machine: ConsumerMachine) -> None:
        self.metrics = machine.coordinator.member.metrics
        self.last_poll_ms = machine.coordinator.membership.heartbeat.last_poll_ms


def machine_metrics(machine: ConsumerMachine, *lines: str) -> Metrics:
    for line in lines:
        machine.run(line)
    metrics = Metrics("member", machine.now_ms)
    metrics.read(GROUP, Counted(machine))
    return metrics
