"""What benchmarks share that compare this code with that of another clone."""

from __future__ import annotations

import argparse
import statistics
import subprocess
from collections.abc import Iterable
from pathlib import Path

from rich.table import Table

from peers import ROOT

Found = dict[tuple[str, str], list[float]]
"""The figures by row and tree, `before` or `after`."""


def parser(description: str, rounds: int) -> argparse.ArgumentParser:
    """Return a parser of the trees, the rounds and the rows."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--tree", type=Path, help="the older clone, set up")
    made.add_argument("--after", type=Path, default=ROOT, help="the newer one (default: this)")
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--only", default="", metavar="WORD", help="rows with this in their name")
    return made


def python_of(root: Path) -> str:
    """Return the interpreter of a clone. Raises `SystemExit` if it is not set up."""
    python = root / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"bench: {python} is missing: run `make setup` in {root}")
    return str(python)


def commit_of(root: Path) -> str:
    """Return the commit of a clone."""
    command = ["git", "-C", str(root), "rev-parse", "--short=8", "HEAD"]
    return subprocess.check_output(command, text=True).strip()


def compared(
    title: str, rows: Iterable[tuple[str, str]], found: Found, digits: int, ratio_digits: int
) -> Table:
    """Return a table of medians, and of the ratios of the pairs. `rows`: name and unit of each."""
    table = Table(title=title)
    for column in ("row", "unit", "before", "after", "ratio", "min - max"):
        table.add_column(column)
    for name, unit in rows:
        before, after = found[name, "before"], found[name, "after"]
        ratios = [new / old for old, new in zip(before, after, strict=True)]
        table.add_row(
            name,
            unit,
            f"{statistics.median(before):,.{digits}f}",
            f"{statistics.median(after):,.{digits}f}",
            f"{statistics.median(ratios):.{ratio_digits}f}",
            f"{min(ratios):.{ratio_digits}f} - {max(ratios):.{ratio_digits}f}",
        )
    return table
