"""Replication under losses, kills, power failures and changes of the leader: see the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from odradek import leaves
from odradek.replication.leadership import Leadership
from odradek.replication.partition import Partition
from odradek.replication.replica_fetcher import PartitionFetchState, ReplicaFetcher
from property.replication_model import Model, values_of


def run(seed: int) -> None:
    """Run a seed with its faults, then until all replicas are equal."""
    model = Model(seed, min_isr=1 + seed % 2)
    for _ in range(500):
        model.step()
    model.heal()
    model.check_new_leader()
    first, *others = [broker.partition for broker in model.brokers.values()]
    held = values_of(first, first.high_watermark)
    for other in others:
        assert values_of(other, other.high_watermark) == held


def run_all(seeds: Iterable[int]) -> None:
    for seed in seeds:
        run(seed)


@pytest.mark.parametrize("seed", range(40))
def test_nothing_acknowledged_is_lost_and_replicas_become_equal(seed: int):
    run(seed)


def counting_the_leader_alone(broken: pytest.MonkeyPatch) -> None:
    broken.setattr(Leadership, "committed_end", lambda _, leader_end: leader_end)


def telling_the_log_end_as_durable(broken: pytest.MonkeyPatch) -> None:
    position = PartitionFetchState.position

    def log_end_position(state: PartitionFetchState) -> tuple[int, ...]:
        return *position(state)[:4], state.followed.log_end_offset

    broken.setattr(PartitionFetchState, "position", log_end_position)


def counting_what_is_not_flushed(broken: pytest.MonkeyPatch) -> None:
    broken.setattr(Partition, "durable_end", property(lambda self: self.log.log_end_offset))


def not_truncating(broken: pytest.MonkeyPatch) -> None:
    def back_off(self: ReplicaFetcher, key, known, _, *, restart) -> None:
        self._back_off(key, known)

    broken.setattr(ReplicaFetcher, "_truncate", back_off)


@pytest.mark.parametrize(
    "break_it",
    [
        pytest.param(
            counting_the_leader_alone,
            marks=pytest.mark.skipif(
                leaves.mode() == "compiled",
                reason="a compiled method cannot be replaced: the interpreted run has this",
            ),
        ),
        telling_the_log_end_as_durable,
        counting_what_is_not_flushed,
        not_truncating,
    ],
)
def test_a_broken_part_is_found(
    break_it: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
):
    break_it(monkeypatch)
    with pytest.raises(AssertionError):
        run_all(range(40))
