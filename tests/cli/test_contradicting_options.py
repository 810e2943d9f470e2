"""What is asked for and cannot be heeded is refused, not passed over: exit code 2, and nothing is
read or written.
"""

from __future__ import annotations

import pytest
from piping import Run


@pytest.mark.parametrize(
    "where",
    [
        ["-o", "-5"],
        ["-o", "+5"],
        ["--tail", "5"],
        ["-o", "7"],
        ["-o", "@-10m"],
        ["--since", "10m"],
        ["-e"],
        ["-p", "0"],
    ],
)
def test_a_group_begins_where_it_was_or_at_an_end_of_the_topic(run: Run, where: list[str]) -> None:
    """`end` for the last five would wait for ever, and `start` for all but five read too much."""
    told = run("consume", "t", "-g", "g", "-n", "1", *where, code=2).stderr
    assert "a group goes on where it was" in told
