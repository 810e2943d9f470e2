"""The core of the quorum does what its transcripts say (see `transcript`, `quorum_machine`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from transcripts.quorum_machine import QuorumMachine
from transcripts.transcript import play

TRANSCRIPTS = sorted((Path(__file__).parent / "quorum").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path, rewrite: bool) -> None:
    played = play(path, QuorumMachine().run)
    if rewrite:
        path.write_text(played, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == played


def test_there_are_transcripts_of_the_quorum() -> None:
    assert len(TRANSCRIPTS) >= 5
