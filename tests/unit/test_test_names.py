"""Test modules are imported by their base names, so no two in one run may share one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_no_two_test_modules_have_the_same_name() -> None:
    modules = [path for path in TESTS.rglob("*.py") if path.name not in ("conftest.py",)]
    alone = [path for path in modules if not (path.parent / "__init__.py").exists()]
    names = Counter(path.name for path in alone)
    assert [name for name, count in names.items() if count > 1] == []
