"""The quorum keeps Raft's promises whatever is lost, late, cut, crashed or changed."""

from __future__ import annotations

import pytest

from property.raft_model import Faults, simulate

CALM = Faults()
ROUGH = Faults(until_ms=6_000, loss=0.1, slow_ms=60, crashes=0.04, cuts=0.06, snapshots=0.05)
CHANGING = Faults(
    until_ms=8_000, loss=0.05, slow_ms=40, crashes=0.03, cuts=0.03, changes=0.1, snapshots=0.05
)


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
def test_calm_quorum_elects_one_leader_and_commits(voters: int) -> None:
    quorum = simulate(1, voters, 1, CALM)
    assert len(quorum.leaders) <= 2
    assert len(quorum.committed) > 50


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_committed_records_outlive_losses_cuts_and_crashes(voters: int, seed: int) -> None:
    simulate(seed, voters, 1, ROUGH)


@pytest.mark.parametrize("voters", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_committed_records_outlive_changes_of_the_voters(voters: int, seed: int) -> None:
    simulate(100 + seed, voters, 3, CHANGING)
