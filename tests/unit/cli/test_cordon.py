"""Cordons of brokers by `cordoned.log.dirs`, and the reasons why one is not cordoned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import click
import pytest

from odradek.cli.cordon import LOOKS, cordon, uncordon
from odradek.client.admin.results import Cluster, LogDirectory
from odradek.client.errors import InvalidConfig, KafkaError
from odradek.model.node import Node

if TYPE_CHECKING:
    from odradek import Admin

NAME = "cordoned.log.dirs"


@dataclass(slots=True)
class ScriptedBroker:
    """The admin client of a cluster whose broker 2 may be cordoned."""

    runs: bool = True
    settings: dict[str, str] = field(default_factory=lambda: {NAME: ""})
    static: bool = False
    """True if its properties cordon it."""
    looks_until_effect: int = 0
    error: KafkaError | None = None
    changes: list[Mapping[str, object]] = field(default_factory=list)
    sleeps: int = 0

    def sleep(self, _: float) -> None:
        self.sleeps += 1

    def cluster(self) -> Cluster:
        ids = (1, 2) if self.runs else (1,)
        return Cluster("c", 1, tuple(Node(each, "h", 9092, None) for each in ids))

    def describe_config(self, *, broker: int) -> Mapping[str, object]:
        assert broker == 2
        return self.settings

    def set_config(self, changes: Mapping[str, object], *, broker: int) -> None:
        assert broker == 2
        if self.error is not None:
            raise self.error
        self.changes.append(changes)
        self.settings |= {name: str(value or "") for name, value in changes.items()}

    def log_dirs(self, broker: int) -> dict[int, list[LogDirectory]]:
        is_set = self.settings.get(NAME) == "*" and self.sleeps >= self.looks_until_effect
        return {broker: [LogDirectory("/d", 0, 0, {}, is_set or self.static)]}


def outcome(
    act: Callable[[Admin, int, Callable[[float], None]], object], broker: ScriptedBroker
) -> object:
    return act(cast("Admin", broker), 2, broker.sleep)


def test_a_broker_is_cordoned_once_its_setting_has_effect() -> None:
    broker = ScriptedBroker(looks_until_effect=2)
    assert outcome(cordon, broker) == ""
    assert (broker.changes, broker.sleeps) == ([{NAME: "*"}], 2)


def test_one_that_is_cordoned_is_left_alone() -> None:
    broker = ScriptedBroker(static=True)
    assert outcome(cordon, broker) == ""
    assert broker.changes == []


@pytest.mark.parametrize(
    ("broker", "reason"),
    [
        (ScriptedBroker(runs=False), "it does not run"),
        (ScriptedBroker(settings={}), f"it does not have the setting {NAME}, which is new in"),
        (ScriptedBroker(error=InvalidConfig("metadata.version is too old")), "metadata.version is"),
        (ScriptedBroker(looks_until_effect=LOOKS + 1), f"its setting {NAME} has no effect yet"),
    ],
    ids=["stopped", "old", "refused", "slow"],
)
def test_one_that_cannot_be_cordoned_has_a_reason(broker: ScriptedBroker, reason: str) -> None:
    assert str(outcome(cordon, broker)).startswith(reason)


def test_a_cordon_is_undone_unless_it_is_in_the_properties_of_the_broker() -> None:
    broker = ScriptedBroker(settings={NAME: "*"})
    outcome(uncordon, broker)
    assert broker.changes == [{NAME: None}]
    with pytest.raises(click.ClickException, match=r"broker 2 is still cordoned.*remove it there"):
        outcome(uncordon, ScriptedBroker(static=True))
