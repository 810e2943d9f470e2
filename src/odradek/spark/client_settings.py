"""Settings of the clients given as options: `kafka.` before any name that a client knows.

    .option("kafka.metadata.max.age.ms", "60000")   .option("kafka.linger.ms", "20")

Those that the table of options has mean something of their own there. The rest goes to the
consumers of a source, or the producers of a sink, and to the admin clients of both; names and
values are checked where the options are read, on the driver. What would break a pipeline is refused
with what to say instead.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from odradek.config.client import ClientSettings
from odradek.config.setting import ConfigError
from odradek.spark.option_table import FIXED, PREFIX, names

log = logging.getLogger(__name__)

Pairs = tuple[tuple[str, str], ...]
"""Kafka's names with values: what can travel, and be compared."""


def client_settings(given: Mapping[str, str], kind: type[ClientSettings]) -> Pairs:
    """The settings among the options, by Kafka's names. Raises `ValueError` naming the option."""
    found: dict[str, str] = {}
    idle: list[str] = []
    for option, value in given.items():
        if not option.startswith(PREFIX) or option in names():
            continue
        try:
            alias = kind.resolve(option.removeprefix(PREFIX), value)
        except ConfigError as error:
            raise ValueError(f"option {option}: {error}") from None
        if alias is None:
            idle.append(option)
        elif alias.name in FIXED:
            raise ValueError(f"option {option} cannot be given: {FIXED[alias.name]}")
        elif PREFIX + alias.name in names():
            raise ValueError(f"option {option} is written {PREFIX}{alias.name} here")
        else:
            found[alias.name] = alias.value(value)
    if idle:
        log.warning("without effect here: %s", ", ".join(sorted(idle)))
    try:
        kind.load(found)
    except ConfigError as error:
        raise ValueError(f"{PREFIX}…: {error}") from None
    return tuple(sorted(found.items()))


def those_of(settings: Pairs, kind: type[ClientSettings]) -> dict[str, str]:
    """Those that another kind of client has too."""
    return {name: value for name, value in settings if name in kind.declared}
