"""The pages of settings name every setting and argument."""

from __future__ import annotations

from odradek.config.broker import BrokerConfig
from odradek.config.client import client_kinds
from odradek.config.client_metrics import ClientMetricsConfig
from odradek.config.group import GroupConfig
from odradek.config.topic import TopicConfig
from odradek.config.without_effect import SettingsWithoutEffect
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
        if setting.name in SettingsWithoutEffect.declared:
            assert f"| `{setting.name}` |" in page
        else:
            assert setting.hidden or f"#### `{setting.name}`" in page


def test_every_setting_of_groups_and_client_metrics_is_on_the_page() -> None:
    _, _, section = settings.page().partition("## Group")
    for name in (*GroupConfig.declared, *ClientMetricsConfig.declared):
        assert f"| `{name}` |" in section
