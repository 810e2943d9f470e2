"""The settings of a log are those of its topic."""

from __future__ import annotations

from random import Random

from odradek.broker.partitions import log_config
from odradek.config.broker import BrokerConfig
from odradek.config.topic import TopicConfigs
from odradek.log.log_config import LogConfig


def test_a_topic_without_values_of_its_own_has_the_defaults_of_a_log() -> None:
    broker = BrokerConfig.load({})
    assert log_config(TopicConfigs(broker).of({}), broker, Random(0)) == LogConfig()
