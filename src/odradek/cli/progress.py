"""How far a long command is: a line on a terminal's stderr, rewritten; a sentence at the end.

Nothing is shown before a second is over, and nothing but the last sentence where stderr is no
terminal.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

import click

from odradek.cli.output import counted

AFTER_S, EVERY_S = 1.0, 0.25


class Progress:
    """Counts records. `advance` may be called from any one thread."""

    def __init__(self, verb: str, *, quiet: bool = False) -> None:
        self.verb = verb
        self.quiet = quiet
        self.count = 0
        self._begun = time.monotonic()
        self._next = self._begun + AFTER_S
        self._live = not quiet and sys.stderr.isatty()
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def advance(self, count: int = 1) -> None:
        """So many more."""
        self.count += count
        if self._live:
            now = time.monotonic()
            if now >= self._next:
                self._next = now + EVERY_S
                self._shown = True
                click.echo(f"\r\x1b[K{self.line(now)}", err=True, nl=False)

    def line(self, now: float) -> str:
        rate = self.count / max(now - self._begun, 1e-9)
        return f"{self.verb} {counted(self.count, 'record')}, {rate:,.0f} a second"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shown:
            click.echo("\r\x1b[K", err=True, nl=False)
        if self._live and kind is None:
            click.echo(self.line(time.monotonic()), err=True)
