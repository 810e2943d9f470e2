"""What is asked for and cannot be heeded is refused, not passed over: exit code 2, and nothing is
read or written.
"""

from __future__ import annotations

import pytest

from cli.piping import Run, read


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
    assert f" {where[0]}" in told.partition("committed offsets and has no end: ")[2]


@pytest.mark.parametrize(
    "options", [["--json"], ["-f", r"%v\n"], ["-K", ":"], ["-D", ";"], ["-F", "-"]]
)
def test_a_value_that_is_given_is_not_read_as_well(run: Run, options: list[str]) -> None:
    told = run("produce", "t", "a value", *options, stdin=b"and input\n", code=2).stderr
    assert f"leave out {options[0]}" in told
    assert read(run, "t") == b""


@pytest.mark.parametrize("options", [["-f", r"%v\n"], ["-K", ":"], ["-D", ";"]])
def test_json_that_is_read_has_its_own_keys_and_ends(run: Run, options: list[str]) -> None:
    told = run("produce", "t", "--json", *options, stdin=b'{"value":"a"}\n', code=2).stderr
    assert f"leave out {options[0]}" in told
    assert read(run, "t") == b""


@pytest.mark.parametrize("chosen", ["--json", "--meta-only"])
@pytest.mark.parametrize("options", [["-f", "%v"], ["-f", "raw"], ["-K", ":"], ["-D", ";"]])
def test_records_are_shown_in_one_way(run: Run, chosen: str, options: list[str]) -> None:
    """Who asks for no values must not get them because of what else is there."""
    run("produce", "t", "secret")
    done = run("consume", "t", "-e", chosen, *options, code=2)
    assert f"leave out {options[0]}" in done.stderr
    assert "secret" not in done.stdout


@pytest.mark.parametrize("chosen", ["--json", "--meta-only"])
def test_what_has_its_own_null_takes_no_other(run: Run, chosen: str) -> None:
    told = run("consume", "t", "-e", chosen, "--null", "nothing", code=2).stderr
    assert "leave out --null" in told
    assert read(run, "t", chosen, "-Z") == b""


@pytest.mark.parametrize(
    "where",
    [
        ["-o", "0:1", "--until", "now"],
        ["-o", "0:1", "-o", "e@now"],
        ["-o", "e@now", "-o", "e@0"],
        ["-o", "e@now", "--until", "now"],
    ],
)
def test_reading_stops_at_one_place(run: Run, where: list[str]) -> None:
    assert "say where to stop once" in run("consume", "t", *where, code=2).stderr
