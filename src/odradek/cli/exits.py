"""Exit codes, and how a command ends when it cannot write its output or is interrupted.

    the reader closed the pipe (`| head`)   0
    stdout cannot be written                1, with the system's reason
    Ctrl-C, also at a question              130
    SIGTERM                                 143; a group member leaves its group first

`main` puts these handlers around every command, so that no command ends with a traceback. Buffered
output is flushed before the exit code is decided: Python would flush later and report a failure in
its own way. After Ctrl-C and SIGTERM the buffered output is dropped, because a reader that no
longer reads would block the flush.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import click

DONE = 0
FAILED = 1
USAGE = 2
UNREACHABLE = 3
NOT_FOUND = 4
REFUSED = 5
CHECK_FAILED = 6
INTERRUPTED = 130
TERMINATED = 143


@contextmanager
def exit_codes() -> Iterator[None]:
    """Turn interrupts and output errors of a command into exit codes."""
    try:
        with exit_on_sigterm():
            yield
    except (KeyboardInterrupt, click.Abort):
        click.echo("odradek: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except OSError as error:
        sys.exit(output_failed(error))


@contextmanager
def extra_needed(extra: str, what: str) -> Iterator[None]:
    """Turn an import that fails in this block into an error that says which extra `what` needs."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise click.ClickException(
            f"{what} needs {missing.name}: pip install 'odradek[{extra}]'"
        ) from missing


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """End a command at SIGTERM with `SystemExit`, so that its clients are closed."""

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield  # Only the main thread can handle signals.
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@contextmanager
def flushed_output() -> Iterator[None]:
    """Flush the output before the process exits."""
    open_closed_streams()
    try:
        yield
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            drop_output()  # The reader may never read it.
            raise
        try:
            sys.stdout.flush()
        except OSError as error:
            if end.code:
                drop_output()
                raise end from None
            sys.exit(output_failed(error))
        raise
    except OSError as error:
        sys.exit(output_failed(error))


def open_closed_streams() -> None:
    """Open closed standard streams (`>&-`) as /dev/null, or the next socket would get their
    descriptors. stdout is opened read-only, so that the first write fails.
    """
    for name, mode in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, mode)
            setattr(sys, name, os.fdopen(nowhere, "r" if name == "stdin" else "w"))


def output_failed(error: OSError) -> int:
    """Print why the output failed, unless the reader closed the pipe; return the exit code."""
    drop_output()
    if isinstance(error, BrokenPipeError):
        return DONE
    # Errors of files name the file; clients report errors of sockets themselves.
    what = error if error.filename else f"the output cannot be written: {error.strerror or error}"
    click.echo(f"odradek: {what}", err=True)
    return FAILED


def drop_output() -> None:
    """Discard the buffered output, so that Python does not write it at exit."""
    try:
        number = sys.stdout.fileno()
    except ValueError:  # Not a file: a test's.
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, number)
    os.close(nowhere)
