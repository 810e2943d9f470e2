"""Cordons of brokers by `cordoned.log.dirs`, and the reasons why one is not cordoned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import click
import pytest

from odradek.cli.cordon import LOOKS, Cordon, Effect, cordon, cordon_of, uncordon
from odradek.client.admin.results import Cluster, ConfigEntry, LogDirectory, Source
from odradek.client.errors import ApiTimeout, InvalidConfig, KafkaError
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
    source: Source = Source.DEFAULT
    """The source of its setting."""
    interrupt: BaseException | None = None
    """What ends the wait for the effect."""

    def sleep(self, _: float) -> None:
        self.sleeps += 1
        if self.interrupt is not None:
            raise self.interrupt

    def cluster(self) -> Cluster:
        ids = (1, 2) if self.runs else (1,)
        return Cluster("c", 1, tuple(Node(each, "h", 9092, None) for each in ids))

    def describe_config(self, *, broker: int) -> Mapping[str, ConfigEntry]:
        assert broker == 2
        text = "" if self.source is Source.DEFAULT else "*"
        return {name: ConfigEntry(name, text, self.source, False, False) for name in self.settings}

    def set_config(self, changes: Mapping[str, object], *, broker: int) -> None:
        assert broker == 2
        if self.error is not None:
            raise self.error
        self.changes.append(changes)
        self.settings |= {name: str(value or "") for name, value in changes.items()}

    def log_dirs(self, broker: int) -> dict[int, list[LogDirectory]]:
        is_set = self.settings.get(NAME) == "*" and self.sleeps >= self.looks_until_effect
        return {broker: [LogDirectory("/d", 0, 0, {}, is_set or self.static)]}


def cordoned(broker: ScriptedBroker) -> Cordon:
    return cordon(cast("Admin", broker), 2, broker.sleep)


def uncordoned(broker: ScriptedBroker) -> None:
    uncordon(cast("Admin", broker), 2, broker.sleep)


def known(broker: ScriptedBroker) -> Cordon:
    return cordon_of(cast("Admin", broker), 2)


def test_a_broker_is_cordoned_once_its_setting_has_effect_and_what_undoes_it_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = ScriptedBroker(looks_until_effect=2)
    assert known(broker).can_be_made
    assert broker.changes == []
    assert cordoned(broker).effect is Effect.IN_FORCE
    assert (broker.changes, broker.sleeps) == ([{NAME: "*"}], 2)
    assert capsys.readouterr().err == (
        "odradek: broker 2 is cordoned; `odradek cluster uncordon 2` undoes it\n"
    )


def test_one_that_is_cordoned_is_known_to_be() -> None:
    assert known(ScriptedBroker(static=True)) == Cordon(Effect.IN_FORCE)


@pytest.mark.parametrize(
    ("broker", "reason"),
    [
        (ScriptedBroker(runs=False), "it does not run"),
        (ScriptedBroker(settings={}), f"it does not have the setting {NAME}, which is new in"),
    ],
    ids=["stopped", "old"],
)
def test_one_that_cannot_be_cordoned_has_a_reason(broker: ScriptedBroker, reason: str) -> None:
    found = known(broker)
    assert not found.can_be_made
    assert found.sentences(2).startswith(f"odradek: broker 2 is not cordoned: {reason}")


def test_a_cordon_that_is_refused_is_said_in_whole_sentences(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refused = cordoned(ScriptedBroker(error=InvalidConfig("metadata.version is too old.")))
    assert refused.effect is Effect.IMPOSSIBLE
    told = capsys.readouterr().err
    assert "broker 2 is not cordoned: metadata.version is too old" in told
    assert ".." not in told
    assert "uncordon" not in told


def test_a_cordon_whose_request_was_not_answered_in_time_may_be_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    late = cordoned(ScriptedBroker(error=ApiTimeout("no answer within 5 s.")))
    assert late.effect is Effect.UNKNOWN
    assert capsys.readouterr().err == (
        "odradek: it is not known whether broker 2 is cordoned: no answer within 5 s; if it is, "
        "`odradek cluster uncordon 2` undoes it. If not, new partitions may be placed there; those "
        "that are made meanwhile are moved, too\n"
    )


def test_a_setting_without_effect_yet_is_said_to_be_made(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cordoned(ScriptedBroker(looks_until_effect=LOOKS + 1)).effect is Effect.PENDING
    told = capsys.readouterr().err
    assert told.startswith(
        f"odradek: the setting {NAME} of broker 2 is made and will have its effect (it has none "
        "yet); `odradek cluster uncordon 2` undoes it."
    )


def test_an_interrupt_while_the_cordon_has_no_effect_yet_tells_what_undoes_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(KeyboardInterrupt):
        cordoned(ScriptedBroker(looks_until_effect=2, interrupt=KeyboardInterrupt()))
    assert "`odradek cluster uncordon 2` undoes it" in capsys.readouterr().err


def test_a_cordon_is_undone() -> None:
    broker = ScriptedBroker(settings={NAME: "*"})
    uncordoned(broker)
    assert broker.changes == [{NAME: None}]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (Source.STATIC_BROKER, "is set where it is started. What to do: remove it there"),
        (Source.DYNAMIC_DEFAULT_BROKER, "for all brokers of the cluster.*--entity-default"),
        (Source.DYNAMIC_BROKER, "somebody has set .* again"),
        (Source.DEFAULT, "is removed, and will have its effect. What to do: wait"),
    ],
)
def test_a_broker_that_stays_cordoned_is_said_why_by_the_source_of_the_setting(
    source: Source, reason: str
) -> None:
    with pytest.raises(click.ClickException, match=f"broker 2 is still cordoned.*{reason}"):
        uncordoned(ScriptedBroker(static=True, source=source))


def test_a_stopped_broker_is_to_be_started_before_its_cordon_is_undone() -> None:
    broker = ScriptedBroker(runs=False, settings={NAME: "*"})
    with pytest.raises(click.ClickException, match=r"does not run\. What to do: start it"):
        uncordoned(broker)
    assert broker.changes == []
