"""A broker, or a cluster, with one broken part of transactions is found, and without it is sound.

`sim.broken_parts` is the table, and the whole search. Each test begins with a seed that is known to
find its part, and goes on with the next ones, for a change of the code may change what happens in a
seed.
"""

from __future__ import annotations

import pytest

from odradek.testing.sim import explain, run_seed, summary
from sim.broken_parts import PATCHES_LEAVES, TRANSACTION_PARTS, BrokenPart, find, nothing

MOST_SEEDS = 25


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, id=part.name, marks=[] if part.patch is nothing else [PATCHES_LEAVES])
        for part in TRANSACTION_PARTS
    ],
)
def test_a_broken_part_of_transactions_is_found(part: BrokenPart) -> None:
    assert find(part, part.seed, MOST_SEEDS) is not None


@pytest.mark.parametrize(
    "part",
    [part for part in TRANSACTION_PARTS if part.patch is not nothing],
    ids=lambda part: part.name,
)
def test_the_world_of_a_broken_part_of_transactions_is_sound_without_it(part: BrokenPart) -> None:
    outcome = run_seed(part.world(part.seed))
    assert outcome.kept, "\n".join([summary(outcome), *explain(outcome)])
