"""The workflows of continuous integration: what they run is pinned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
PINNED = re.compile(r"[\w.-]+(/[\w.-]+)+@[0-9a-f]{40}( # v[\d.]+)?")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_each_action_is_pinned_by_a_hash(path: Path) -> None:
    used = re.findall(r"^[\s-]*uses:\s*(.+?)\s*$", path.read_text(), re.MULTILINE)
    assert used
    assert [each for each in used if PINNED.fullmatch(each) is None] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_packages_have_the_version_of_the_constraints(path: Path) -> None:
    constraints = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().split() if "==" in line
    )
    pinned = re.findall(r"pip install ([\w-]+)==([\w.]+)", path.read_text())
    assert {name: version for name, version in pinned if name in constraints} == {
        name: constraints[name] for name, _ in pinned if name in constraints
    }
