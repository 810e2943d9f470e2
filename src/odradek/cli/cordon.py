"""Cordons brokers: one that is cordoned gets no new replicas (`cordoned.log.dirs`, KIP-1066).

The setting is a record of the cluster's metadata, and so is what the broker then tells the
controller, so a cordon stays when the controller changes and when the broker is restarted. Kafka
has it since 4.3.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

import click

from odradek.cli.output import print_stderr
from odradek.cli.replica_moves import LOOK_EVERY_S, cordoned_among
from odradek.client.admin.results import Source
from odradek.client.errors import KafkaError, KafkaTimeout
from odradek.config.broker import ALL_DIRECTORIES, BrokerConfig

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.admin.results import ConfigEntry

NAME = BrokerConfig.cordoned_log_dirs.name
LOOKS = 20
"""How often a broker is asked for the effect of its setting."""


class Effect(Enum):
    """The effect of a cordon."""

    IN_FORCE = auto()
    PENDING = auto()
    """The setting is made; the broker does not say yet that it is cordoned."""
    UNKNOWN = auto()
    """The request for the setting was not answered in time."""
    OPEN = auto()
    """Nobody has cordoned the broker."""
    IMPOSSIBLE = auto()
    """The broker cannot be cordoned."""


@dataclass(frozen=True, slots=True)
class Cordon:
    """A broker's cordon. `reason`: why it is impossible, pending or unknown."""

    effect: Effect
    reason: str = ""

    @property
    def can_be_made(self) -> bool:
        return self.effect is Effect.OPEN

    def sentences(self, broker_id: int) -> str:
        """Say what the cordon does and what undoes it, or why there is none."""
        undone = f"`odradek cluster uncordon {broker_id}` undoes it"
        placed = "those that are made meanwhile are moved, too"
        reason = self.reason.rstrip(".")
        if self.effect is Effect.IN_FORCE:
            return f"odradek: broker {broker_id} is cordoned; {undone}"
        if self.effect is Effect.PENDING:
            return (
                f"odradek: the setting {NAME} of broker {broker_id} is made and will have its "
                f"effect ({reason}); {undone}. Until then new partitions may be placed there; "
                f"{placed}"
            )
        if self.effect is Effect.UNKNOWN:
            return (
                f"odradek: it is not known whether broker {broker_id} is cordoned: {reason}; if it "
                f"is, {undone}. If not, new partitions may be placed there; {placed}"
            )
        return (
            f"odradek: broker {broker_id} is not cordoned: {reason}. New partitions may be placed "
            f"there until it is removed; {placed}"
        )


def cordon_of(client: Admin, broker_id: int) -> Cordon:
    """Return whether a broker is cordoned, or can be."""
    if not is_running(client, broker_id):
        return Cordon(Effect.IMPOSSIBLE, "it does not run")
    try:
        if is_cordoned(client, broker_id):
            return Cordon(Effect.IN_FORCE)
        if NAME not in client.describe_config(broker=broker_id):
            return Cordon(
                Effect.IMPOSSIBLE,
                f"it does not have the setting {NAME}, which is new in Kafka 4.3",
            )
    except KafkaError as error:
        return Cordon(Effect.IMPOSSIBLE, str(error))
    return Cordon(Effect.OPEN)


def cordon(client: Admin, broker_id: int, sleep: Callable[[float], None] = time.sleep) -> Cordon:
    """Let a broker get no new replicas, and say so. What was set before an interrupt is told of,
    too."""
    try:
        client.set_config({NAME: ALL_DIRECTORIES[0]}, broker=broker_id)
    except KafkaTimeout as error:
        made = Cordon(Effect.UNKNOWN, str(error))
    except KafkaError as error:
        made = Cordon(Effect.IMPOSSIBLE, str(error))
    else:
        made = Cordon(Effect.PENDING, "it has none yet")
        try:
            if becomes(client, broker_id, True, sleep):
                made = Cordon(Effect.IN_FORCE)
        except KafkaError as error:
            made = Cordon(Effect.PENDING, str(error))
        except (KeyboardInterrupt, SystemExit):
            print_stderr(made.sentences(broker_id))
            raise
    print_stderr(made.sentences(broker_id))
    return made


def uncordon(client: Admin, broker_id: int, sleep: Callable[[float], None] = time.sleep) -> None:
    """Let a broker get new replicas again. Raises `ClickException` if it does not run, or is
    cordoned still."""
    if not is_running(client, broker_id):
        raise click.ClickException(
            f"broker {broker_id} does not run. What to do: start it, then uncordon it"
        )
    client.set_config({NAME: None}, broker=broker_id)
    if not becomes(client, broker_id, False, sleep):
        entry = client.describe_config(broker=broker_id).get(NAME)
        raise click.ClickException(still_cordoned(broker_id, entry))


def still_cordoned(broker_id: int, entry: ConfigEntry | None) -> str:
    """Say why a broker is cordoned whose own setting was removed: by the setting that is in force
    now."""
    text = f"broker {broker_id} is still cordoned: "
    source = entry.source if entry is not None and entry.value else Source.DEFAULT
    if source is Source.STATIC_BROKER:
        return (
            f"{text}{NAME} is set where it is started. What to do: remove it there (its "
            "properties, or --set), then restart the broker"
        )
    if source is Source.DYNAMIC_DEFAULT_BROKER:
        return (
            f"{text}{NAME} is set for all brokers of the cluster. What to do: delete that default "
            "(kafka-configs.sh --entity-type brokers --entity-default --alter --delete-config "
            f"{NAME})"
        )
    if source is Source.DYNAMIC_BROKER:
        return (
            f"{text}somebody has set {NAME} again. What to do: run odradek cluster uncordon "
            f"{broker_id} again"
        )
    return (
        f"{text}its setting {NAME} is removed, and will have its effect. What to do: wait, and "
        "look with odradek cluster status"
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


def is_running(client: Admin, broker_id: int) -> bool:
    """True if a broker of this id is in the cluster and not fenced."""
    return any(node.id == broker_id for node in client.cluster().nodes)
