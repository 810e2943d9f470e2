"""Transcripts: what is said to a state machine and what it does, as a text that people read.

    # A comment stands where it explains something.

    command word key=value
    ----
    what came of it, line by line, up to an empty line

`play` carries out the commands of a file and gives the file with what came of them now. A test
holds that to the file; `pytest tests/transcripts --rewrite` writes it anew, to be read and, if it
is right, committed.
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
