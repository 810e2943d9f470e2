"""The send buffer of a worker's connection to Spark."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.spark import worker_socket
from odradek.spark.worker_socket import enlarge_send_buffer


def connected(directory: Path) -> tuple[socket.socket, socket.socket]:
    """Return a connection that a process accepted in this directory, and its other end."""
    path = str(directory / ".sock")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        other = socket.socket(socket.AF_UNIX)
        other.connect(path)
        return listening.accept()[0], other


@pytest.fixture
def sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """The ends of a connection to Spark, and of another one."""
    found: list[socket.socket] = []
    for name in ("spark", "other"):
        (tmp_path / name).mkdir()
        found += connected(tmp_path / name)
    monkeypatch.setattr(worker_socket, "_enlarged", None)
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SOCK_DIR", str(tmp_path / "spark"))
    monkeypatch.setenv("PYTHON_UNIX_DOMAIN_ENABLED", "true")
    yield found
    for each in found:
        each.close()


def sizes(sockets: list[socket.socket]) -> list[int]:
    return [each.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for each in sockets]


def test_only_the_worker_end_of_the_connection_to_spark_is_enlarged(sockets) -> None:
    before = sizes(sockets)
    enlarge_send_buffer()
    after = sizes(sockets)
    assert after[0] > before[0]
    assert after[1:] == before[1:]


def test_nothing_is_changed_where_spark_uses_tcp(sockets, monkeypatch) -> None:
    before = sizes(sockets)
    monkeypatch.setenv("PYTHON_UNIX_DOMAIN_ENABLED", "false")
    enlarge_send_buffer()
    assert sizes(sockets) == before


def test_a_process_looks_at_its_sockets_once(sockets) -> None:
    enlarge_send_buffer()
    sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    before = sizes(sockets)
    enlarge_send_buffer()
    assert sizes(sockets) == before
