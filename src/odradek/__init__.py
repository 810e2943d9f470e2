"""Odradek: an event-streaming system that a Python team installs with pip.

A broker that speaks the Kafka wire protocol, clients for it and for any Kafka, and data pipelines
on Apache Spark. See `README.md` for a first session and `ARCHITECTURE.md` for the map of this
package.

    from odradek import Admin, Consumer, Producer      # odradek.aio for asyncio; odradek.errors

The clients are imported when they are first asked for: `odradek --help` does without.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from odradek import leaves

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.client.blocking.consumer import Consumer
    from odradek.client.blocking.producer import Producer
    from odradek.client.consumer.batch import Batch
    from odradek.client.consumer.record import Record
    from odradek.client.errors import ConfigError, KafkaError
    from odradek.model.ids import TopicPartition

__all__ = [
    "Admin",
    "Batch",
    "ConfigError",
    "Consumer",
    "KafkaError",
    "Producer",
    "Record",
    "TopicPartition",
    "__version__",
]

__version__ = "0.1.0"

leaves.install()

LAZY = {
    "Admin": "odradek.client.blocking.admin",
    "Batch": "odradek.client.consumer.batch",
    "ConfigError": "odradek.client.errors",
    "Consumer": "odradek.client.blocking.consumer",
    "KafkaError": "odradek.client.errors",
    "Producer": "odradek.client.blocking.producer",
    "Record": "odradek.client.consumer.record",
    "TopicPartition": "odradek.model.ids",
}
"""What is imported at its first use, and from where."""


def __getattr__(name: str) -> Any:
    module = LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'odradek' has no attribute {name!r}")
    found = getattr(importlib.import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
