"""A real broker in the user's own process: `with Broker() as broker: ...`.

The same broker that `odradek up` runs, on a background thread, on port 0 of the loopback
interface, in memory unless a directory is given. For tests, notebooks and scripts.

    from odradek.testing import Broker

    with Broker() as broker:
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})

One setting differs: a new group starts its first generation at once. `odradek up` (as Kafka) waits
three seconds for more members. So a test's first poll gets its partitions without delay.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from odradek.broker.node import Node
from odradek.broker.server import Server
from odradek.config.http import parse_http
from odradek.config.setting import setting_text
from odradek.model.env import Disk

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
"""Defaults that differ from those of `odradek up`."""


class Broker:
    """Starts when entered, answers before `__enter__` returns, and stops cleanly when left.

    `data_dir` None keeps the log in memory. `settings` are broker settings by Kafka's names;
    `group.initial.rebalance.delay.ms` is 0 unless they set it. `http` is where metrics and health
    checks are served, as in `odradek up --http`, 0 for any free port; None: nowhere. `disk`
    replaces the real disk, to inject failures. Raises `odradek.broker.server.StartFailed` with the
    reason if the broker cannot start.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        data_dir: Path | str | None = None,
        settings: Mapping[str, object] | None = None,
        http: str | int | None = None,
        http_token: str | None = None,
        disk: Disk | None = None,
    ) -> None:
        given = {name: setting_text(value) for name, value in (settings or {}).items()}
        values = {**SETTINGS, **given}
        directory = None if data_dir is None else str(Path(data_dir).absolute())
        self._server = Server(
            values,
            host="127.0.0.1",
            port=port,
            data_dir=directory,
            disk=disk,
            http=None if http is None else parse_http(str(http), http_token),
        )
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    @property
    def bootstrap(self) -> str:
        """`host:port`, for `bootstrap.servers`."""
        return self._server.bootstrap

    @property
    def port(self) -> int:
        return self._server.node.address[1]

    @property
    def http_url(self) -> str:
        """The URL below which HTTP is served, such as `http://127.0.0.1:9404`."""
        if self._server.http is None:
            raise ValueError("this broker serves no HTTP: make it with Broker(http=0)")
        return self._server.http.url

    @property
    def bugs(self) -> int:
        """The number of unexpected exceptions that the broker caught and logged with their
        traceback; 0 unless it has a bug.
        """
        return self._server.bugs

    @property
    def node(self) -> Node:
        """The broker's internals, for tests. Read only: the broker's thread owns them."""
        return self._server.node

    def start(self) -> Self:
        self._server.start()
        self._thread = threading.Thread(target=self._run, name="odradek-broker", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop cleanly: everything appended is on disk. Raises the exception that ended the broker
        early, if there is one.
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            self._server.request_stop()
            thread.join()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _run(self) -> None:
        try:
            self._server.run()
        except BaseException as failure:
            self._failure = failure

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
