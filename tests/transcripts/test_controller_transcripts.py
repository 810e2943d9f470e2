"""The active controller does what its transcripts say (see `transcript`, `controller_machine`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from transcripts.controller_machine import ControllerMachine
from transcripts.transcript import play

TRANSCRIPTS = sorted((Path(__file__).parent / "controller").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_controller_plays_its_transcript(path: Path, rewrite: bool) -> None:
    played = play(path, ControllerMachine().run)
    if rewrite:
        path.write_text(played, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == played


def test_there_are_transcripts_of_the_controller() -> None:
    assert len(TRANSCRIPTS) >= 7
