"""After twenty kills (kill -9) under load every acknowledged record is there, in order, once."""

from __future__ import annotations

from pathlib import Path

from clients.killing import killed_over_and_over

ROUNDS = 20
SEED = 9


def test_every_acknowledged_record_survives_twenty_kills(tmp_path: Path) -> None:
    loads = killed_over_and_over(tmp_path / "data", ROUNDS, SEED)
    assert all(len(load.acked) > ROUNDS for load in loads.values())
