"""The protocol page says what the broker serves."""

from __future__ import annotations

from pathlib import Path

from odradek.broker.reference import page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "protocol.md"


def test_the_page_is_fresh() -> None:
    """If not: python -m odradek.broker.reference > docs/reference/protocol.md"""
    assert PAGE.read_text() == page()
