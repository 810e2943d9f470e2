"""A whole broker, with threads and sockets, without work."""

from __future__ import annotations

import time
from pathlib import Path

from clients.asking import create, long_poll, produce
from clients.wire import RawConnection
from odradek.network.reactor import Reactor
from odradek.protocol.api.fetch import FetchResponse
from odradek.testing.broker import Broker

WAIT_MS = 3000
EVENTS = 14
"""Allowed wake-ups: the request, its deadline moving down the wheels, its response, and work begun
before. Mostly there are six.
"""


def test_while_a_fetch_waits_the_reactor_sleeps(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker, RawConnection(broker.bootstrap, timeout=60) as wire:
        reactor = broker.node.env.network
        assert isinstance(reactor, Reactor)
        create(wire, ("t", 1))
        assert produce(wire, "t") == 0
        create(wire, ("empty", 1))
        before, began = reactor.wakeups, time.monotonic()
        wire.ask(long_poll("empty", WAIT_MS), 11, FetchResponse)
        passed_s = time.monotonic() - began
        assert passed_s >= WAIT_MS / 1000 - 0.1
        assert reactor.wakeups - before <= EVENTS + passed_s
