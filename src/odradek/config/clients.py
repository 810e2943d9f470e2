"""All kinds of clients, and which settings each shares with the others.

A setting that another kind of client has is known to all: a program that gives one mapping to its
producer and its consumer is warned, and works.
"""

from __future__ import annotations

from odradek.config.admin import AdminConfig
from odradek.config.client_loading import ClientSettings
from odradek.config.consumer import ConsumerConfig
from odradek.config.producer import ProducerConfig

__all__ = ["KINDS", "AdminConfig", "ConsumerConfig", "ProducerConfig"]

KINDS: tuple[type[ClientSettings], ...] = (ProducerConfig, ConsumerConfig, AdminConfig)
