"""Replication between three simulated nodes: acknowledgements, failover, the ISR, truncation."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.log import log_directory, recovery
from odradek.model.errors import ErrorCode
from odradek.protocol.api.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.protocol.api.metadata import MetadataRequest
from odradek.testing.process import DelayRanges
from odradek.testing.scheduler import MS
from unit.broker.replicated_nodes import SECOND, ReplicatedNodes


def test_acks_all_is_answered_when_every_in_sync_replica_has_the_records_on_disk() -> None:
    nodes = ReplicatedNodes().create_topic()
    for end in range(1, 30):
        produced = nodes.produce(1)
        while not produced.is_answered:
            nodes.scheduler.run(nodes.scheduler.now_ns + 10_000)
        assert produced.error == ErrorCode.NONE
        flushed = [nodes.replica(n).log.flushed_offset for n in (1, 2, 3)]
        assert min(flushed) >= end
    assert nodes.logs_are_equal()


def test_partitions_of_new_topics_are_opened_first_where_they_are_led() -> None:
    """Followers that ask a leader which has not opened the partition yet back off."""
    nodes = ReplicatedNodes()
    topics = [
        CreatableTopic(
            name=name, num_partitions=9, replication_factor=3, assignments=[], configs=[]
        )
        for name in ("a", "b")
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
    nodes.client.ask(nodes.controllers[0].config.node_id, request)
    nodes.until(lambda: all(len(nodes.node(n).replicas.by_name) == 18 for n in (1, 2, 3)))
    for number in (1, 2, 3):
        led = [each.leader_id == number for each in nodes.node(number).replicas]
        assert led == sorted(led, reverse=True)
        assert any(led)


def test_a_produce_waits_for_a_replica_that_hangs_until_it_is_out_of_the_isr() -> None:
    nodes = ReplicatedNodes(
        replica_lag_time_max_ms="2000", broker_session_timeout_ms="60000"
    ).create_topic()
    assert nodes.produced(1) == ErrorCode.NONE
    nodes.pause(3, 20_000)
    produced = nodes.produce(1)
    nodes.pass_time(1000)
    assert not produced.is_answered
    assert nodes.isr == [1, 2, 3]
    assert produced.error == ErrorCode.NONE
    assert nodes.isr == [1, 2]
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.logs_are_equal()


def test_a_killed_leader_is_replaced_by_an_in_sync_replica_and_rejoins_the_isr() -> None:
    nodes = ReplicatedNodes().create_topic()
    assert nodes.produced(1, 10) == ErrorCode.NONE
    nodes.machines[1].kill()
    leader = nodes.await_leader(1)
    assert nodes.isr == [2, 3]
    assert nodes.produced(leader, 5) == ErrorCode.NONE
    nodes.boot(1)
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.ends() == [15, 15, 15]
    assert nodes.logs_are_equal()


def test_a_killed_broker_opens_logs_that_others_lead_without_a_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = []
    open_log = recovery.open_log

    def spy(*arguments: Any, is_led_elsewhere: bool, **settings: Any) -> Any:
        log, found = open_log(*arguments, is_led_elsewhere=is_led_elsewhere, **settings)
        opened.append((is_led_elsewhere, found.scanned_bytes > 0 and log.dirty))
        return log, found

    nodes = ReplicatedNodes().create_topic()
    assert nodes.produced(1, 10) == ErrorCode.NONE
    nodes.machines[1].kill()
    nodes.await_leader(1)
    monkeypatch.setattr(log_directory, "open_log", spy)
    nodes.boot(1)
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert opened == [(True, True)]
    nodes.until(lambda: not nodes.replica(1).log.dirty)


def test_records_that_only_a_killed_leader_had_are_truncated_when_it_is_back() -> None:
    nodes = ReplicatedNodes().create_topic()
    assert nodes.produced(1, 10) == ErrorCode.NONE
    mend = nodes.cut(1, 2, 3)
    assert nodes.produced(1, 7, acks=1) == ErrorCode.NONE
    nodes.until(lambda: nodes.replica(1).log.flushed_offset == 17)
    nodes.machines[1].power_loss()
    mend()
    leader = nodes.await_leader(1)
    assert nodes.ends() == [10, 10]
    assert nodes.produced(leader, 2) == ErrorCode.NONE
    nodes.boot(1)
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.ends() == [12, 12, 12]
    assert nodes.logs_are_equal()


def test_a_power_failure_of_all_nodes_loses_nothing_acknowledged() -> None:
    nodes = ReplicatedNodes().create_topic()
    for _ in range(10):
        assert nodes.produced(1) == ErrorCode.NONE
    for machine in nodes.machines.values():
        machine.power_loss()
    nodes.boot()
    nodes.until(nodes.all_ready)
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.ends() == [10, 10, 10]
    assert nodes.logs_are_equal()


def test_a_request_that_waits_for_a_silent_controller_goes_to_the_next_one() -> None:
    nodes = ReplicatedNodes()
    first = nodes.controllers[0].config.node_id
    at = nodes.other_than_controller()
    nodes.machines[first].power_loss()
    took_ms = nodes.until(lambda: bool(nodes.controllers))  # Silence: the fetch timeout.
    at.broker.auto_create_topics(["asked-before"])
    nodes.until(lambda: at.broker.forwarding is not None)
    assert took_ms < 10 * SECOND
    nodes.until(nodes.has_topic("asked-before"), 5 * SECOND)


def test_a_produce_that_waits_is_answered_at_once_when_the_leadership_moves() -> None:
    nodes = ReplicatedNodes().create_topic()
    assert nodes.produced(1) == ErrorCode.NONE
    nodes.pause(3, 5000)
    produced = nodes.produce(1)
    nodes.pass_time(SECOND)
    assert not produced.is_answered
    nodes.reassign(2, 3)
    took_ms = nodes.until(lambda: produced.is_answered)
    assert took_ms < 100
    assert produced.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produced.addresses == {2: ("broker-2", 9092)}


# -- min.insync.replicas ---------------------------------------------------------------------------


def test_below_the_minimum_produces_are_refused_before_the_append() -> None:
    nodes = ReplicatedNodes(min_insync_replicas="3").create_topic()
    assert nodes.produced(1) == ErrorCode.NONE
    nodes.machines[3].kill()
    nodes.until(lambda: nodes.isr == [1, 2])
    assert nodes.produced(1) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert nodes.produced(1, acks=1) == ErrorCode.NONE
    nodes.pass_time(100)
    assert nodes.replica(1).high_watermark == 1  # It stands: KIP-966.
    nodes.boot(3)
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.produced(1) == ErrorCode.NONE
    assert nodes.ends() == [3, 3, 3]


def test_a_lower_minimum_commits_what_waits() -> None:
    nodes = ReplicatedNodes(min_insync_replicas="3").create_topic()
    nodes.machines[3].kill()
    nodes.until(lambda: nodes.isr == [1, 2])
    assert nodes.produced(1, 4, acks=1) == ErrorCode.NONE
    nodes.set_config("min.insync.replicas", "2")
    nodes.until(lambda: nodes.replica(1).high_watermark == 4)


# -- reading and deleting --------------------------------------------------------------------------


def test_a_new_leader_tells_an_end_only_when_its_high_watermark_is_in_its_epoch() -> None:
    nodes = ReplicatedNodes().create_topic()
    for _ in range(5):
        assert nodes.produced(1) == ErrorCode.NONE
    nodes.machines[1].kill()
    leader = nodes.await_leader(1)
    assert nodes.latest_offset(leader) == 5


def test_deleted_records_are_gone_on_every_live_replica_when_it_is_answered() -> None:
    nodes = ReplicatedNodes().create_topic()
    assert nodes.produced(1, 10) == ErrorCode.NONE
    call = nodes.delete_records(1, 6)
    nodes.until(lambda: call.done)
    assert [nodes.replica(n).log.log_start_offset for n in (1, 2, 3)] == [6, 6, 6]
    assert [nodes.replica(n).log.durable_log_start for n in (1, 2, 3)] == [6, 6, 6]
    assert call.response.topics[0].partitions[0].low_watermark == 6


def test_deleted_records_stay_deleted_after_a_power_failure_of_all_nodes() -> None:
    nodes = ReplicatedNodes().create_topic()
    assert nodes.produced(1, 10) == ErrorCode.NONE
    call = nodes.delete_records(1, 6)
    nodes.until(lambda: call.done)
    for machine in nodes.machines.values():
        machine.power_loss()
    nodes.boot()
    nodes.until(nodes.all_ready)
    nodes.until(lambda: all(nodes.has_replica(number) for number in (1, 2, 3)))
    assert [nodes.replica(n).log.log_start_offset for n in (1, 2, 3)] == [6, 6, 6]


def test_deleting_records_waits_for_a_replica_until_its_broker_is_fenced() -> None:
    nodes = ReplicatedNodes().create_topic()
    assert nodes.produced(1, 10) == ErrorCode.NONE
    nodes.pause(3, 20_000)
    call = nodes.delete_records(1, 6)
    nodes.pass_time(2000)
    assert not call.done
    nodes.until(lambda: call.done)
    assert call.response.topics[0].partitions[0].low_watermark == 6
    assert nodes.controllers[0].broker.image.brokers[3].fenced


def test_a_new_replica_begins_at_the_leaders_log_start() -> None:
    nodes = ReplicatedNodes().create_topic(1, 2, segment_bytes="1048576")
    assert nodes.produced(1, 10) == ErrorCode.NONE
    call = nodes.delete_records(1, 6)
    nodes.until(lambda: call.done)
    assert nodes.produced(1, 3) == ErrorCode.NONE
    nodes.reassign(1, 2, 3)
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.replica(3).log.log_start_offset == 6
    assert nodes.ends() == [13, 13, 13]
    nodes.reassign(2, 3)
    nodes.until(lambda: nodes.isr == [2, 3] and not nodes.has_replica(1))
    leader = nodes.await_leader()
    assert nodes.produced(leader, 2) == ErrorCode.NONE


def test_a_topic_of_one_replica_grows_to_three_and_outlives_the_first() -> None:
    nodes = ReplicatedNodes().create_topic(1)
    for _ in range(20):
        assert nodes.produced(1, 5) == ErrorCode.NONE
    nodes.reassign(1, 2, 3)
    assert nodes.produced(1, 5) == ErrorCode.NONE
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.produced(1, 5) == ErrorCode.NONE
    nodes.machines[1].power_loss()
    leader = nodes.await_leader(1)
    assert nodes.latest_offset(leader) == 110
    assert nodes.produced(leader, 5) == ErrorCode.NONE
    nodes.boot(1)
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.ends() == [115, 115, 115]
    assert nodes.logs_are_equal()


# -- damage ----------------------------------------------------------------------------------------


def test_a_damaged_log_of_a_follower_is_set_aside_and_fetched_anew() -> None:
    nodes = ReplicatedNodes().create_topic()
    for _ in range(5):
        assert nodes.produced(1) == ErrorCode.NONE
    nodes.machines[3].kill()
    nodes.until(lambda: nodes.isr == [1, 2])
    nodes.damage(3)
    nodes.boot(3)
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.ends() == [5, 5, 5]
    assert nodes.logs_are_equal()


def test_a_leader_that_finds_its_log_damaged_gives_up_the_leadership_and_fetches_it_anew() -> None:
    nodes = ReplicatedNodes().create_topic()
    assert nodes.produced(1, 5) == ErrorCode.NONE
    nodes.find_damage(1)
    took_ms = nodes.until(lambda: nodes.leader == 2)
    assert took_ms < SECOND
    assert nodes.produced(2, 2) == ErrorCode.NONE
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.ends() == [7, 7, 7]
    assert nodes.logs_are_equal()


def test_a_follower_that_finds_its_log_damaged_delays_acknowledgements_by_less_than_its_lag() -> (
    None
):
    nodes = ReplicatedNodes().create_topic()
    assert nodes.produced(1, 5) == ErrorCode.NONE
    nodes.find_damage(3)
    produced = nodes.produce(1)
    took_ms = nodes.until(lambda: produced.is_answered)
    assert produced.error == ErrorCode.NONE and took_ms < SECOND
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.ends() == [6, 6, 6]


def test_the_last_replica_in_sync_stays_it_with_a_damaged_log() -> None:
    nodes = ReplicatedNodes().create_topic(1, 2)
    assert nodes.produced(1) == ErrorCode.NONE
    nodes.machines[2].kill()
    nodes.until(lambda: nodes.isr == [1])
    nodes.find_damage(1)
    nodes.boot(2)
    nodes.pass_time(3000)
    assert (nodes.leader, nodes.isr) == (1, [1])
    assert nodes.produced(1) == ErrorCode.KAFKA_STORAGE_ERROR


def test_an_eligible_replica_with_a_damaged_log_is_not_elected_when_it_starts() -> None:
    nodes = ReplicatedNodes(min_insync_replicas="2")
    one, other = sorted({1, 2, 3} - {nodes.controllers[0].config.node_id})
    nodes.create_topic(one, other)
    assert nodes.produced(one, 5) == ErrorCode.NONE
    for number in (one, other):
        nodes.machines[number].kill()
    nodes.damage(one)
    nodes.boot(one)
    nodes.until(lambda: nodes.node(one).is_ready)
    assert one not in nodes.registration().eligible
    nodes.pass_time(3000)
    assert (nodes.leader, nodes.registration().elr) == (-1, (other,))
    nodes.boot(other)
    nodes.until(lambda: nodes.isr == [one, other])
    assert nodes.leader == other
    assert [nodes.replica(number).log.log_end_offset for number in (one, other)] == [5, 5]


@pytest.mark.parametrize("is_controller", [False, True])
def test_a_node_whose_disk_fails_gives_up_its_leaderships(is_controller: bool) -> None:
    nodes = ReplicatedNodes()
    controller = nodes.controllers[0].config.node_id
    failing = controller if is_controller else nodes.other_than_controller().config.node_id
    others = [number for number in (1, 2, 3) if number != failing]
    nodes.create_topic(failing, *others)
    assert nodes.produced(failing, 5) == ErrorCode.NONE
    nodes.machines[failing].faults.sync_error_rate = 1000
    produced = nodes.produce(failing)
    took_ms = nodes.until(lambda: bool(nodes.controllers) and nodes.leader == others[0])
    assert took_ms < 2 * SECOND
    assert produced.error == ErrorCode.KAFKA_STORAGE_ERROR
    assert nodes.produced(others[0], 2) == ErrorCode.NONE
    assert nodes.isr == others


# -- elections and throttles -----------------------------------------------------------------------


def test_a_replica_that_is_not_in_sync_leads_only_when_an_administrator_allows_it() -> None:
    nodes = ReplicatedNodes(leader_imbalance_check_interval_seconds="5").create_topic(1, 2)
    assert nodes.produced(1, 3) == ErrorCode.NONE
    nodes.machines[2].kill()
    nodes.until(lambda: nodes.isr == [1])
    assert nodes.produced(1, 4) == ErrorCode.NONE
    nodes.boot(2)
    nodes.until(lambda: nodes.isr == [1, 2])
    nodes.machines[2].kill()
    nodes.until(lambda: nodes.isr == [1])
    assert nodes.produced(1, 5) == ErrorCode.NONE
    nodes.machines[1].kill()
    nodes.boot(2)
    nodes.until(nodes.all_ready)
    nodes.until(lambda: nodes.leader == -1)
    nodes.set_config("unclean.leader.election.enable", "true")
    assert nodes.await_leader() == 2
    assert sum(node.metadata.controller.unclean_elections for node in nodes.running) == 1
    assert nodes.produced(2, 1) == ErrorCode.NONE
    nodes.boot(1)
    nodes.until(lambda: nodes.isr == [1, 2])
    assert nodes.replica(1).log.log_end_offset == nodes.replica(2).log.log_end_offset == 8
    assert nodes.log_bytes(1) == nodes.log_bytes(2)


def test_a_replica_that_catches_up_is_throttled_at_a_rate_that_may_change() -> None:
    nodes = ReplicatedNodes(replica_fetch_max_bytes="1000").create_topic(1, 2)
    for _ in range(40):
        assert nodes.produced(1, 20) == ErrorCode.NONE
    size = len(nodes.log_bytes(1))
    nodes.set_config("leader.replication.throttled.replicas", "*")
    nodes.set_broker_config("leader.replication.throttled.rate", "1000")
    nodes.until(lambda: nodes.node(1).config.leader_replication_throttled_rate == 1000)
    nodes.reassign(1, 2, 3)
    nodes.pass_time(5 * SECOND)
    assert 1000 < len(nodes.log_bytes(3)) < 10_000 < size
    assert nodes.isr == [1, 2]
    assert nodes.produced(1) == ErrorCode.NONE  # Who is in sync is not throttled.
    nodes.set_broker_config("leader.replication.throttled.rate", "1000000")
    nodes.until(lambda: nodes.isr == [1, 2, 3])
    assert nodes.logs_are_equal()


# -- what clients are told -------------------------------------------------------------------------


def test_a_client_of_a_follower_is_told_the_leader_and_its_address_for_clients() -> None:
    nodes = ReplicatedNodes().create_topic(2, 1, 3)
    produced = nodes.produce(1)
    assert produced.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produced.response.current_leader.leader_id == 2
    assert produced.addresses == {2: ("broker-2", 9092)}


def test_metadata_names_no_listener_of_nodes() -> None:
    nodes = ReplicatedNodes()
    answer = nodes.client.ask(1, MetadataRequest(topics=[]))
    assert {(each.host, each.port) for each in answer.brokers} == {
        ("broker", 9092),
        ("broker-2", 9092),
        ("broker-3", 9092),
    }


def test_a_replica_joins_the_isr_only_when_its_log_start_would_survive_a_power_failure() -> None:
    """DeleteRecords did not wait for it while it was down; as a leader it would show the records
    again.
    """
    nodes = ReplicatedNodes().create_topic()
    assert nodes.produced(1, 10) == ErrorCode.NONE
    nodes.until(nodes.logs_are_equal)
    nodes.machines[3].kill()
    nodes.until(lambda: nodes.isr == [1, 2])
    deleting = nodes.delete_records(1, 8)
    nodes.until(lambda: deleting.done)
    joined: list[int] = []

    def look() -> None:
        members = [node for node in nodes.running if node.is_ready]
        isrs = [node.metadata.committed.partition(nodes.topic_id(), 0) for node in members]
        if not joined and any(each is not None and 3 in each.isr for each in isrs):
            joined.append(nodes.replica(3).log.durable_log_start)

    for machine in nodes.machines.values():
        machine.observe = look
        if machine.process is not None:
            machine.process.observe = look
    slow = 300 * MS
    nodes.machines[3].set_pace(DelayRanges((slow, slow), (slow, slow)))
    nodes.boot(3)
    nodes.until(lambda: bool(joined))
    assert joined == [8]
