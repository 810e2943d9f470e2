"""The pages of settings name every setting and argument."""

from __future__ import annotations

from odradek.config.broker import BrokerConfig
from odradek.config.client import client_kinds
from odradek.config.topic import TopicConfig
from scripts.reference import client_settings, settings


def test_every_setting_of_a_client_is_on_its_page() -> None:
    page = client_settings.page()
    for kind in client_kinds():
        for name in kind.declared:
            assert f"#### `{name}`" in page


def test_every_argument_of_a_client_is_on_its_page() -> None:
    _, _, section = client_settings.page().partition("## Arguments")
    for kind in client_kinds():
        listed = section.partition(f"- {kind.kind}:")[2].partition("\n- ")[0].partition("\n\n")[0]
        for argument in kind.arguments:
            assert f"`{argument}`" in listed


def test_every_setting_of_a_broker_or_topic_is_on_the_page_and_documented() -> None:
    page = settings.page()
    for setting in (*BrokerConfig.declared.values(), *TopicConfig.declared.values()):
        assert setting.doc.endswith(".")
        assert setting.hidden or f"#### `{setting.name}`" in page
