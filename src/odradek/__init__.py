"""Odradek: an event-streaming system that a Python team installs with pip.

A broker that speaks the Kafka wire protocol, clients for it and for any Kafka, and data pipelines
on Apache Spark. See `README.md` for a first session and `ARCHITECTURE.md` for the map of this
package.

    from odradek import Admin, Consumer, Producer      # odradek.aio for asyncio; odradek.errors
    odradek.read("orders", since="1h", decode="json")  # a bounded read as one Arrow table

The clients are imported when they are first asked for: `odradek --help` does without. `leaves` are
the modules that may be compiled; `prometheus` and `opentelemetry` are for users of those libraries.
"""

from __future__ import annotations

import os

if os.name != "posix":
    raise ImportError(
        "Odradek runs on Linux and macOS: it needs their system calls for sockets and files. What "
        "to do: on Windows, install it in WSL, where programs on Windows reach its broker as well"
    )

import importlib
from typing import TYPE_CHECKING, Any

from odradek import leaves
from odradek.model.version import VERSION

if TYPE_CHECKING:
    from odradek import aio as aio
    from odradek import errors as errors
    from odradek.client.admin.results import NewTopic, SeekPlan
    from odradek.client.blocking.admin import Admin
    from odradek.client.blocking.consumer import Consumer
    from odradek.client.blocking.process import process
    from odradek.client.blocking.producer import Producer
    from odradek.client.blocking.read import read
    from odradek.client.consumer.assignor.partition_assignor import PartitionAssignor
    from odradek.client.consumer.batch import Batch, OffsetAndMetadata
    from odradek.client.consumer.record import Record
    from odradek.client.errors import ConfigError, KafkaError
    from odradek.client.interceptors import ConsumerInterceptor, ProducerInterceptor
    from odradek.client.producer.futures import Delivery
    from odradek.client.producer.intercepted_send import ProducerRecord, ProducerRecords
    from odradek.client.serde import Serde
    from odradek.model.topics import TopicPartition
    from odradek.protocol.consumer_protocol import Assignment, Subscription

__all__ = [
    "Admin",
    "Assignment",
    "Batch",
    "ConfigError",
    "Consumer",
    "ConsumerInterceptor",
    "Delivery",
    "KafkaError",
    "NewTopic",
    "OffsetAndMetadata",
    "PartitionAssignor",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerRecords",
    "Record",
    "SeekPlan",
    "Serde",
    "Subscription",
    "TopicPartition",
    "__version__",
    "process",
    "read",
]

__version__ = VERSION

leaves.install()

LAZY = {
    "Admin": "odradek.client.blocking.admin",
    "Assignment": "odradek.protocol.consumer_protocol",
    "Batch": "odradek.client.consumer.batch",
    "ConfigError": "odradek.client.errors",
    "Consumer": "odradek.client.blocking.consumer",
    "ConsumerInterceptor": "odradek.client.interceptors",
    "Delivery": "odradek.client.producer.futures",
    "KafkaError": "odradek.client.errors",
    "NewTopic": "odradek.client.admin.results",
    "OffsetAndMetadata": "odradek.client.consumer.batch",
    "PartitionAssignor": "odradek.client.consumer.assignor.partition_assignor",
    "Producer": "odradek.client.blocking.producer",
    "ProducerInterceptor": "odradek.client.interceptors",
    "ProducerRecord": "odradek.client.producer.intercepted_send",
    "ProducerRecords": "odradek.client.producer.intercepted_send",
    "Record": "odradek.client.consumer.record",
    "SeekPlan": "odradek.client.admin.results",
    "Serde": "odradek.client.serde",
    "Subscription": "odradek.protocol.consumer_protocol",
    "TopicPartition": "odradek.model.topics",
    "process": "odradek.client.blocking.process",
    "read": "odradek.client.blocking.read",
}
"""What is imported at its first use, and from where."""


def __getattr__(name: str) -> Any:
    if name in ("aio", "errors"):
        return importlib.import_module(f"odradek.{name}")
    module = LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'odradek' has no attribute {name!r}")
    found = getattr(importlib.import_module(module), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *LAZY})
