"""Every message and version that kafka-python has too is encoded to the same bytes."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest

from odradek.protocol.api_keys import MESSAGES
from odradek.protocol.codec import encode_bytes
from odradek.protocol.schema import ArrayOf, StructOf, fields_of
from property.random_messages import random_messages

with warnings.catch_warnings():
    # kafka-python reads its schemas in a deprecated way.
    warnings.simplefilter("ignore", DeprecationWarning)
    MODULES = [
        importlib.import_module(f"kafka.protocol.{name}")
        for name in ("admin", "consumer", "metadata", "producer", "sasl")
    ]
BETWEEN_NODES = {
    "AddRaftVoter",
    "AllocateProducerIds",
    "AlterPartition",
    "BeginQuorumEpoch",
    "BrokerHeartbeat",
    "BrokerRegistration",
    "EndQuorumEpoch",
    "Envelope",
    "FetchSnapshot",
    "RemoveRaftVoter",
    "UnregisterBroker",
    "UpdateRaftVoter",
    "Vote",
}
"""Requests that only nodes send, or tools of the cluster: compared with Kafka's own bytes."""
NOT_THEIRS = {"DescribeWaiting", "DescribeMetrics"} | BETWEEN_NODES
"""Odradek's own, and those between nodes."""
NAMES = {"enable_2pc": "enable2_pc"}
# kafka-python has sets under another name: only their defaults are compared.
BITFIELDS = (
    "topic_authorized_operations",
    "cluster_authorized_operations",
    "authorized_operations",
)


OWN_FIELDS = ("durable_end",)
"""Tagged fields that only Odradek's brokers send each other."""


def theirs(name: str) -> Any:
    """Return kafka-python's class of a message, or None."""
    for module in MODULES:
        if hasattr(module, name):
            return getattr(module, name)
    return None


SHARED = [
    pytest.param(ours, theirs(ours.__name__), version, id=f"{ours.__name__}-v{version}")
    for api in MESSAGES.values()
    for ours in (api.request, api.response)
    if theirs(ours.__name__) is not None
    for version in range(api.versions[0], api.versions[1] + 1)
    if version <= theirs(ours.__name__).max_version
]


def converted(message: Any, container: Any, version: int) -> Any:
    """Return a message as kafka-python's object, without tagged fields at their defaults."""
    given: dict[str, Any] = {}
    for item in fields_of(type(message)):
        value = getattr(message, item.name)
        if not item.present(version) or (item.tag is not None and value == item.default):
            continue
        if item.name in (*BITFIELDS, *OWN_FIELDS):
            setattr(message, item.name, item.default)
            continue
        name = NAMES.get(item.name, item.name)
        kind = item.type.element if isinstance(item.type, ArrayOf) else item.type
        if isinstance(kind, StructOf) and value is not None:
            inner = container._struct.fields[name].data_class
            if isinstance(item.type, ArrayOf):
                value = [converted(element, inner, version) for element in value]
            else:
                value = converted(value, inner, version)
        given[name] = value
    return container(version=version, **given)


def test_kafka_python_has_all_of_our_messages() -> None:
    missing = {api.name for api in MESSAGES.values() if theirs(api.request.__name__) is None}
    assert missing == NOT_THEIRS


@pytest.mark.parametrize(("ours", "container", "version"), SHARED)
def test_a_message_has_the_bytes_of_kafka_python(
    ours: type[Any], container: Any, version: int
) -> None:
    for _, message in random_messages(ours, version, 12):
        their_message = converted(message, container, version)
        assert encode_bytes(message, version) == bytes(their_message.encode(version=version))
