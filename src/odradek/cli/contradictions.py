"""Options that could not be heeded beside others are refused: whoever gave them counts on them."""

from __future__ import annotations

from collections.abc import Mapping

import click


def refuse(options: Mapping[str, object], reason: str) -> None:
    """Raises `UsageError` if any of `options` was given: its value is not None."""
    idle = [name for name, value in options.items() if value is not None]
    if idle:
        raise click.UsageError(f"{reason}: leave out {', '.join(idle)}")
