"""The output of the demo where standard error is not a terminal."""

from __future__ import annotations

import pytest
from rich.table import Table

from odradek.demo.terminal import console

LONG = "page: " + "/a directory of some length" * 12


@pytest.mark.parametrize("stderr", [False, True])
def test_lines_and_cells_are_not_wrapped_in_a_pipe(
    capsys: pytest.CaptureFixture[str], stderr: bool
) -> None:
    out = console(stderr=stderr)
    out.print(LONG)
    table = Table()
    table.add_column("path")
    table.add_row(LONG)
    out.print(table)
    captured = capsys.readouterr()
    lines = (captured.err if stderr else captured.out).splitlines()
    assert lines[0] == LONG
    assert sum(LONG in line for line in lines) == 2
