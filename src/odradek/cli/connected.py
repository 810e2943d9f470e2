"""Clients for commands: connected, closed at the end, with errors said as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from odradek.cli.brokers import Brokers, merged
from odradek.cli.failures import said
from odradek.config.client import AdminConfig

if TYPE_CHECKING:
    from odradek import Admin, Consumer, Producer

API_TIMEOUT_MS = "10000"


@contextmanager
def admin(brokers: Brokers, *, beside_consumer: bool = False) -> Iterator[Admin]:
    """An admin client for one command. It gives up sooner than a program's would. Beside a consumer
    it is not given what only that one may have use for: which of it has none, the consumer tells.
    """
    from odradek import Admin

    settings = merged({"default.api.timeout.ms": API_TIMEOUT_MS}, brokers.settings)
    with said(brokers):
        if beside_consumer:
            settings = {n: value for n, value in settings.items() if AdminConfig.resolve(n, value)}
        with Admin(settings) as client:
            yield client


@contextmanager
def producer(
    brokers: Brokers, flags: Mapping[str, str]
) -> Iterator[Producer[bytes | str, bytes | str]]:
    """A producer for one command; `flags` come before what `-X` says."""
    from odradek import Producer

    given = merged({"max.block.ms": API_TIMEOUT_MS}, brokers.settings, flags)
    with said(brokers), Producer(given) as client:
        yield client


@contextmanager
def consumer(
    brokers: Brokers, defaults: Mapping[str, str], flags: Mapping[str, str]
) -> Iterator[Consumer[bytes, bytes]]:
    """A consumer for one command; `flags` come before what `-X` says, `defaults` after it."""
    from odradek import Consumer

    with said(brokers), Consumer(merged(defaults, brokers.settings, flags)) as client:
        yield client
