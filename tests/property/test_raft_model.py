"""The quorum keeps Raft's promises whatever is lost, late, cut, crashed or changed."""

from __future__ import annotations

import pytest

from property.raft_model import Faults, simulate

CALM = Faults()
ROUGH = Faults(until_ms=6_000, loss=0.1, slow_ms=60, crashes=0.04, cuts=0.06, snapshots=0.05)
CHANGING = Faults(
    until_ms=8_000, loss=0.05, slow_ms=40, crashes=0.03, cuts=0.03, changes=0.1, snapshots=0.05
)
WIPING = Faults(
    until_ms=12_000, loss=0.05, slow_ms=40, crashes=0.04, cuts=0.03, snapshots=0.03, wipes=0.5
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


@pytest.mark.parametrize("voters", [3, 4, 5])
@pytest.mark.parametrize("seed", range(6))
def test_committed_records_outlive_a_lost_disk_of_a_voter_that_settings_name(
    voters: int, seed: int
) -> None:
    quorum = simulate(200 + seed, voters, 1, WIPING, configured=True)
    assert quorum.wipes > 0


@pytest.mark.parametrize("voters", [1, 2, 3, 5])
def test_calm_quorum_that_settings_name_elects_at_once(voters: int) -> None:
    quorum = simulate(1, voters, 1, CALM, configured=True)
    assert len(quorum.leaders) <= 2
    assert len(quorum.committed) > 50
    assert not any(machine.election.is_new for machine in quorum.machines.values())
