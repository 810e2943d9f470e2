"""The broker's process: what its signals do to its sleep."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from odradek.broker.server import BadSettings, Server
from odradek.network.reactor import Reactor


def test_while_it_runs_a_signal_ends_the_sleep_at_once() -> None:
    """Else one that comes between the last look and the sleep waits for the end of the sleep."""
    server = Server({}, host="127.0.0.1", port=0, data_dir=None)
    server.start()
    reactor = server.node.env.network
    assert isinstance(reactor, Reactor)
    woken_by: list[int] = []

    def look() -> None:
        descriptor = signal.set_wakeup_fd(-1)
        woken_by.append(descriptor)
        signal.set_wakeup_fd(descriptor)
        server.request_stop()

    reactor.call_soon(look)
    expected = reactor.wakeup_fd
    server.run(signals=True)
    assert woken_by == [expected]
    assert signal.set_wakeup_fd(-1) == -1, "its descriptors are closed"


@pytest.mark.parametrize("given", [{"num.partitons": "3"}, {"num.partitions": "three"}])
def test_settings_that_cannot_stand_are_told_from_a_start_that_failed(
    given: dict[str, str],
) -> None:
    with pytest.raises(BadSettings, match=r"num\.partitions"):
        Server(given, host="127.0.0.1", port=0, data_dir=None)


def test_the_data_directory_is_that_of_the_settings_where_they_name_one(tmp_path: Path) -> None:
    given = {"log.dirs": f"{tmp_path}/named"}
    server = Server(given, host="127.0.0.1", port=0, data_dir=f"{tmp_path}/other")
    assert server.data_dir == f"{tmp_path}/named"
