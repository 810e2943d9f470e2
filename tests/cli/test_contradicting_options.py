"""Contradicting options are rejected: exit code 2, and nothing is read or written."""

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
def test_a_group_refuses_positions_other_than_start_and_end(run: Run, where: list[str]) -> None:
    """They would wait for ever, or read too much."""
    error = run("consume", "t", "-g", "g", "-n", "1", *where, code=2).stderr
    assert f" {where[0]}" in error.partition("committed offsets and has no end: ")[2]


@pytest.mark.parametrize(
    "options", [["--json"], ["-f", r"%v\n"], ["-K", ":"], ["-D", ";"], ["-F", "-"]]
)
def test_a_value_argument_refuses_options_for_reading_input(run: Run, options: list[str]) -> None:
    error = run("produce", "t", "a value", *options, stdin=b"and input\n", code=2).stderr
    assert f"leave out {options[0]}" in error
    assert read(run, "t") == b""


@pytest.mark.parametrize("options", [["-f", r"%v\n"], ["-K", ":"], ["-D", ";"]])
def test_json_input_refuses_delimiters_and_templates(run: Run, options: list[str]) -> None:
    error = run("produce", "t", "--json", *options, stdin=b'{"value":"a"}\n', code=2).stderr
    assert f"leave out {options[0]}" in error
    assert read(run, "t") == b""


@pytest.mark.parametrize("chosen", ["--json", "--meta-only"])
@pytest.mark.parametrize("options", [["-f", "%v"], ["-f", "raw"], ["-K", ":"], ["-D", ";"]])
def test_two_output_formats_are_refused(run: Run, chosen: str, options: list[str]) -> None:
    """Otherwise one would silently override the other."""
    run("produce", "t", "secret")
    done = run("consume", "t", "-e", chosen, *options, code=2)
    assert f"leave out {options[0]}" in done.stderr
    assert "secret" not in done.stdout


@pytest.mark.parametrize("chosen", ["--json", "--meta-only"])
def test_a_format_with_its_own_null_refuses_another(run: Run, chosen: str) -> None:
    error = run("consume", "t", "-e", chosen, "--null", "nothing", code=2).stderr
    assert "leave out --null" in error
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
def test_two_ends_are_refused(run: Run, where: list[str]) -> None:
    assert "say where to stop once" in run("consume", "t", *where, code=2).stderr
