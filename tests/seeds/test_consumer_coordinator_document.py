"""The examples of 004_e2053d3383df7002.txt: the consumer coordinator of Kafka 2.0.

Where Kafka has changed since, the test says so.
"""

from __future__ import annotations

import pytest

from odradek.client.consumer.group.member import MemberState
from odradek.config.broker import BrokerConfig
from odradek.config.consumer import ConsumerConfig
from odradek.coordinator.group.group_shard import GroupShard
from odradek.coordinator.runtime import CoordinatorRuntime
from odradek.model.java_hash import partition_for, string_hash
from seeds.led_partitions import LedPartitions, StandingClock
from transcripts.consumer_machine import ConsumerMachine

SECOND_MS = 1_000


def consumer(settings: str = "") -> ConsumerMachine:
    """The coordinator's client side, alone: what it is told goes in, what it wants comes out."""
    machine = ConsumerMachine()
    machine.run(f"consumer topics=t assignors=range {settings}")
    return machine


def joining(machine: ConsumerMachine) -> list[str]:
    """Until JoinGroup is sent."""
    machine.run("poll")
    machine.run("answer FindCoordinator node=1")
    return machine.run("poll")


def joined(machine: ConsumerMachine, leader: str = "m2") -> list[str]:
    """Until SyncGroup is answered and the listener has returned."""
    joining(machine)
    machine.run(f"answer JoinGroup generation=1 member=m1 leader={leader}")
    lines = machine.run("answer SyncGroup assigned=t-0")
    machine.run("poll")
    machine.run("returned")
    return lines


# -- joining ---------------------------------------------------------------------------------------


def test_join_group_is_given_the_rebalance_timeout_and_5_s_more() -> None:
    """`Math.max(rebalanceTimeoutMs, rebalanceTimeoutMs + 5000)`, with the default of 5 minutes."""
    machine = consumer()
    joining(machine)
    (call,) = machine.calls
    assert call.timeout_ms == 5 * 60 * SECOND_MS + 5 * SECOND_MS


def test_join_group_is_given_no_less_than_the_request_timeout() -> None:
    """Newer Kafka takes the larger one: a rebalance timeout of 10 s and 5 s more are below 30 s."""
    machine = consumer("max-poll=10000")
    joining(machine)
    (call,) = machine.calls
    assert call.timeout_ms == ConsumerConfig.request_timeout_ms.default == 30 * SECOND_MS


def test_the_steps_of_joining_as_a_follower() -> None:
    """Step 8 of the document says "if step 5 found that it is *not* a follower": it means that it
    is one. A follower sends SyncGroup without assignments and is answered with its own."""
    machine = consumer()
    assert machine.run("poll")[0] == "to any broker: FindCoordinator of g"
    machine.run("answer FindCoordinator node=1")
    assert machine.run("poll")[0] == "to broker 1: JoinGroup as a new member: range wants t"
    lines = machine.run("answer JoinGroup generation=1 member=m1 leader=m2")
    assert lines[0] == "to broker 1: SyncGroup generation 1 as m1"
    machine.run("answer SyncGroup assigned=t-0")
    assert machine.run("poll")[0] == "the listener is told: assigned t-0"


def test_the_steps_of_joining_as_the_leader_who_assigns_the_partitions() -> None:
    machine = consumer()
    joining(machine)
    machine.run("answer JoinGroup generation=1 member=m1 leader=m1 m1=t m2=t")
    lines = machine.run("cluster t=3")
    assert lines[0] == "to broker 1: SyncGroup generation 1 as m1: m1 t-0 t-1; m2 t-2"


def test_the_states_of_a_member() -> None:
    """UNJOINED, REBALANCING, STABLE. Kafka has split REBALANCING since: before the answer to
    JoinGroup, and after it."""
    machine = consumer()
    states = [machine.coordinator.member.state]
    joining(machine)
    states.append(machine.coordinator.member.state)
    machine.run("answer JoinGroup generation=1 member=m1 leader=m2")
    states.append(machine.coordinator.member.state)
    machine.run("answer SyncGroup assigned=t-0")
    states.append(machine.coordinator.member.state)
    assert states == [
        MemberState.UNJOINED,
        MemberState.PREPARING_REBALANCE,
        MemberState.COMPLETING_REBALANCE,
        MemberState.STABLE,
    ]


def test_a_join_that_fails_leaves_the_member_unjoined() -> None:
    machine = consumer()
    joining(machine)
    machine.run("answer JoinGroup error=GROUP_AUTHORIZATION_FAILED")
    assert machine.coordinator.member.state is not MemberState.STABLE
    assert machine.coordinator.member.generation.is_reset


# -- heartbeats ------------------------------------------------------------------------------------


def test_no_heartbeat_is_sent_before_the_member_has_joined() -> None:
    machine = consumer()
    joining(machine)
    assert not any("Heartbeat" in line for line in machine.run(f"wait {40 * SECOND_MS}"))


def test_heartbeats_begin_when_the_member_has_joined() -> None:
    machine = consumer()
    joined(machine)
    lines = machine.run("wait 3000")
    assert lines[0] == "3000 ms: to broker 1: Heartbeat generation 1 as m1"


def test_after_a_session_without_an_answer_the_coordinator_is_unknown() -> None:
    machine = consumer()
    joined(machine)
    machine.run(f"wait {44 * SECOND_MS}")
    assert machine.coordinator.member.coordinator is not None
    machine.run(f"wait {SECOND_MS}")
    assert machine.coordinator.member.coordinator is None


def test_after_a_poll_interval_without_a_poll_the_member_leaves_the_group() -> None:
    machine = consumer("max-poll=8000")
    joined(machine)
    lines = machine.run("wait 8000")
    assert any("LeaveGroup as m1" in line for line in lines)


# -- offsets and assignors -------------------------------------------------------------------------


def test_there_are_the_reset_policies_latest_earliest_and_none() -> None:
    assert ConsumerConfig.declared["auto.offset.reset"].default == "latest"
    for policy in ("latest", "earliest", "none"):
        loaded = ConsumerConfig.load({"bootstrap.servers": "b:9092", "auto.offset.reset": policy})
        assert loaded.auto_offset_reset == policy


def test_partitions_are_each_owned_by_one_consumer_of_a_group() -> None:
    machine = consumer()
    joining(machine)
    machine.run("answer JoinGroup generation=1 member=m1 leader=m1 m1=t m2=t m3=t")
    line = machine.run("cluster t=8")[0]
    members = line.partition("as m1: ")[2].split("; ")
    owned = [partition for member in members for partition in member.split()[1:]]
    assert len(members) == 3
    assert sorted(owned) == [f"t-{number}" for number in range(8)]


# -- the group's coordinator -----------------------------------------------------------------------


def java_hash(text: str) -> int:
    """`s[0]*31^(n-1) + s[1]*31^(n-2) + ... + s[n-1]`, in 32 bits with a sign."""
    value = 0
    for at, each in enumerate(reversed(text)):
        value += ord(each) * pow(31, at)
    value %= 1 << 32
    return value - (1 << 32) if value >= 1 << 31 else value


@pytest.mark.parametrize(
    ("group", "hash_code", "partition"),
    [
        ("test", 3_556_498, 48),
        ("console-consumer-1", 35_782_224, 24),
        ("flights", -771_814_909, 9),
    ],
)
def test_the_coordinator_of_a_group_leads_its_partition_of_consumer_offsets(
    group: str, hash_code: int, partition: int
) -> None:
    """The document asks any broker for the coordinator. The broker finds it by Kafka's rule: the
    leader of partition `abs(hash of the group's id) % 50` of `__consumer_offsets`."""
    assert java_hash(group) == hash_code
    assert string_hash(group) == hash_code % 2**32
    count = BrokerConfig.declared["offsets.topic.num.partitions"].default
    assert count == 50
    assert partition_for(group, count) == abs(hash_code) % 50 == partition
    led = LedPartitions()
    runtime = CoordinatorRuntime[GroupShard](
        "__consumer_offsets",
        lambda: count,
        lambda partition: pytest.fail("no shard is made to find one"),
        led.replicas,
        StandingClock(),
        led.timer,
        lambda callback: None,
        5_000,
    )
    assert runtime.partition_of(group) == partition
