"""Commands called in this process, with what is piped into them, and what comes out."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import CliRunner, Result

from odradek.cli.main import main

Run = Callable[..., Result]


def runner(bootstrap: str) -> Run:
    """Calls a command; `stdin` is what is piped in, `code` the exit code it is to have."""

    def call(*arguments: str, stdin: bytes = b"", code: int = 0) -> Result:
        done = CliRunner().invoke(main, [*arguments, "-b", bootstrap], input=stdin)
        assert done.exit_code == code, (done.output, done.exception)
        return done

    return call


def read(run: Run, *arguments: str) -> bytes:
    """What `consume` writes up to the end of the topics."""
    return run("consume", *arguments, "-e").stdout_bytes


def lines(result: Result) -> list[list[str]]:
    """What a list is in a pipe."""
    return [line.split("\t") for line in result.stdout.splitlines()]
