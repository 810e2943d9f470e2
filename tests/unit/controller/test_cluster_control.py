"""The active controller: states of brokers, and what becomes of their partitions.

Sequences are in `transcripts/controller`.
"""

from __future__ import annotations

from uuid import UUID

import pytest

from odradek.controller.broker_sessions import DISCONNECTED_MS
from odradek.controller.decision import RECORDS_PER_PART, ApiError
from odradek.controller.partition_pass import PARTITIONS_PER_PART
from odradek.model.errors import ErrorCode
from odradek.protocol.api.broker_registration import BrokerRegistrationRequest
from odradek.protocol.api.unregister_broker import UnregisterBrokerRequest
from odradek.protocol.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from unit.controller.controlled_cluster import ControlledCluster, directory

ELR = "eligible.leader.replicas.version"


def states(cluster: ControlledCluster) -> dict[int, bool]:
    """Return for each broker whether it is fenced."""
    return {broker.id: broker.fenced for broker in cluster.image.brokers.values()}


# Registration


def test_a_broker_registers_fenced_with_the_offset_of_its_record_as_epoch() -> None:
    cluster = ControlledCluster(1)
    end_offset = cluster.end_offset
    assert cluster.register(2, rack="r2") == 0
    broker = cluster.image.brokers[2]
    assert (broker.epoch, broker.fenced, broker.rack) == (end_offset, True, "r2")
    assert isinstance(cluster.records[broker.epoch], RegisterBrokerRecord)
    assert broker.endpoints[0].port == 9002
    assert broker.log_dirs == (directory(2),)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"broker_id": 2, "cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"broker_id": 1, "incarnation": 1}, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        ({"broker_id": -1}, ErrorCode.INVALID_REGISTRATION),
        ({"broker_id": 2, "log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"broker_id": 2, "log_dirs": [UUID(int=99)]}, ErrorCode.INVALID_REGISTRATION),
        ({"broker_id": 2, "log_dirs": [directory(2)] * 2}, ErrorCode.INVALID_REGISTRATION),
        ({"broker_id": 2, "log_dirs": [directory(1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"broker_id": 2, "features": {}}, ErrorCode.INVALID_REGISTRATION),
        ({"broker_id": 2, "features": {ELR: (0, 1)}}, ErrorCode.INVALID_REGISTRATION),
        (
            {"broker_id": 2, "features": {"metadata.version": (31, 33)}},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    ],
)
def test_a_registration_that_does_not_fit_changes_nothing(
    fields: dict[str, int | str | list[UUID] | dict[str, tuple[int, int]]], error: ErrorCode
) -> None:
    cluster = ControlledCluster(1)
    before = list(cluster.records)
    assert cluster.register(**fields) == error  # type: ignore[arg-type]
    assert cluster.records == before


def test_a_broker_that_does_not_support_a_finalized_feature_is_refused() -> None:
    cluster = ControlledCluster(1, 2)
    assert cluster.image.features[ELR] == 1
    without = {"metadata.version": (30, 30)}
    assert cluster.register(3, features=without) == ErrorCode.UNSUPPORTED_VERSION


def test_eligible_leader_replicas_begin_with_the_second_broker_if_all_support_them() -> None:
    cluster = ControlledCluster(1)
    assert not cluster.image.keeps_eligible_leader_replicas
    cluster.control.sessions.end(1)
    cluster.start(1, incarnation=1)
    assert not cluster.image.keeps_eligible_leader_replicas
    without_elr = {"metadata.version": (30, 30), "transaction.version": (0, 2)}
    assert cluster.register(2, features=without_elr) == 0
    assert not cluster.image.keeps_eligible_leader_replicas
    assert cluster.register(3) == 0
    assert not cluster.image.keeps_eligible_leader_replicas, "broker 2 does not support them"


def test_a_level_that_an_administrator_lowered_stays_when_a_known_broker_comes_back() -> None:
    cluster = ControlledCluster(1, 2)
    cluster.submit([FeatureLevelRecord(name=ELR, feature_level=0)])
    cluster.control.sessions.end(2)
    assert cluster.register(2, incarnation=1) == 0
    assert not cluster.image.keeps_eligible_leader_replicas


def test_the_same_incarnation_changes_its_registration_and_keeps_its_epoch() -> None:
    cluster = ControlledCluster(1, 2)
    before = cluster.image.brokers[2]
    assert cluster.register(2, rack="elsewhere") == 0
    after = cluster.image.brokers[2]
    assert (after.epoch, after.fenced, after.rack) == (before.epoch, False, "elsewhere")


def test_the_incarnation_before_leaves_all_isrs_before_the_new_one_is_registered() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [1, 2], 1: [2, 1]})
    cluster.control.sessions.end(2)
    begin = len(cluster.records)
    assert cluster.register(2, incarnation=1) == 0
    kinds = [type(record) for record in cluster.records[begin:]]
    assert kinds == [
        BrokerRegistrationChangeRecord,
        PartitionChangeRecord,
        PartitionChangeRecord,
        RegisterBrokerRecord,
    ]
    assert [cluster.partition("t", number).isr for number in (0, 1)] == [(1,), (1,)]


def test_heartbeats_of_an_incarnation_that_departs_are_refused() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [1, 2]})
    cluster.control.sessions.end(2)
    parts = cluster.control.register(a_request(cluster, 2), lambda: cluster.now_ms)
    cluster.take(next(parts))
    assert cluster.image.brokers[2].fenced
    assert cluster.beat(2).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert cluster.image.brokers[2].fenced


@pytest.mark.parametrize("parts_before", range(1, 4))
def test_of_two_nodes_that_take_one_id_at_once_one_is_registered(parts_before: int) -> None:
    cluster = ControlledCluster(1)
    requests = [
        cluster.registration(2, incarnation=each, log_dirs=[directory(2, disk=each)])
        for each in (0, 1)
    ]
    decisions = [cluster.control.register(each, lambda: cluster.now_ms) for each in requests]
    epochs: dict[UUID, int] = {}
    errors = []
    for number in [0] * parts_before + [1, 0] * 5:
        try:
            cluster.take(next(decisions[number]))
        except StopIteration as ended:
            if ended.value is not None:
                epochs[requests[number].incarnation_id] = ended.value.broker_epoch
        except ApiError as refused:
            errors.append(refused.error)
    registered = cluster.image.brokers[2]
    assert epochs == {registered.incarnation_id: registered.epoch}
    assert errors == [ErrorCode.DUPLICATE_BROKER_REGISTRATION]


def test_of_two_incarnations_that_register_at_once_the_later_one_wins() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [1, 2]})
    cluster.control.sessions.end(2)
    parts = cluster.control.register(a_request(cluster, 2, incarnation=1), lambda: cluster.now_ms)
    cluster.take(next(parts))
    assert cluster.register(2, incarnation=2) == 0
    with pytest.raises(ApiError, match="Another incarnation"):
        cluster.run(parts)
    assert cluster.image.brokers[2].incarnation_id == UUID(int=1202)


def a_request(
    cluster: ControlledCluster, broker_id: int, incarnation: int = 1
) -> BrokerRegistrationRequest:
    """Return the registration of a new incarnation."""
    broker = cluster.image.brokers[broker_id].record()
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=cluster.image.cluster_id,
        incarnation_id=UUID(int=1000 + broker_id + 100 * incarnation),
        listeners=[],
        features=broker.features,  # type: ignore[arg-type]
        rack=None,
        log_dirs=broker.log_dirs,
    )


# Heartbeats


def test_a_broker_is_unfenced_when_it_has_replayed_its_registration() -> None:
    cluster = ControlledCluster(1)
    cluster.register(2)
    epoch = cluster.processes[2].epoch
    response = cluster.beat(2, at=epoch - 1)
    assert (response.is_caught_up, response.is_fenced) == (False, True)
    assert cluster.beat(2, at=epoch, fence=True).is_fenced
    response = cluster.beat(2, at=epoch)
    assert (response.is_caught_up, response.is_fenced) == (True, False)
    assert states(cluster) == {1: False, 2: False}


@pytest.mark.parametrize("broker_id", [1, 9])
def test_a_heartbeat_of_another_epoch_or_of_an_unknown_broker_is_stale(broker_id: int) -> None:
    cluster = ControlledCluster(1)
    before = cluster.end_offset
    response = cluster.beat(broker_id, epoch=cluster.processes[1].epoch + 7)
    assert (response.error_code, response.is_fenced) == (ErrorCode.STALE_BROKER_EPOCH, True)
    assert cluster.end_offset == before


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    cluster = ControlledCluster(1, 2)
    before = cluster.end_offset
    for _ in range(3):
        assert not cluster.beat(1).is_fenced
    assert cluster.end_offset == before


def test_an_unfenced_broker_that_wants_to_be_fenced_and_to_stop_may_stop_at_once() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [2, 1]})
    response = cluster.beat(2, fence=True, stop=True)
    assert (response.is_fenced, response.should_shut_down) == (True, True)
    assert cluster.run_due_steps().partition().leader == 1


def test_a_fenced_broker_that_wants_to_stop_may_stop_at_once() -> None:
    cluster = ControlledCluster(1)
    cluster.register(2)
    assert cluster.beat(2, stop=True).should_shut_down
    assert states(cluster) == {1: False, 2: True}


def test_a_broker_that_was_told_to_stop_may_register_again_at_once() -> None:
    cluster = ControlledCluster(1, 2)
    assert cluster.beat(2, stop=True).should_shut_down
    assert cluster.register(2, incarnation=1) == 0


def test_a_controlled_shutdown_ends_when_the_active_brokers_have_replayed_it() -> None:
    cluster = ControlledCluster(1, 2, 3).create("t", {0: [1, 2, 3]})
    behind = cluster.end_offset - 1
    assert not cluster.beat(1, stop=True).should_shut_down
    cluster.beat(2, at=behind)
    cluster.beat(3, at=behind)
    cluster.run_due_steps()
    assert not cluster.beat(1, stop=True).should_shut_down
    cluster.beat(2)
    assert not cluster.beat(1, stop=True).should_shut_down
    cluster.beat(3)
    assert cluster.beat(1, stop=True).should_shut_down


def test_a_controlled_shutdown_does_not_wait_for_later_records() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [1, 2]})
    cluster.beat(1, stop=True)
    cluster.run_due_steps()
    moved = cluster.end_offset - 1
    cluster.create("later", {0: [2]})
    cluster.beat(2, at=moved - 1)
    assert not cluster.beat(1, stop=True).should_shut_down
    cluster.beat(2, at=moved)
    assert cluster.beat(1, stop=True).should_shut_down


def test_a_controlled_shutdown_waits_for_all_parts_of_the_pass_that_moves_its_leaderships() -> None:
    numbers = range(RECORDS_PER_PART + 1)
    cluster = ControlledCluster(1, 2).create("t", {number: [1, 2] for number in numbers})
    cluster.beat(1, stop=True)
    cluster.take(cluster.control.step(cluster.now_ms))
    assert cluster.partition("t", 0).leader == 2
    assert cluster.partition("t", numbers[-1]).leader == 1
    cluster.beat(2)
    assert not cluster.beat(1, stop=True).should_shut_down
    cluster.run_due_steps()
    cluster.beat(2)
    assert cluster.beat(1, stop=True).should_shut_down
    assert cluster.partition("t", numbers[-1]).leader == 2


def test_a_failed_directory_takes_its_replicas_out_of_their_isrs() -> None:
    cluster = ControlledCluster(1)
    both = [directory(2), directory(2, disk=1)]
    cluster.register(2, log_dirs=both)
    cluster.beat(2)
    cluster.create("t", {0: [2, 1], 1: [2, 1]})
    topic = cluster.image.topics["t"].id
    for number in (0, 1):
        directories = [both[number], directory(1)]
        change = PartitionChangeRecord(partition_id=number, topic_id=topic, directories=directories)
        cluster.submit([change])
    cluster.beat(2, offline=[both[1]])
    cluster.run_due_steps()
    assert cluster.image.brokers[2].log_dirs == (both[0],)
    assert not cluster.image.brokers[2].fenced
    assert [cluster.partition("t", number).isr for number in (0, 1)] == [(2, 1), (1,)]


def test_a_broker_without_any_directory_left_is_fenced_and_stays_fenced() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [2, 1]})
    assert cluster.beat(2, offline=[directory(2)]).is_fenced
    assert cluster.run_due_steps().partition().leader == 1
    assert cluster.beat(2, offline=[directory(2)]).is_fenced


def test_cordoned_directories_are_written_once() -> None:
    cluster = ControlledCluster(1, 2)
    cluster.beat(2, cordoned=[directory(2)])
    assert cluster.image.brokers[2].cordoned_log_dirs == (directory(2),)
    before = cluster.end_offset
    cluster.beat(2, cordoned=[directory(2)])
    cluster.beat(2, cordoned=None)
    assert cluster.end_offset == before
    cluster.beat(2, cordoned=[])
    assert cluster.image.brokers[2].usable


# Passes


def test_fencing_10_000_partitions_takes_bounded_parts() -> None:
    cluster = ControlledCluster(1, 2, 3)
    for name in "abcdefghij":
        cluster.create(name, {number: [1, 2, 3] for number in range(1000)})
    begin = cluster.end_offset
    cluster.beat(1, fence=True)
    cluster.run_due_steps()
    assert cluster.end_offset == begin + 1 + 10_000
    assert cluster.largest_part == RECORDS_PER_PART
    for topic in cluster.image.topics.values():
        assert {each.leader for each in topic.partitions.values()} == {2}


def test_a_pass_that_finds_nothing_comes_in_parts_too() -> None:
    cluster = ControlledCluster(1, 2)
    for name in "ab":
        cluster.create(name, {number: [1] for number in range(PARTITIONS_PER_PART)})
    cluster.beat(2, fence=True)
    steps = 0
    while cluster.control.is_busy:
        cluster.take(cluster.control.step(cluster.now_ms))
        steps += 1
    assert steps == 3


def test_a_pass_survives_what_happens_between_its_parts() -> None:
    cluster = ControlledCluster(1, 2, 3)
    for name in ("first", "gone", "last"):
        replicas = [1, 2, 3]
        cluster.create(name, dict.fromkeys(range(RECORDS_PER_PART), replicas))
    cluster.beat(1, fence=True)
    cluster.take(cluster.control.step(cluster.now_ms))
    cluster.take(cluster.control.step(cluster.now_ms)[:0])
    cluster.create("new", {0: [1, 2, 3]})
    cluster.beat(2, fence=True)
    cluster.run_due_steps()
    for topic in cluster.image.topics.values():
        for partition in topic.partitions.values():
            assert (partition.leader, partition.isr) == (3, (3,))


def test_a_repair_after_a_repair_changes_nothing() -> None:
    cluster = ControlledCluster(1, 2, 3, min_insync_replicas="2")
    cluster.create("t", {0: [1, 2, 3], 1: [3, 1, 2]})
    cluster.fence(1, 2, 3)
    before = cluster.end_offset
    cluster.control.look_again()
    cluster.run_due_steps()
    cluster.take_over()
    cluster.run_due_steps()
    assert cluster.end_offset == before


def test_a_new_controller_goes_on_where_the_one_before_stopped() -> None:
    numbers = range(3 * RECORDS_PER_PART)
    cluster = ControlledCluster(1, 2).create("t", {number: [1, 2] for number in numbers})
    cluster.beat(1, fence=True)
    cluster.take(cluster.control.step(cluster.now_ms))
    cluster.take_over()
    cluster.run_due_steps()
    assert {cluster.partition("t", number).leader for number in numbers} == {2}


def test_a_partition_without_leader_is_led_uncleanly_once_its_topic_allows_it() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [1, 2]})
    cluster.in_sync(1)
    cluster.fence(1)
    assert cluster.partition().leader == -1
    name = "unclean.leader.election.enable"
    cluster.submit([ConfigRecord(resource_type=2, resource_name="t", name=name, value="true")])
    cluster.run_due_steps()
    assert cluster.partition().leader == -1
    cluster.control.look_again()
    after = cluster.run_due_steps().partition()
    assert (after.leader, after.isr, after.elr, after.leader_recovery_state) == (2, (2,), (), 1)


@pytest.mark.parametrize(("enabled", "leader"), [("true", 1), ("false", 2)])
def test_preferred_replicas_lead_again_at_intervals_unless_that_is_off(
    enabled: str, leader: int
) -> None:
    cluster = ControlledCluster(
        1,
        2,
        auto_leader_rebalance_enable=enabled,
        leader_imbalance_check_interval_seconds="60",
        broker_session_timeout_ms="100000",
    ).create("t", {0: [1, 2]})
    cluster.fence(1)
    cluster.beat(1)
    cluster.run_due_steps()
    cluster.in_sync(2, 1)
    cluster.wait(59_000)
    assert cluster.partition().leader == 2
    cluster.wait(1_000)
    assert cluster.partition().leader == leader


def test_a_registration_that_is_sent_twice_gets_one_epoch() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [1, 2]})
    cluster.control.disconnected(2, cluster.now_ms)
    request = cluster.registration(2, incarnation=1)
    first = cluster.control.register(request, lambda: cluster.now_ms)
    second = cluster.control.register(request, lambda: cluster.now_ms)
    epochs = set()
    running = [first, second]
    while running:
        for parts in list(running):
            try:
                cluster.take(next(parts))
            except StopIteration as ended:
                epochs.add(ended.value.broker_epoch)
                running.remove(parts)
    assert epochs == {cluster.image.brokers[2].epoch}


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("replicas", [[1], [1, 2]])
def test_a_new_incarnation_of_a_leader_gets_no_epoch_in_which_the_one_before_led(
    replicas: list[int], clean: bool
) -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: replicas})
    before = cluster.partition()
    assert before.leader == 1
    cluster.control.disconnected(1, cluster.now_ms)
    epoch = cluster.processes[1].epoch if clean else -1
    assert cluster.register(1, incarnation=1, previous_epoch=epoch) == 0
    cluster.beat(1)
    after = cluster.run_due_steps().partition()
    assert after.leader == replicas[-1]
    assert after.leader_epoch > before.leader_epoch


def test_a_broker_with_the_directories_of_one_that_is_not_connected_takes_its_place() -> None:
    cluster = ControlledCluster(1, 2)
    assert cluster.register(2, incarnation=1) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.control.disconnected(2, cluster.now_ms)
    another = [directory(2, disk=1)]
    assert (
        cluster.register(2, incarnation=1, log_dirs=another)
        == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    )
    assert cluster.register(2, incarnation=1) == 0


def test_a_new_controller_lets_a_restarted_broker_in_until_it_hears_from_the_one_before() -> None:
    cluster = ControlledCluster(1, 2, 3)
    cluster.take_over()
    cluster.beat(2)
    assert cluster.register(2, incarnation=1) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert cluster.register(3, incarnation=1) == 0


def test_a_new_controller_fences_who_cannot_be_reached_and_was_not_heard_from() -> None:
    cluster = ControlledCluster(1, 2, 3)
    cluster.take_over()
    cluster.beat(2)
    cluster.control.unreachable(2, cluster.now_ms)
    cluster.control.unreachable(3, cluster.now_ms)
    cluster.wait(DISCONNECTED_MS)
    assert states(cluster) == {1: False, 2: False, 3: True}


def test_a_stopping_broker_does_not_wait_for_heartbeats_of_who_is_known_to_know() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [1, 2]})
    cluster.beat(1, stop=True)
    cluster.run_due_steps()
    cluster.control.sessions.replayed(2, cluster.end_offset - 1)
    assert cluster.beat(1, stop=True).should_shut_down


def test_a_broker_whose_partitions_nobody_else_can_lead_may_stop_at_once() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [1]})
    assert cluster.beat(1, stop=True).should_shut_down
    assert cluster.run_due_steps().partition().leader == -1


# Unregistering


def test_an_unregistered_broker_leads_nothing_and_is_in_no_isr_and_no_elr() -> None:
    cluster = ControlledCluster(1, 2, min_insync_replicas="2").create("t", {0: [1, 2], 1: [2, 1]})
    cluster.fence(1)
    assert cluster.partition().elr == (1,)
    assert cluster.unregister(1) == 0
    assert cluster.image.brokers.keys() == {2}
    after = cluster.run_due_steps().partition()
    assert (after.leader, after.isr, after.elr, after.replicas) == (2, (2,), (), (1, 2))


def test_the_next_broker_with_the_id_of_an_unregistered_one_is_not_cordoned() -> None:
    cluster = ControlledCluster(1, 2, 3)
    for broker_id in (2, 3):
        for name, value in (("cordoned.log.dirs", "*"), ("num.io.threads", "4")):
            cluster.submit(
                [
                    ConfigRecord(
                        resource_type=4, resource_name=str(broker_id), name=name, value=value
                    )
                ]
            )
    assert cluster.unregister(2) == 0
    assert cluster.image.broker_config(2) == {"num.io.threads": "4"}
    assert cluster.image.broker_config(3) == {"cordoned.log.dirs": "*", "num.io.threads": "4"}


def test_unregistering_an_unknown_broker_says_so() -> None:
    assert ControlledCluster(1).unregister(7) == ErrorCode.BROKER_ID_NOT_REGISTERED


def needed() -> ControlledCluster:
    """Topic `t` has the least number of in-sync replicas, `u` has one replica."""
    cluster = ControlledCluster(1, 2, 3, min_insync_replicas="2")
    return cluster.create("t", {0: [1, 2]}).create("u", {0: [3]})


@pytest.mark.parametrize("broker_id", [1, 2, 3])
def test_a_broker_that_a_partition_needs_stays_as_it_is(broker_id: int) -> None:
    cluster = needed()
    offset = cluster.end_offset
    assert cluster.unregister(broker_id) == ErrorCode.POLICY_VIOLATION
    assert cluster.run_due_steps().end_offset == offset
    assert not cluster.beat(broker_id).is_fenced


def test_a_broker_that_alone_has_all_records_of_a_partition_is_not_removed() -> None:
    cluster = ControlledCluster(1, 2).create("t", {0: [1, 2]})
    cluster.in_sync(1)
    cluster.fence(1)
    assert cluster.partition().leader == -1
    assert cluster.unregister(1) == ErrorCode.POLICY_VIOLATION


def test_a_refused_removal_names_the_partition_and_the_way_out() -> None:
    cluster = needed()
    with pytest.raises(ApiError, match=r"partition t-0 .*min.insync.replicas=2.*drain 1"):
        cluster.run(cluster.control.unregister(UnregisterBrokerRequest(broker_id=1)))
    with pytest.raises(ApiError, match="partition u-0 has no other replica with all its records"):
        cluster.run(cluster.control.unregister(UnregisterBrokerRequest(broker_id=3)))


def test_the_only_broker_is_not_removed() -> None:
    assert ControlledCluster(1).unregister(1) == ErrorCode.POLICY_VIOLATION
