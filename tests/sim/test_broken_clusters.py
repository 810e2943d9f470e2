"""A cluster with one broken part is found: `sim.broken_parts` is the table, and the whole search.

Each test begins with a seed that is known to find its part, and goes on with the next ones, for a
change of the code may change what happens in a seed.
"""

from __future__ import annotations

import pytest

from sim import broken_leaves
from sim.broken_parts import CLUSTER_PARTS, PATCHES_LEAVES, BrokenPart, find

MOST_SEEDS = 25
LEAVES = [part for part in CLUSTER_PARTS if part.patch.__module__ == broken_leaves.__name__]
OTHERS = [part for part in CLUSTER_PARTS if part not in LEAVES]


@pytest.mark.parametrize("part", OTHERS, ids=lambda part: part.name)
def test_a_cluster_with_a_broken_part_is_found(part: BrokenPart) -> None:
    assert find(part, part.seed, MOST_SEEDS) is not None


@PATCHES_LEAVES
@pytest.mark.parametrize("part", LEAVES, ids=lambda part: part.name)
def test_a_cluster_with_a_broken_leaf_is_found(part: BrokenPart) -> None:
    assert find(part, part.seed, MOST_SEEDS) is not None
