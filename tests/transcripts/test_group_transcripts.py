"""The group coordinator does what its transcripts say (see `transcript` and `group_machine`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from transcripts.group_machine import GroupMachine
from transcripts.transcript import play

TRANSCRIPTS = sorted((Path(__file__).parent / "groups").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_group_plays_its_transcript(path: Path, rewrite: bool) -> None:
    played = play(path, GroupMachine().run)
    if rewrite:
        path.write_text(played, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == played


def test_there_are_at_least_ten_transcripts_of_groups() -> None:
    assert len(TRANSCRIPTS) >= 10
