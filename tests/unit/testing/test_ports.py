"""Reserved ports: no two processes get the same one before it is released."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.testing import ports
from odradek.testing.ports import HOST, PortReservations

FEW = range(31_990, 31_994)
OTHER_PROCESS = """
import sys
from pathlib import Path
from odradek.testing import ports

ports.PORTS = range(*map(int, sys.argv[2:4]))
reservations = ports.PortReservations(Path(sys.argv[1]))
print(reservations.reserve(1)[0], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def reservations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PortReservations:
    monkeypatch.setattr(ports, "PORTS", FEW)
    monkeypatch.setattr(ports, "is_free", lambda port: True)
    return PortReservations(tmp_path / "ports")


def test_a_port_is_returned_once_until_it_is_released(reservations: PortReservations) -> None:
    first, second = reservations.reserve(2), reservations.reserve(2)
    assert sorted(first + second) == list(FEW)
    reservations.release(first)
    assert sorted(reservations.reserve(2)) == sorted(first)


def test_too_few_free_ports_are_an_error_that_reserves_none(reservations: PortReservations) -> None:
    reservations.reserve(2)
    with pytest.raises(OSError, match="3 free ports are needed, and only 2 of 31990 to 31993"):
        reservations.reserve(3)


def test_a_port_at_which_a_server_listens_is_not_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(ports, "PORTS", range(port, port + 1))
        with pytest.raises(OSError, match="only 0 of"):
            PortReservations(tmp_path / "ports").reserve(1)


def test_processes_with_other_temporary_directories_share_the_ports(tmp_path: Path) -> None:
    code = "from odradek.testing import ports; print(ports._reservations._path)"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == str(ports._reservations._path)


def test_a_port_of_another_process_is_not_returned_before_that_ends(
    reservations: PortReservations, tmp_path: Path
) -> None:
    given = [str(tmp_path / "ports"), str(FEW.start), str(FEW.stop)]
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_PROCESS, *given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        taken = int(other.stdout.readline())
        mine = reservations.reserve(3)
        assert taken not in mine
        with pytest.raises(OSError, match="only 0 of"):
            reservations.reserve(1)
        other.kill()
        other.wait()
    assert reservations.reserve(1) == [taken]
