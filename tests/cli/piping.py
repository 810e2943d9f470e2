"""Commands called in this process, with their standard input and output."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import CliRunner, Result

from odradek.cli.main import main

Run = Callable[..., Result]


def runner(bootstrap: str) -> Run:
    """Return a function that calls a command with `stdin` and checks its exit code."""

    def call(*arguments: str, stdin: bytes = b"", code: int = 0) -> Result:
        done = CliRunner().invoke(main, [*arguments, "-b", bootstrap], input=stdin)
        assert done.exit_code == code, (done.output, done.exception)
        return done

    return call


def read(run: Run, *arguments: str) -> bytes:
    """Return the output of `consume` up to the end of the topics."""
    return run("consume", *arguments, "-e").stdout_bytes


def lines(result: Result) -> list[list[str]]:
    """Return the rows of a list, as written to a pipe."""
    return [line.split("\t") for line in result.stdout.splitlines()]
