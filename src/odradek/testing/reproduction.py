"""The command that runs a world again, which the explanation of a failed run ends with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def as_drawn(plan: T) -> T:
    """Return a plan that no test changes."""
    return plan


def reproduction(options: str, changed: Sequence[str]) -> str:
    """Return the command of `testing.sim` with these options, or why it makes another world.

    `changed`: the arguments of the world with which a test has changed it.
    """
    command = f"python -m odradek.testing.sim {options}"
    if not changed:
        return command
    return (
        f"no command makes this world, only its test, which changes {', '.join(changed)} of the "
        f"world of: {command}"
    )
