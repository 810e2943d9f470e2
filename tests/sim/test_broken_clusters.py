"""A cluster with one broken part is found within a few seeds."""

from __future__ import annotations

import pytest

from odradek import leaves
from sim.broken_parts import PARTS, BrokenPart, find

CHEAP = PARTS[:5]
"""The parts of a cluster that a few seeds find: `sim.broken_parts` has all."""


@pytest.mark.skipif(
    leaves.mode() == "compiled",
    reason="a compiled method cannot be replaced: the interpreted run has this",
)
@pytest.mark.parametrize("part", CHEAP, ids=lambda part: part.name)
def test_a_cluster_with_a_broken_part_is_found(part: BrokenPart) -> None:
    found = find(part, most_seeds=10)
    assert found is not None
