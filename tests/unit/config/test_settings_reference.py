"""The page of settings in the repository is what the table says."""

from __future__ import annotations

from pathlib import Path

from odradek.config import reference
from odradek.config.broker import BrokerConfig
from odradek.config.topic import TopicConfig

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "settings.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == reference.page(), f"run: python -m odradek.config.reference > {PAGE}"


def test_every_setting_is_on_the_page_and_documented() -> None:
    page = reference.page()
    for setting in (*BrokerConfig.declared.values(), *TopicConfig.declared.values()):
        assert setting.doc.endswith(".")
        assert setting.hidden or f"#### `{setting.name}`" in page
