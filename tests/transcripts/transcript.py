"""Transcripts: the commands to a state machine and their effects, as readable text.

    # A comment

    command word key=value
    ----
    the effects of the command, one a line, up to an empty line

`play` runs the commands of a file and returns the file with their present effects. A test compares
that with the file. `pytest tests/transcripts --rewrite` writes it, to be read and committed if it
is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

RULE = "----"


def play(path: Path, run: Callable[[str], Sequence[str]]) -> str:
    """The transcript with the present effects of its commands. `run` runs one of them."""
    return "".join(f"{line}\n" for line in played(path.read_text(encoding="utf-8"), run))


def played(text: str, run: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """Keep comments and empty lines; replace the effects of commands."""
    in_effects = False
    for line in text.splitlines():
        if not line:
            in_effects = False
            yield line
        elif in_effects or line == RULE:
            in_effects = True
        else:
            yield line
            if not line.startswith("#"):
                yield RULE
                yield from run(line)


def arguments(line: str) -> tuple[str, list[str], dict[str, str]]:
    """The parts of a command: its name, its words, and its `key=value` arguments."""
    command, *rest = line.split()
    words = [word for word in rest if "=" not in word]
    values = dict(word.split("=", 1) for word in rest if "=" in word)
    return command, words, values
