"""The examples of `odradek.timing` run as documented."""

from __future__ import annotations

import doctest
import runpy
from pathlib import Path

import pytest

import odradek.timing

EXAMPLE = Path(__file__).parents[3] / "examples" / "timer.py"


def test_the_example_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.splitlines() == [
        "20 ms: first",
        "40 ms: second",
        "nothing is pending",
        "rang; the other timer was still pending and is cancelled: True",
    ]


def test_the_examples_in_the_package_docstring_hold() -> None:
    assert doctest.testmod(odradek.timing).failed == 0
