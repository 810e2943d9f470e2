"""The types of the keyword arguments of clients."""

from __future__ import annotations

from typing import Any, get_args, get_origin, get_type_hints

import pytest

from odradek.config.client import AdminConfig, ClientSettings
from odradek.config.consumer import ConsumerConfig
from odradek.config.keywords import AdminKeywords, ConsumerKeywords, ProducerKeywords
from odradek.config.producer import ProducerConfig
from odradek.config.setting import ConfigType


def choices_of(hint: Any) -> list[str]:
    """The strings of a `Literal` type, also within unions."""
    if isinstance(hint, str):
        return [hint]
    return [choice for part in get_args(hint) for choice in choices_of(part)]


def test_choices_are_found_within_unions() -> None:
    assert "zstd" in choices_of(get_type_hints(ProducerKeywords)["compression_type"])


@pytest.mark.parametrize(
    "made",
    [
        ProducerConfig.load({"compression_type": None, "client_id": None}),
        ConsumerConfig.load({"group_id": None, "group_instance_id": None, "group": None}),
    ],
    ids=["producer", "consumer"],
)
def test_a_keyword_with_the_value_none_counts_as_not_given(made: ClientSettings) -> None:
    """None is the default of some keywords of kafka-python and aiokafka."""
    assert made.layers[0].values == {}


@pytest.mark.parametrize(
    ("keywords", "config"),
    [
        (ProducerKeywords, ProducerConfig),
        (ConsumerKeywords, ConsumerConfig),
        (AdminKeywords, AdminConfig),
    ],
)
def test_keywords_have_the_names_and_types_of_the_settings(
    keywords: Any, config: type[ClientSettings]
) -> None:
    hints = get_type_hints(keywords)
    assert set(hints) == {setting.attribute for setting in config.declared.values()}
    numbers = (ConfigType.INT, ConfigType.LONG)
    for setting in config.declared.values():
        hint = hints[setting.attribute]
        if setting.kind is ConfigType.BOOLEAN:
            assert hint is bool
        elif setting.kind in numbers:
            assert hint is int
        else:
            assert hint is str or get_origin(hint) is not None
        for choice in choices_of(hint):
            setting.parse(choice)
