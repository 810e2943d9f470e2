"""The broker's process: signals, settings, data directory."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from odradek.broker.server import BadSettings, Server
from odradek.network.reactor import Reactor


def test_a_signal_ends_the_sleep_of_a_running_server_at_once() -> None:
    """Else a signal just before the sleep would wait for its end."""
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
def test_invalid_settings_raise_bad_settings(
    given: dict[str, str],
) -> None:
    with pytest.raises(BadSettings, match=r"num\.partitions"):
        Server(given, host="127.0.0.1", port=0, data_dir=None)


def test_log_dirs_in_the_settings_is_the_data_directory(tmp_path: Path) -> None:
    given = {"log.dirs": f"{tmp_path}/named"}
    server = Server(given, host="127.0.0.1", port=0, data_dir=f"{tmp_path}/other")
    assert server.data_dir == f"{tmp_path}/named"
