"""What the process uses of the machine, read from Linux."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from odradek.network import process_usage
from odradek.network.process_usage import COUNTED_PER_STEP, open_descriptors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux shows it in /proc")


def last(found: list[int | None]) -> int:
    assert found[-1] is not None
    return found[-1]


def test_descriptor_that_is_opened_is_counted() -> None:
    before = last(list(open_descriptors()))
    with open(os.devnull, "rb"):
        assert last(list(open_descriptors())) == before + 1


def test_older_linux_has_descriptors_counted_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2 * COUNTED_PER_STEP + 50):
        (tmp_path / str(number)).touch()
    with monkeypatch.context() as older:
        older.setattr(process_usage, "DESCRIPTORS", str(tmp_path))
        older.setattr(os, "stat", lambda _: SimpleNamespace(st_size=0))
        found = list(open_descriptors())
    assert found == [None, None, 2 * COUNTED_PER_STEP + 49]


def test_descriptors_are_unknown_without_proc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_usage, "DESCRIPTORS", str(tmp_path / "missing"))
    assert list(open_descriptors()) == []
