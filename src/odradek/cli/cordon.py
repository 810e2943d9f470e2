"""Cordons brokers: one that is cordoned gets no new replicas (`cordoned.log.dirs`, KIP-1066).

The setting is a record of the cluster's metadata, and so is what the broker then tells the
controller, so a cordon stays when the controller changes and when the broker is restarted. Kafka
has it since 4.3.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from odradek.cli.replica_moves import LOOK_EVERY_S, cordoned_among
from odradek.client.errors import KafkaError
from odradek.config.broker import ALL_DIRECTORIES, BrokerConfig

if TYPE_CHECKING:
    from odradek import Admin

NAME = BrokerConfig.cordoned_log_dirs.name
LOOKS = 20
"""How often a broker is asked for the effect of its setting."""


def cordon(client: Admin, broker_id: int, sleep: Callable[[float], None] = time.sleep) -> str:
    """Let a broker get no new replicas. Return why it does get them, or nothing."""
    if not any(node.id == broker_id for node in client.cluster().nodes):
        return "it does not run"
    try:
        if is_cordoned(client, broker_id):
            return ""
        if NAME not in client.describe_config(broker=broker_id):
            return f"it does not have the setting {NAME}, which is new in Kafka 4.3"
        client.set_config({NAME: ALL_DIRECTORIES[0]}, broker=broker_id)
        if not becomes(client, broker_id, True, sleep):
            return f"its setting {NAME} has no effect yet"
    except KafkaError as error:
        return str(error)
    return ""


def uncordon(client: Admin, broker_id: int, sleep: Callable[[float], None] = time.sleep) -> None:
    """Let a broker get new replicas again. Raises `ClickException` if its own properties cordon
    it."""
    client.set_config({NAME: None}, broker=broker_id)
    if not becomes(client, broker_id, False, sleep):
        raise click.ClickException(
            f"broker {broker_id} is still cordoned: {NAME} is set where it is started. What to do: "
            "remove it there (its properties, or --set), then restart the broker"
        )


def becomes(client: Admin, broker_id: int, cordoned: bool, sleep: Callable[[float], None]) -> bool:
    """Wait until a broker is cordoned, or is not; False if that takes too long."""
    for _ in range(LOOKS):
        if is_cordoned(client, broker_id) is cordoned:
            return True
        sleep(LOOK_EVERY_S)
    return False


def is_cordoned(client: Admin, broker_id: int) -> bool:
    """True if a broker says that its data directories take no new partitions."""
    return broker_id in cordoned_among(client.log_dirs(broker_id))
