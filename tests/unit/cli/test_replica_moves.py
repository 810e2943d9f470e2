"""Moves of replicas: at most so many at a time, and another run goes on where one was ended."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import click
import msgspec
import pytest

from odradek.cli.cluster import planned_drain
from odradek.cli.replica_moves import (
    LOOKS_UNTIL_GIVEN_UP,
    Covers,
    Moves,
    awaited_brokers,
    is_confirmed,
    waiting_text,
)
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


def every(_: TopicPartition, holders: Collection[int]) -> bool:
    """Cover all moves, as `cluster grow` does."""
    return bool(holders)


def of_broker(broker: int) -> Covers:
    """Cover the moves from and to a broker, as `cluster drain` does."""
    return lambda _, holders: broker in holders


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
    fails_at: int = -1
    """How many batches are begun before the next one has no answer."""
    stale_looks: int = 0
    """How often `topics` still answers with the replicas of the beginning."""
    topic_calls: int = 0
    before: dict[TopicPartition, Replicas] = field(init=False)

    def __post_init__(self) -> None:
        self.before = dict(self.replicas)

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
        if len(self.begun) == self.fails_at:
            raise KafkaTimeout("no answer")
        self.begun.append({partition: tuple(each) for partition, each in replicas.items()})
        accepted = {p: tuple(each) for p, each in replicas.items() if p not in self.refused}
        self.targets |= accepted
        return {partition: self.refused.get(partition) for partition in replicas}

    def topics(self, *, internal: bool) -> list[Topic]:
        assert internal
        self.topic_calls += 1
        replicas = self.before if self.topic_calls <= self.stale_looks else self.replicas
        partitions = tuple(
            Partition(p.partition, min(each), each, each) for p, each in replicas.items()
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

    def moves(self, at_once: int, covers: Covers = every, *, as_json: bool = False) -> Moves:
        return Moves(cast("Admin", self), at_once, as_json, covers, self.sleep, self.now_s)


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
        "odradek: 0 of 2 partitions moved, 2 under way, 2 wait for broker 2, which does not run: "
        "start it, or run this command again, which takes another one if it can "
        "(Ctrl-C leaves those to the cluster)\n"
        "odradek: 2 partitions moved\n"
    )


def test_moves_that_are_not_covered_are_left_alone_and_take_no_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A foreign move that waits without end, one that is done, and one that another command ends
    meanwhile."""
    cluster = cluster_of(5, {1, 3, 5})
    cluster.targets = {key(0): (1, 2), key(1): (1, 5), key(2): (1, 2)}
    cluster.happens[1] = lambda: cluster.targets.__delitem__(key(2))
    moves = cluster.moves(1, of_broker(3), as_json=True)
    moves.run_until_empty({key(3): (3,), key(4): (3,)}, dict)
    assert cluster.begun == [{key(3): (3,)}, {key(4): (3,)}]
    assert moves.moved == 2
    out, err = capsys.readouterr()
    assert [msgspec.json.decode(line)["partition"] for line in out.splitlines()] == [3, 4]
    assert err == ""
    assert cluster.targets == {key(0): (1, 2)}


def test_a_move_from_the_drained_broker_is_waited_for() -> None:
    cluster = cluster_of(1, {1, 3})
    cluster.targets = {key(0): (2,)}
    cluster.happens[3] = lambda: cluster.running.add(2)
    moves = cluster.moves(1, of_broker(1))
    moves.run({})
    assert (moves.moved, cluster.replicas) == (1, {key(0): (2,)})


def test_a_covered_move_that_waits_for_a_stopped_broker_takes_no_place() -> None:
    cluster = cluster_of(2, {1, 3})
    cluster.targets = {key(0): (1, 2)}
    begun_before: list[int] = []

    def start() -> None:
        begun_before.append(len(cluster.begun))
        cluster.running.add(2)

    cluster.happens[4] = start
    moves = cluster.moves(1)
    moves.run({key(1): (1, 3)})
    assert begun_before == [1]
    assert moves.moved == 2


def test_a_cancelled_move_of_its_own_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = cluster_of(2, {1, 3})
    cluster.happens[3] = lambda: cluster.targets.clear()
    moves = cluster.moves(5, as_json=True)
    moves.run_until_empty({key(0): (1, 2), key(1): (1, 3)}, lambda: {key(0): (1, 2)})
    assert (moves.moved, moves.failed, len(cluster.begun)) == (1, 1, 1)
    with pytest.raises(click.ClickException, match="1 partition could not be moved"):
        moves.end()
    out, err = capsys.readouterr()
    why = "t-0 was to be on 1, 2, and is on 1: its move was cancelled or changed"
    assert [msgspec.json.decode(line) for line in out.splitlines()] == [
        {"topic": "t", "partition": 1, "replicas": [1, 3]},
        {"topic": "t", "partition": 0, "error": why},
    ]
    assert f"odradek: {why}\n" in err


def test_a_move_of_its_own_that_gets_another_target_has_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = cluster_of(1, {1})
    cluster.happens[2] = lambda: cluster.targets.update({key(0): (1, 4)})
    moves = cluster.moves(5, of_broker(9))
    moves.run({key(0): (1, 2)})
    assert (moves.moved, moves.failed, cluster.targets) == (0, 1, {key(0): (1, 4)})
    assert capsys.readouterr().err.endswith(
        "odradek: t-0 was to be on 1, 2, and is being moved to 1, 4: its move was cancelled or "
        "changed\n"
    )


def test_a_cancelled_move_of_others_is_told_and_is_no_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = cluster_of(1, {1})
    cluster.targets = {key(0): (1, 2)}
    cluster.happens[2] = lambda: cluster.targets.clear()
    moves = cluster.moves(5, as_json=True)
    moves.run({})
    moves.end()
    assert (moves.moved, moves.failed) == (0, 0)
    out, err = capsys.readouterr()
    assert out == ""
    assert "t-0 was to be on 1, 2, and is on 1: its move was cancelled or changed\n" in err


def test_a_move_counts_as_done_also_if_the_broker_that_is_asked_learns_it_later() -> None:
    cluster = cluster_of(1, {1, 2})
    cluster.stale_looks = LOOKS_UNTIL_GIVEN_UP
    moves = cluster.moves(5)
    moves.run({key(0): (1, 2)})
    assert (moves.moved, moves.failed) == (1, 0)
    assert cluster.topic_calls == LOOKS_UNTIL_GIVEN_UP + 1


def test_the_replicas_are_looked_at_only_when_something_has_ended() -> None:
    cluster = cluster_of(3, {1})
    cluster.happens[5] = lambda: cluster.running.add(2)
    cluster.moves(5).run({key(number): (1, 2) for number in range(3)})
    assert (cluster.sleeps, cluster.topic_calls) == (6, 1)


def test_a_partition_that_is_deleted_meanwhile_is_no_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = cluster_of(1, {1})

    def delete() -> None:
        cluster.targets.clear()
        cluster.replicas.clear()

    cluster.happens[2] = delete
    moves = cluster.moves(5)
    moves.run({key(0): (1, 2)})
    assert (moves.moved, moves.failed) == (0, 0)
    assert capsys.readouterr().err.endswith("odradek: t-0 does not exist any more\n")


def test_an_end_while_nothing_is_under_way_does_not_say_that_anything_goes_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = cluster_of(3, {1, 2})
    cluster.fails_at = 1
    with pytest.raises(KafkaTimeout):
        cluster.moves(1).run({key(number): (1, 2) for number in range(3)})
    assert capsys.readouterr().err == (
        "odradek: 1 of 3 partitions moved, none under way, 2 partitions not begun. What to do: run "
        "the same command again, it goes on from there\n"
    )


def test_the_advice_names_a_command_that_would_plan_the_waiting_move_again() -> None:
    copied = {key(0): Reassignment((1, 2), adding=(2,), removing=())}
    waits = ", 1 waits for broker 2, which does not run: start it"
    takes = "which takes another one if it can"
    assert waiting_text(copied, {1, 2}, every) == ""
    assert waiting_text(copied, {1}, every) == f"{waits}, or run this command again, {takes}"
    assert waiting_text(copied, {1}, of_broker(3)) == (
        f"{waits}, or run odradek cluster grow -r 1, {takes}"
    )
    source = {key(0): Reassignment((1, 2), adding=(1,), removing=(2,))}
    assert waiting_text(source, {1}, every) == waits  # Only broker 2 has the records.
    both = copied | {key(1): Reassignment((1, 4), adding=(4,), removing=())}
    assert ": start them, or run" in waiting_text(both, {1}, every)


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


def test_an_empty_plan_says_what_is_still_under_way_of_what_it_covers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = {
        key(0): Placement((1, 2), 1, (1,), adding=(2,)),
        key(1): Placement((1, 2), 1, (1, 2)),
        key(2): Placement((1, 3), 1, (1,), adding=(3,)),
    }
    how = {"yes": False, "as_json": False}
    assert is_confirmed({}, at, of_broker(2), dry_run=False, **how)
    assert not is_confirmed({}, at, of_broker(2), dry_run=True, **how)
    assert capsys.readouterr().err == 2 * (
        "odradek: nothing is left to plan; 1 partition under way\n"
    )
    assert is_confirmed({}, at, of_broker(4), dry_run=False, **how)
    assert capsys.readouterr().err == "odradek: every partition is where it should be\n"


def test_moves_to_which_nobody_has_agreed_are_not_begun_by_a_drain_that_only_waited() -> None:
    client, at = cast("Admin", cluster_of(1, {1, 2})), {key(0): Placement((1,), 1, (1,))}
    assert planned_drain(client, at, 1) == {key(0): (2,)}
    assert planned_drain(client, at, 2, is_agreed=False) == {}
    with pytest.raises(click.ClickException, match="replicas of 1 partition now"):
        planned_drain(client, at, 1, is_agreed=False)


def test_a_cordon_is_a_part_of_the_plan_that_is_confirmed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = {key(0): Placement((3,), 3, (3,))}
    plan: Plan = {key(0): (1,)}
    how = {"yes": False, "as_json": True}
    cases: list[tuple[Plan, str]] = [({}, "Cordon"), (plan, "Cordon and move")]
    for planned, verb in cases:
        assert not is_confirmed(planned, at, of_broker(3), cordons=3, dry_run=True, **how)
        with pytest.raises(click.UsageError, match=f"^{verb}: .*confirm with --yes"):
            is_confirmed(planned, at, of_broker(3), cordons=3, dry_run=False, **how)
    assert [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()] == [
        {"step": "cordon", "broker": 3},
        {"step": "cordon", "broker": 3},
        {"topic": "t", "partition": 0, "replicas": [3], "new_replicas": [1]},
    ]


def test_moves_wait_for_the_broker_that_copies_or_that_alone_has_the_records() -> None:
    moves = {
        key(0): Reassignment((1, 2, 3), adding=(2, 3), removing=()),
        key(1): Reassignment((2, 3), adding=(2,), removing=(3,)),
        key(2): Reassignment((1, 2), adding=(2,), removing=(1,)),
    }
    assert awaited_brokers(moves, {1, 2}) == {3: 2}
    assert awaited_brokers(moves, {1, 2, 3}) == {}
