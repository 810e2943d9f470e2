"""A whole broker, with its threads and sockets, while nothing happens to it."""

from __future__ import annotations

import time
from pathlib import Path

from clients.asking import create, long_poll, produce
from clients.wire import Wire
from odradek.network.reactor import Reactor
from odradek.protocol.api.fetch import FetchResponse
from odradek.testing.broker import Broker

WAIT_MS = 3000
EVENTS = 14
"""The request, its deadline as it moves down the wheels, its answer, what was begun before: mostly
six in all.
"""


def test_while_a_fetch_waits_the_reactor_sleeps(tmp_path: Path) -> None:
    """A tick of any length that does harm would be seen: a fetch waits for three seconds."""
    with Broker(data_dir=tmp_path) as broker, Wire(broker.bootstrap, timeout=60) as wire:
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
