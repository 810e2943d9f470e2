"""Clients for commands: connected, closed at the end, with errors said as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from odradek.cli.brokers import Brokers
from odradek.cli.failures import said

if TYPE_CHECKING:
    from odradek import Admin, Consumer, Producer

API_TIMEOUT_MS = "10000"


@contextmanager
def admin(brokers: Brokers) -> Iterator[Admin]:
    """An admin client for one command. It gives up sooner than a program's would."""
    from odradek import Admin

    settings = {"default.api.timeout.ms": API_TIMEOUT_MS, **brokers.settings}
    with said(brokers), Admin(settings) as client:
        yield client


@contextmanager
def producer(
    brokers: Brokers, settings: Mapping[str, str]
) -> Iterator[Producer[bytes | str, bytes | str]]:
    """A producer for one command; what `-X` says comes before `settings`."""
    from odradek import Producer

    given = {"max.block.ms": API_TIMEOUT_MS, **settings, **brokers.settings}
    with said(brokers), Producer(given) as client:
        yield client


@contextmanager
def consumer(brokers: Brokers, settings: Mapping[str, str]) -> Iterator[Consumer[bytes, bytes]]:
    """A consumer for one command; what `-X` says comes before `settings`."""
    from odradek import Consumer

    with said(brokers), Consumer({**settings, **brokers.settings}) as client:
        yield client
