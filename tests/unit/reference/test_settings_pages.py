"""The pages of settings in the repository are what the tables say."""

from __future__ import annotations

from pathlib import Path

from odradek.config import client_reference, reference
from odradek.config.broker import BrokerConfig
from odradek.config.client import client_kinds
from odradek.config.topic import TopicConfig

PAGES = Path(__file__).parents[3] / "docs" / "reference"
PAGE = PAGES / "settings.md"
CLIENT_PAGE = PAGES / "client-settings.md"


def test_the_page_is_fresh() -> None:
    assert PAGE.read_text() == reference.page(), f"run: python -m odradek.config.reference > {PAGE}"


def test_the_page_of_the_clients_is_fresh() -> None:
    rendered = f"python -m odradek.config.client_reference > {CLIENT_PAGE}"
    assert CLIENT_PAGE.read_text() == client_reference.page(), f"run: {rendered}"


def test_every_setting_of_a_client_is_on_its_page() -> None:
    for kind in client_kinds():
        for name in kind.declared:
            assert f"#### `{name}`" in client_reference.page()


def test_every_argument_of_a_client_is_on_its_page() -> None:
    _, _, section = client_reference.page().partition("## Arguments")
    for kind in client_kinds():
        listed = section.partition(f"- {kind.kind}:")[2].partition("\n- ")[0].partition("\n\n")[0]
        for argument in kind.arguments:
            assert f"`{argument}`" in listed


def test_every_setting_is_on_the_page_and_documented() -> None:
    page = reference.page()
    for setting in (*BrokerConfig.declared.values(), *TopicConfig.declared.values()):
        assert setting.doc.endswith(".")
        assert setting.hidden or f"#### `{setting.name}`" in page
