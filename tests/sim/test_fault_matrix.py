"""The fault matrix of a cluster, row by row: after each fault all recovers, and nothing is lost.

The rows are numbered as in the project's list of faults; not every row is here. Rows 43, 46 and 47
are in `test_matrix_requests`; 42, 44 and the transactions of 20 in `test_matrix_transactions`.

A run checks what every run checks (`odradek.testing.world`): that
nothing acknowledged is lost, doubled or reordered, that the cluster becomes whole, and the rules of
a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from odradek.broker.node import StartFailed
from odradek.log.directory_identity import META_FILE
from odradek.log.durable_ends import DURABLE_ENDS_FILE
from odradek.protocol import record_batch
from odradek.raft.quorum_state import QUORUM_STATE_FILE
from odradek.raft.raft_log import METADATA_DIRECTORY
from odradek.testing.disk import SimDisk
from odradek.testing.machine import DATA_DIRECTORY
from odradek.testing.probes import replica_logs
from odradek.testing.rules import replicas_match
from odradek.testing.scheduler import MS, SECOND
from odradek.testing.sim import explain, run_seed, summary
from odradek.testing.transport import Link
from odradek.testing.workload.operator import OperatorAction
from odradek.testing.workload.schedule import (
    DEAD_IN_A_POWER_CUT,
    Fate,
    FaultPlan,
    Schedule,
)
from odradek.testing.world import ONLY_ENGINES, World
from sim.live_cluster import LiveCluster

STEPS = 12
SEEDS = (1, 2)
Adjust = Callable[[Schedule], Schedule]


def as_drawn(plan: Schedule) -> Schedule:
    return plan


def survives(
    *faults: str,
    adjust: Adjust = as_drawn,
    sites: Sequence[str] = (),
    seeds: Sequence[int] = SEEDS,
) -> None:
    """Run clusters of three under these faults; one of them must reach each of the sites."""
    reached = set()
    for seed in seeds:
        world = World(seed, STEPS, faults=faults, brokers=3, adjust=adjust)
        outcome = run_seed(world)
        assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])
        reached |= set(world.scheduler.sites)
    assert [
        site for site in (*sites, *(f"fault: {each}" for each in faults)) if site not in reached
    ] == []


def at(ms: int, kind: str, length_ms: int, machine: int = 1, number: int = 7) -> FaultPlan:
    return FaultPlan(ms * MS, kind, length_ms * MS, number, machine)


def only(*faults: FaultPlan) -> Adjust:
    """Return what replaces the faults of a schedule."""

    def adjust(plan: Schedule) -> Schedule:
        ends = [fault.at_ns + fault.length_ns for fault in faults]
        return replace(plan, faults=faults, fates=(), heal_ns=max(plan.heal_ns, *ends) + SECOND)

    return adjust


def test_row_1_a_kill_at_any_disk_effect() -> None:
    sites = [f"disk: crash {when} an effect" for when in ("before", "within", "after")]
    survives("crash point", sites=sites, seeds=(1, 2, 3, 5, 6))


def test_row_2_a_power_failure_of_one_node() -> None:
    survives("power loss", "power loss at a crash point")


def test_row_3_a_power_failure_of_all_nodes_at_once() -> None:
    survives("power cut")


def all_end(cluster: LiveCluster, end: str) -> None:
    """Kill the nodes, or cut their power, at once."""
    for machine in cluster.world.machines:
        machine.power_loss() if end == "power loss" else machine.kill()
    cluster.connect_anew()


@pytest.mark.parametrize("away", [1, 2, 3])
@pytest.mark.parametrize("end", ["kill", "power loss"])
def test_row_3_two_of_three_nodes_go_on_without_the_third_after_all_were_gone(
    end: str, away: int
) -> None:
    cluster = LiveCluster(log_durability="fsync")
    cluster.create("t", partitions=3)
    cluster.produce("t", [b"x" * 200] * 20)
    all_end(cluster, end)
    for machine in cluster.world.machines:
        if machine.number != away:
            machine.boot()
    cluster.until(lambda: cluster.leads("t"))
    cluster.await_healed_without(away)
    cluster.produce("t", [b"y"])
    cluster.machine(away).boot()
    cluster.await_healed()
    assert [cluster.partition(n, "t").log.log_end_offset for n in (1, 2, 3)] == [21, 21, 21]


@pytest.mark.parametrize("wiped", [1, 2, 3])
def test_row_3_two_of_three_nodes_have_everything_if_the_third_lost_its_disk(wiped: int) -> None:
    cluster = LiveCluster(log_durability="fsync")
    cluster.create("t", partitions=3)
    cluster.produce("t", [b"x" * 200] * 20)
    all_end(cluster, "power loss")
    cluster.machine(wiped).wipe()
    for machine in cluster.world.machines:
        machine.boot()
    cluster.until(lambda: cluster.leads("t"))
    cluster.await_healed()
    assert [cluster.partition(n, "t").log.log_end_offset for n in (1, 2, 3)] == [20, 20, 20]


def test_row_3_without_fsyncs_nobody_leads_before_the_last_one_in_sync_is_back() -> None:
    cluster = LiveCluster(log_durability="os")
    cluster.create("t")
    cluster.produce("t", [b"x" * 200] * 20)
    all_end(cluster, "power loss")
    for number in (1, 3):
        cluster.machine(number).boot()
    cluster.scheduler.run(cluster.scheduler.now_ns + 60 * SECOND)
    assert cluster.leader("t") == -1
    cluster.machine(2).boot()
    cluster.until(lambda: cluster.leads("t"))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_row_3_the_core_goes_on_without_a_machine_that_does_not_come_back(seed: int) -> None:
    def cut(plan: Schedule) -> Schedule:
        settings = {"log.durability": "fsync", "min.insync.replicas": "2"}
        return replace(
            plan,
            durability="fsync",
            settings=plan.settings | settings,
            topics=[replace(topic, replicas=3) for topic in plan.topics],
            recreated=(),
            operations=(),
            faults=(),
            fates=[Fate(0, seed, DEAD_IN_A_POWER_CUT, seed)],
        )

    survives(adjust=cut, sites=(f"fault: {DEAD_IN_A_POWER_CUT} for ever",), seeds=(seed,))


def test_row_4_a_minority_is_paused_and_majorities_are_swapped() -> None:
    survives("swapped majorities", seeds=(1, 2, 3))


def test_row_5_a_crash_in_a_roll_a_snapshot_a_deletion_and_a_reassignment() -> None:
    def busy(plan: Schedule) -> Schedule:
        often = {"metadata.log.max.record.bytes.between.snapshots": "500"}
        moves = [OperatorAction(each * 300 * MS, "reassign", each) for each in range(1, 6)]
        return replace(plan, settings=plan.settings | often, operations=moves, fates=())

    survives("crash point", "power loss at a crash point", adjust=busy, seeds=(3, 4, 5))


def test_row_6_a_full_disk() -> None:
    survives("disk full", sites=("disk: full",))


def test_row_7_errors_of_reads() -> None:
    survives("read error", sites=("disk: EIO read",))


def test_row_8_errors_of_fsyncs() -> None:
    survives("fsync error", sites=("disk: EIO sync",))


def test_row_9_errors_of_writes() -> None:
    survives("write error", sites=("disk: EIO write",), seeds=(1, 2, 3))


def test_row_10_slow_disks_and_stalled_loops() -> None:
    survives("slow disk", "owner stall")


def damaged_replica(damage: Callable[[SimDisk], None]) -> None:
    """Damage a replica of a partition with records while its node is down; it must be in sync again
    with what its leader has.
    """
    cluster = LiveCluster()
    cluster.create("t")
    cluster.produce("t", [b"x" * 200] * 20)
    machine = cluster.machine(next(n for n in (1, 2, 3) if n != cluster.leader("t")))
    machine.kill()
    machine.disk.sync_file(f"{DATA_DIRECTORY}/{DURABLE_ENDS_FILE}")
    damage(machine.disk)
    machine.boot()
    cluster.await_healed()
    assert cluster.partition(machine.number, "t").log.log_end_offset == 20
    assert replicas_match(replica_logs(cluster.world.machines)) == []


def log_of_the_replica(disk: SimDisk) -> str:
    """The path of the only segment on this disk that is not of the metadata log."""
    (path,) = [each for each in disk.paths() if each.endswith(".log") and "metadata" not in each]
    return path


FIELDS = {
    "base offset": 7,
    "length": 11,
    "leader epoch, highest byte": 12,
    "leader epoch, lowest byte": 15,
    "magic": 16,
    "CRC": 20,
    "payload": 70,
}
"""A byte of each of these in a batch. A leader epoch that fits between its neighbours is not found:
nothing else tells it, as no checksum covers it.
"""


@pytest.mark.parametrize("field", FIELDS)
def test_row_11_a_bit_that_flips_in_a_batch_at_rest_is_found_and_the_log_fetched_anew(
    field: str,
) -> None:
    def flip(disk: SimDisk) -> None:
        path = log_of_the_replica(disk)
        batches = list(record_batch.batches(disk.content(path)))
        disk.flip_bit(path, 8 * (batches[10].position + FIELDS[field]))

    damaged_replica(flip)


def test_row_11_a_leader_epoch_above_all_others_is_found_when_the_follower_fetches() -> None:
    def flip(disk: SimDisk) -> None:
        path = log_of_the_replica(disk)
        batches = list(record_batch.batches(disk.content(path)))
        disk.flip_bit(path, 8 * (batches[-1].position + FIELDS["leader epoch, lowest byte"]) + 5)

    damaged_replica(flip)


def test_row_12_a_segment_that_became_shorter_is_found_and_fetched_anew() -> None:
    def shorten(disk: SimDisk) -> None:
        path = log_of_the_replica(disk)
        disk.shorten(path, len(disk.content(path)) // 2)

    damaged_replica(shorten)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_row_13_damaged_indexes_and_snapshots_of_producers_are_made_again(seed: int) -> None:
    rows = [at(800 + 400 * each, "index bit flip", 100, each % 3 + 1, each) for each in range(6)]
    survives(adjust=only(*rows), sites=("fault: index bit flip",), seeds=(seed,))


@pytest.mark.parametrize("name", [META_FILE, f"{METADATA_DIRECTORY}/{QUORUM_STATE_FILE}"])
def test_row_14_a_damaged_identity_or_vote_refuses_the_start(name: str) -> None:
    cluster = LiveCluster()
    machine = cluster.machine(next(n for n in (1, 2, 3) if n != cluster.controller))
    machine.kill()
    path = f"{DATA_DIRECTORY}/{name}"
    for bit in range(0, 8 * len(machine.disk.content(path)), 5):
        machine.disk.flip_bit(path, bit)
    with pytest.raises(StartFailed):
        machine.boot()
    others = [each for each in cluster.world.machines if each is not machine]
    assert all(each.running for each in others)


@pytest.mark.parametrize("suffix", [".checkpoint", ".log"])
def test_row_14_damaged_metadata_refuses_the_start_and_comes_from_the_others(suffix: str) -> None:
    cluster = LiveCluster(metadata_log_max_record_bytes_between_snapshots="500")
    for number in range(10):
        cluster.create(f"t{number}")
    cluster.produce("t0", [b"x" * 200] * 20)
    machine = cluster.machine(next(n for n in (1, 2, 3) if n != cluster.controller))
    machine.kill()
    damaged = [
        path
        for path in machine.disk.paths()
        if METADATA_DIRECTORY in path and path.endswith(suffix) and "epoch" not in path
    ]
    assert damaged
    for path in damaged:
        machine.disk.sync_file(path)
        for bit in range(0, 8 * len(machine.disk.content(path)), 5):
            machine.disk.flip_bit(path, bit)
    with pytest.raises(StartFailed, match="move all of the data directory away"):
        machine.boot()
    machine.kill()
    machine.wipe()
    machine.boot()
    cluster.await_healed()
    assert cluster.partition(machine.number, "t0").log.log_end_offset == 20
    assert replicas_match(replica_logs(cluster.world.machines)) == []


def test_row_15_a_split() -> None:
    survives("split", seeds=(1, 2, 3))


@pytest.mark.parametrize("fate", ["mute", "deaf"])
def test_row_16_one_direction_is_lost_for_ever_and_the_others_go_on(fate: str) -> None:
    def lasting(plan: Schedule) -> Schedule:
        topics = [replace(topic, replicas=3) for topic in plan.topics]
        return replace(
            plan,
            topics=topics,
            recreated=(),
            operations=(),
            recorded_voters=False,
            fates=[Fate(0, 1 + len(plan.topics) % 3, fate, 5)],
        )

    survives("one-way", adjust=lasting, sites=(f"fault: {fate} for ever",))


def test_row_17_a_bridge_and_a_ring() -> None:
    survives("bridge", "ring", seeds=(1, 2, 3))


def test_row_18_a_client_that_cannot_reach_one_broker() -> None:
    survives("client cut", sites=("client: asks for leaders",))


def test_row_19_flapping_links_and_machines_cut_off_one_by_one() -> None:
    survives("flapping", "swizzle", seeds=(1, 2, 3))


def test_row_20_delays_between_connections() -> None:
    survives("stall", "slow links", seeds=(1, 2, 3))


def test_row_21_answers_that_are_lost_after_the_request_was_carried_out() -> None:
    survives("half open", sites=("producer: batches sent again",), seeds=(1, 2, 3, 4))


def test_row_22_connections_whose_other_end_is_silent() -> None:
    survives("half-open links", sites=("network: data lost",), seeds=(1, 2, 3))


def test_row_23_slow_links_small_pieces_and_resets_within_frames() -> None:
    def small(plan: Schedule) -> Schedule:
        link = Link(latency_ns=(1 * MS, 60 * MS), capacity=700, chop_rate=900)
        return replace(plan, link=link)

    survives("slow links", "breaking links", adjust=small, sites=("network: reset",))


def test_row_24_a_paused_leader_goes_on_as_if_it_led() -> None:
    pauses = [at(900 + 1_800 * each, "pause", 5_000, each % 3 + 1) for each in range(3)]
    survives(adjust=only(*pauses), sites=("process: late",))


def test_row_25_the_controller_is_killed_or_paused_and_a_majority_is_killed() -> None:
    survives("controller killed", "controller paused", "majority killed", seeds=(1, 2, 3))


def test_row_26_a_rolling_restart_under_load() -> None:
    survives("rolling restart", sites=("cluster: a rolling restart ends", "cluster: a clean stop"))


def test_row_27_voters_and_replicas_change_under_faults() -> None:
    def changing(plan: Schedule) -> Schedule:
        kinds = ("voter", "reassign")
        moves = [OperatorAction(n * 400 * MS, kinds[n % 2], n) for n in range(2, 9)]
        return replace(plan, recorded_voters=True, voters=3, operations=moves, fates=())

    voters = ("operator: voter NONE", "operator: reassign NONE")
    survives("split", "kill", "pause", adjust=changing, sites=voters, seeds=(1, 2, 3))


def test_row_27_a_voter_that_lost_its_disk_comes_back_as_another_replica() -> None:
    def wiping(plan: Schedule) -> Schedule:
        lost = [at(6_000, "lost disk", 500, machine=3)]
        moves = [OperatorAction((7_000 + n * 400) * MS, "voter", n) for n in range(5)]
        plan = replace(plan, recorded_voters=True, voters=3, operations=moves, heal_ns=10 * SECOND)
        return only(*lost)(plan)

    survives(adjust=wiping, sites=("fault: lost disk", "operator: add a voter NONE"))


def test_row_29_wall_clocks_that_jump_and_drift() -> None:
    survives("clock jump", "clock drift")


def test_row_45_groups_rebalance_and_lose_members_while_their_coordinators_are_killed() -> None:
    for seed in (2, 4, 5):
        faults = ("controller killed", "kill")
        world = World(seed, 4, faults=faults, brokers=3, engines=ONLY_ENGINES, adjust=without_fates)
        assert world.plan.engines is not None
        assert world.plan.engines.groups
        outcome = run_seed(world)
        assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])


def without_fates(plan: Schedule) -> Schedule:
    return replace(plan, fates=(), operations=())
