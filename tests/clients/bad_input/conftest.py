"""Checks after every bad input: the broker met no bug, serves others, and holds no memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clients.bad_input.memory import MIB, forget_the_peak, peak_bytes
from clients.wire import RawConnection
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse
from odradek.testing.broker import Broker

FRAME_LIMIT = 16 * MIB
PEAK_LIMIT = 4 * FRAME_LIMIT
"""Memory that both sides of a test may use: a frame at both ends and its decompressed form."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory = tmp_path_factory.mktemp("hostile")
    settings = {"socket.request.max.bytes": FRAME_LIMIT}
    with Broker(data_dir=directory, settings=settings) as running:
        yield running


@pytest.fixture(autouse=True)
def others_are_served(
    broker: Broker, record_property: Callable[[str, object], None]
) -> Iterator[None]:
    """After each test another client asks and gets a response.

    The time it took, and the memory, are in the test's report.
    """
    forget_the_peak()
    before = peak_bytes()
    yield
    assert broker.bugs == 0
    began = time.monotonic()
    with RawConnection(broker.bootstrap) as other:
        answer = other.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
    answered_ms, grown = 1000 * (time.monotonic() - began), peak_bytes() - before
    assert [b.node_id for b in answer.brokers] == [1]
    record_property("answered_ms", answered_ms)
    record_property("peak_bytes", grown)
    print(f"others were answered in {answered_ms:.1f} ms, {grown / MIB:.1f} MiB at the peak")
    assert grown < PEAK_LIMIT


@pytest.fixture
def known(broker: Broker) -> Iterator[RawConnection]:
    """A connection that has sent its first request, so that large ones are accepted."""
    with RawConnection(broker.bootstrap, 60) as wire:
        wire.ask(MetadataRequest(topics=[]), 9, MetadataResponse)
        yield wire


@pytest.fixture
def log_files(broker: Broker) -> Callable[[str], bytes]:
    """Return `log_files(topic)`, which returns the bytes of the log of partition 0 on disk."""

    def read(topic: str) -> bytes:
        (directory,) = {
            p.log.directory for key, p in broker.node.replicas.by_name.items() if key[0] == topic
        }
        return b"".join(path.read_bytes() for path in sorted(Path(directory).glob("*.log")))

    return read
