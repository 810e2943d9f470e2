"""Moves of replicas: at most so many at a time, and another run goes on where one was ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import click
import msgspec
import pytest

from odradek.cli.replica_moves import Moves, awaited_brokers, is_confirmed
from odradek.cli.replica_plan import Placement, Plan
from odradek.client.admin.results import Cluster, Partition, Reassignment, Topic
from odradek.client.errors import KafkaError, KafkaTimeout
from odradek.model.node import Node
from odradek.model.topics import ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    from odradek import Admin

Replicas = tuple[int, ...]


def key(number: int) -> TopicPartition:
    return TopicPartition("t", number)


@dataclass(slots=True)
class ScriptedCluster:
    """The admin client of a cluster in which time passes by `sleep`: a second ends each move whose
    new brokers run."""

    replicas: dict[TopicPartition, Replicas]
    running: set[int]
    targets: dict[TopicPartition, Replicas] = field(default_factory=dict)
    begun: list[dict[TopicPartition, Replicas]] = field(default_factory=list)
    refused: dict[TopicPartition, KafkaError] = field(default_factory=dict)
    elected: list[TopicPartition] = field(default_factory=list)
    happens: dict[int, Callable[[], None]] = field(default_factory=dict)
    """What happens at the n-th sleep, counted from 1."""
    sleeps: int = 0

    def sleep(self, _: float) -> None:
        self.sleeps += 1
        for partition, target in list(self.targets.items()):
            if {*target} - {*self.replicas[partition]} <= self.running:
                self.replicas[partition] = self.targets.pop(partition)
        self.happens.get(self.sleeps, lambda: None)()

    def now_s(self) -> float:
        return self.sleeps * 1.0

    def reassignments(self) -> dict[TopicPartition, Reassignment]:
        found = {}
        for partition, target in self.targets.items():
            present = self.replicas[partition]
            removing = tuple(sorted({*present} - {*target}))
            adding = tuple(sorted({*target} - {*present}))
            found[partition] = Reassignment((*target, *removing), adding, removing)
        return found

    def alter_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int]]
    ) -> dict[TopicPartition, KafkaError | None]:
        self.begun.append({partition: tuple(each) for partition, each in replicas.items()})
        accepted = {p: tuple(each) for p, each in replicas.items() if p not in self.refused}
        self.targets |= accepted
        return {partition: self.refused.get(partition) for partition in replicas}

    def topics(self, *, internal: bool) -> list[Topic]:
        assert internal
        partitions = tuple(
            Partition(p.partition, min(each), each, each) for p, each in self.replicas.items()
        )
        return [Topic("t", ZERO_UUID, False, partitions)]

    def elect_leaders(
        self, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        self.elected += partitions
        return dict.fromkeys(partitions)

    def cluster(self) -> Cluster:
        nodes = tuple(Node(each, "h", 9092, None) for each in sorted(self.running))
        return Cluster("c", 1, nodes)

    def log_dirs(self) -> dict[int, list[object]]:
        return {}

    def moves(self, at_once: int, *, as_json: bool = False) -> Moves:
        return Moves(cast("Admin", self), at_once, as_json, self.sleep, self.now_s)


def cluster_of(partitions: int, running: set[int]) -> ScriptedCluster:
    """A cluster whose partitions have one replica each, on broker 1."""
    return ScriptedCluster({key(number): (1,) for number in range(partitions)}, running)


def test_only_so_many_partitions_are_copied_at_a_time() -> None:
    cluster = cluster_of(5, {1, 2})
    moves = cluster.moves(2)
    moves.run({key(number): (2, 1) for number in range(5)})
    assert [len(each) for each in cluster.begun] == [2, 2, 1]
    assert moves.moved == 5
    moves.end()
    assert len(cluster.elected) == 5


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(143), KafkaTimeout("no answer")])
def test_an_end_in_the_middle_tells_what_goes_on_and_the_next_run_does_the_rest(
    end: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = cluster_of(5, {1, 2})

    def ends() -> None:
        raise end

    cluster.happens[2] = ends
    plan: Plan = {key(number): (1, 2) for number in range(5)}
    with pytest.raises(type(end)):
        cluster.moves(2).run(plan)
    assert capsys.readouterr().err == (
        "odradek: 2 of 5 partitions moved, 2 under way go on in the cluster, 1 partition not "
        "begun. What to do: run the same command again, it goes on from there\n"
    )
    again = cluster.moves(2)
    again.run({key(4): (1, 2)})
    assert set(cluster.replicas.values()) == {(1, 2)}
    assert again.moved == 1  # What was under way ended while nobody looked.


def test_moves_that_were_under_way_before_are_waited_for_and_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = cluster_of(2, {1})
    cluster.targets = {key(0): (1, 2)}
    cluster.happens[6] = lambda: cluster.running.add(2)
    moves = cluster.moves(1, as_json=True)
    moves.run({key(1): (1, 2)})
    moves.end()
    out, err = capsys.readouterr()
    assert [msgspec.json.decode(line)["partition"] for line in out.splitlines()] == [0, 1]
    assert err == (
        "odradek: 0 of 2 partitions moved, 1 under way, 1 waits for broker 2, which does not run: "
        "start it, or run this command again, which takes another one if it can "
        "(Ctrl-C leaves those to the cluster)\n"
        "odradek: 2 partitions moved\n"
    )


def test_a_move_that_waits_for_a_stopped_broker_gets_another_though_the_limit_is_reached() -> None:
    cluster = cluster_of(2, {1, 3})
    cluster.targets = {key(0): (1, 2), key(1): (1, 2)}
    moves = cluster.moves(1)
    moves.run({key(0): (1, 3), key(1): (1, 3)})
    assert set(cluster.replicas.values()) == {(1, 3)}
    assert moves.moved == 2


def test_a_refused_partition_is_told_and_the_others_are_moved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = cluster_of(2, {1, 2})
    cluster.refused[key(0)] = KafkaError("no such partition")
    moves = cluster.moves(1)
    moves.run({key(0): (1, 2), key(1): (1, 2)})
    with pytest.raises(click.ClickException, match="1 partition could not be moved"):
        moves.end()
    assert moves.moved == 1
    assert "odradek: no such partition\n" in capsys.readouterr().err


def test_a_drain_goes_on_until_two_looks_in_a_row_find_nothing() -> None:
    cluster = cluster_of(1, {1, 2})
    plans: list[Plan] = [{key(1): (2,)}, {}, {key(2): (2,)}, {}, {}]
    late = iter(plans)

    def again() -> Plan:
        plan = next(late)
        cluster.replicas |= dict.fromkeys(plan, (1,))  # It was made when nobody looked.
        return plan

    moves = cluster.moves(1)
    moves.run_until_empty({key(0): (2,)}, again)
    assert next(late, None) is None
    assert set(cluster.replicas.values()) == {(2,)}
    assert moves.moved == 3


def test_a_drain_ends_with_the_partition_that_is_refused() -> None:
    cluster = cluster_of(1, {1, 2})
    cluster.refused[key(0)] = KafkaError("not allowed")
    moves = cluster.moves(1)
    moves.run_until_empty({key(0): (2,)}, lambda: {key(0): (2,)})
    assert (moves.moved, moves.failed) == (0, 1)


def test_an_empty_plan_says_what_is_still_under_way(capsys: pytest.CaptureFixture[str]) -> None:
    at = {key(0): Placement((1, 2), 1, (1,), adding=(2,)), key(1): Placement((1, 2), 1, (1, 2))}
    how = {"yes": False, "as_json": False}
    assert is_confirmed({}, at, dry_run=False, **how)
    assert not is_confirmed({}, at, dry_run=True, **how)
    assert capsys.readouterr().err == 2 * (
        "odradek: nothing is left to plan; 1 partition under way\n"
    )


def test_moves_wait_for_the_broker_that_copies_or_that_alone_has_the_records() -> None:
    moves = {
        key(0): Reassignment((1, 2, 3), adding=(2, 3), removing=()),
        key(1): Reassignment((2, 3), adding=(2,), removing=(3,)),
        key(2): Reassignment((1, 2), adding=(2,), removing=(1,)),
    }
    assert awaited_brokers(moves, {1, 2}) == {3: 2}
    assert awaited_brokers(moves, {1, 2, 3}) == {}
