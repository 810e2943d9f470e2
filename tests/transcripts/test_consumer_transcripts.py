"""The consumer coordinator replays its transcripts (see `transcript`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from transcripts.consumer_machine import ConsumerMachine
from transcripts.transcript import play

TRANSCRIPTS = sorted((Path(__file__).parent / "consumer").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_replays_as_written(path: Path, rewrite: bool) -> None:
    played = play(path, ConsumerMachine().run)
    if rewrite:
        path.write_text(played, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == played


def test_there_are_at_least_ten_transcripts_of_consumers() -> None:
    assert len(TRANSCRIPTS) >= 10
