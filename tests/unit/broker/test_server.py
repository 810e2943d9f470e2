"""The broker's process: signals, settings, data directory."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pytest

from odradek.broker.server import RESOLVERS, BadSettings, Server
from odradek.network import connector
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


def test_a_name_is_resolved_beside_the_owner_thread_and_the_log_s_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name server that does not answer delays no flush: all its threads wait here."""
    threads: list[str] = []
    flushed, failures = threading.Event(), []

    def resolve(host: str, port: int) -> list[connector.Address]:
        threads.append(threading.current_thread().name)
        assert flushed.wait(30)
        raise OSError(f"no name server knows {host}")

    monkeypatch.setattr(connector, "resolve", resolve)
    server = Server({}, host="127.0.0.1", port=0, data_dir=None)
    server.start()
    network, offload = server.node.env.network, server.node.env.offload

    def failed(error: OSError) -> None:
        failures.append(str(error))
        if len(failures) == 2 * RESOLVERS:
            server.request_stop()

    def begin() -> None:
        for number in range(2 * RESOLVERS):
            network.connect(f"node{number}", 9092, lambda transport: None, failed)
        offload.submit(flushed.set, lambda _: None, lambda error: None)

    assert isinstance(network, Reactor)
    network.call_soon(begin)
    server.run()
    assert len(threads) == len(failures) == 2 * RESOLVERS
    assert all(name.startswith("odradek-resolver") for name in threads)
    assert "cannot resolve the name 'node0'" in "".join(failures)
