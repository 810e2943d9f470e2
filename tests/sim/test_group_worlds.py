"""Simulation of consumer groups: joins, ends, pauses, network faults and broker restarts."""

from __future__ import annotations

import pytest

from odradek.client.consumer.group.member import RebalanceEvent
from odradek.model.topics import TopicPartition
from sim.group_clients import HEARTBEAT_MS, MAX_POLL_MS, SESSION_MS
from sim.group_world import GroupWorld

STRATEGIES = ["range", "roundrobin", "sticky", "cooperative-sticky"]


def shares(world: GroupWorld) -> list[int]:
    return sorted(len(member.subscriptions.assigned_partitions) for member in world.alive)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_partitions_are_shared_while_members_join_and_leave(strategy: str) -> None:
    world = GroupWorld(1, {"t": 6}, strategy)
    first = world.start("a")
    world.wait_until_stable()
    assert shares(world) == [6]
    world.start("b")
    world.start("c")
    world.wait_until_stable()
    assert shares(world) == [2, 2, 2]
    first.close()
    world.until(lambda: not first.process.alive, 10)
    world.wait_until_stable()
    assert shares(world) == [3, 3]
    assert first.calls[-1][0] is RebalanceEvent.REVOKED


def test_a_clean_leave_reaches_the_others_with_the_next_heartbeat() -> None:
    world = GroupWorld(2, {"t": 4}, "range")
    leaver, _ = world.start("a"), world.start("b")
    world.wait_until_stable()
    leaver.close()
    world.until(lambda: shares(world) == [4], (HEARTBEAT_MS + 1000) // 1000 + 2)


def test_partitions_of_a_killed_member_go_to_others_after_its_session() -> None:
    world = GroupWorld(3, {"t": 4}, "cooperative-sticky")
    victim, _ = world.start("a"), world.start("b")
    world.wait_until_stable()
    victim.kill()
    world.run((SESSION_MS - HEARTBEAT_MS - 500) / 1000)
    assert shares(world) == [2]
    world.wait_until_stable()
    assert shares(world) == [4]


def test_a_member_that_was_paused_beyond_its_session_has_lost_everything() -> None:
    world = GroupWorld(4, {"t": 4}, "range")
    sleeper, _ = world.start("a"), world.start("b")
    world.wait_until_stable()
    had = sorted(sleeper.subscriptions.assigned_partitions)
    sleeper.pause(3 * SESSION_MS / 1000)
    world.run(4 * SESSION_MS / 1000)
    world.wait_until_stable()
    assert shares(world) == [2, 2]
    assert (RebalanceEvent.LOST, had) in sleeper.calls


def test_a_member_whose_application_stops_polling_leaves_and_comes_back() -> None:
    world = GroupWorld(5, {"t": 4}, "cooperative-sticky")
    slow, other = world.start("a"), world.start("b")
    world.wait_until_stable()
    generation = other.coordinator.member.generation.generation_id
    works_until_ns = world.scheduler.now_ns + 2 * MAX_POLL_MS * 1_000_000
    poll, slow._poll = slow._poll, lambda: None  # type: ignore[method-assign]
    world.until(lambda: len(other.subscriptions.assigned_partitions) == 4, 60)
    assert world.scheduler.now_ns < works_until_ns
    slow._poll = poll  # type: ignore[method-assign]
    slow.process.post(0, "poll", poll)
    world.wait_until_stable()
    assert shares(world) == [2, 2]
    assert any(occasion is RebalanceEvent.LOST for occasion, _ in slow.calls)
    assert other.coordinator.member.generation.generation_id > generation


def test_a_static_member_that_restarts_within_its_session_keeps_its_partitions() -> None:
    world = GroupWorld(6, {"t": 4}, "range")
    first, other = world.start("a", "one"), world.start("b", "two")
    world.wait_until_stable()
    generation = other.coordinator.member.generation.generation_id
    had = sorted(first.subscriptions.assigned_partitions)
    first.kill()
    world.run(1)
    again = world.start("a", "one")
    world.wait_until_stable()
    assert sorted(again.subscriptions.assigned_partitions) == had
    assert other.coordinator.member.generation.generation_id == generation
    assert [occasion for occasion, _ in other.calls] == [RebalanceEvent.ASSIGNED]


def test_two_members_with_one_instance_id_cannot_both_stay() -> None:
    world = GroupWorld(7, {"t": 4}, "range")
    first = world.start("a", "one")
    world.wait_until_stable()
    second = world.start("b", "one")
    world.wait_until_stable()
    assert not first.process.alive
    assert sorted(second.subscriptions.assigned_partitions) == [
        TopicPartition("t", number) for number in range(4)
    ]


def test_a_group_keeps_its_generation_over_a_broker_restart() -> None:
    world = GroupWorld(8, {"t": 6}, "cooperative-sticky")
    members = [world.start(name) for name in "abc"]
    world.wait_until_stable()
    generation = members[0].coordinator.member.generation.generation_id
    calls = [len(member.calls) for member in members]
    world.machine.kill()
    world.run(2)
    world.machine.boot()
    world.wait_until_stable()
    assert members[0].coordinator.member.generation.generation_id == generation
    assert [len(member.calls) for member in members] == calls


REGRESSIONS = [1287, 1343]
"""Seeds where a member that lost its generation while joining kept its partitions, and so overwrote
the commits of the next owner."""


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_with_automatic_commits_nothing_comes_twice_while_members_come_and_go(
    strategy: str,
) -> None:
    world = GroupWorld(9, {"t": 6}, strategy, auto_commit=True)
    first = world.start("a")
    world.wait_until_stable()
    for name in "bcd":
        world.start(name)
        world.run(world.chance.between(50, 4000) / 1000)
    world.wait_until_stable()
    first.close()
    world.until(lambda: not first.process.alive, 10)
    world.wait_until_stable()
    assert shares(world) == [2, 2, 2]
    assert sum(world.journal.positions_read.values()) > 0
    assert world.journal.read_again == []


@pytest.mark.parametrize("seed", [*range(100, 112), *REGRESSIONS])
@pytest.mark.parametrize(
    ("auto_commit", "refused_commits"),
    [(False, 0), (True, 0), (True, 750)],
    ids=["manual", "automatic", "refused"],
)
def test_a_group_is_stable_after_random_events(
    seed: int, auto_commit: bool, refused_commits: int
) -> None:
    """Random joins, ends, pauses, network faults and broker restarts, then a stable group."""
    strategy = STRATEGIES[seed % len(STRATEGIES)]
    world = GroupWorld(
        seed,
        {"t": 5, "u": 3},
        strategy,
        auto_commit=auto_commit,
        refused_commits=refused_commits,
    )
    chance = world.chance
    for name in "ab":
        world.start(name)
    for turn in range(12):
        world.run(chance.between(100, 5000) / 1000)
        what = chance.below(10)
        members = world.alive
        if what < 3 or not members:
            world.start(f"m{turn}", f"i{turn}" if chance.chance(300) else None)
        elif what == 3:
            chance.pick(members).close()
        elif what == 4:
            chance.pick(members).kill()
        elif what == 5:
            chance.pick(members).pause(chance.between(1000, 3 * SESSION_MS) / 1000)
        elif what == 6:
            world.machine.kill()
            world.machine.restart(chance.between(100, 3000) * 1_000_000)
        else:
            for connection in world.fabric.connections():
                if what < 9:
                    connection.reset()
                else:
                    connection.stall(world.scheduler.now_ns + chance.between(1, 8) * 1_000_000_000)
    world.run(1)
    world.machine.boot()
    if not world.alive:
        world.start("last")
    world.wait_until_stable()
    counts = shares(world)
    assert sum(counts) == 8
    if strategy != "range":
        assert counts[-1] - counts[0] <= 1
