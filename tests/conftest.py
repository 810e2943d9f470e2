"""What a test run says of itself: whether the leaves are compiled."""

from __future__ import annotations

import pytest

import odradek


def pytest_report_header(config: pytest.Config) -> str:
    return f"odradek {odradek.__version__}, leaves {odradek.leaves.mode()}"
