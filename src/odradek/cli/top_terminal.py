"""The terminal of `odradek top`: keys in, lines out, and as it was before when it ends.

The package rich, which other commands use for tables, draws on the alternate screen; it reads no
keys, so `termios` does. The terminal is restored in any case: after a quit, Ctrl-C, SIGTERM, an
error.
"""

from __future__ import annotations

import codecs
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType

from rich.console import Console, Group
from rich.control import Control
from rich.screen import Screen
from rich.text import Text

from odradek.cli.top_screen import (
    BACKSPACE,
    DOWN,
    ENTER,
    ESCAPE,
    PAGE_DOWN,
    PAGE_UP,
    UP,
    Line,
)

STYLES = {"plain": "", "head": "reverse", "bold": "bold", "warning": "bold red", "dim": "dim"}
SEQUENCES = {
    "\x1b[A": UP,
    "\x1bOA": UP,
    "\x1b[B": DOWN,
    "\x1bOB": DOWN,
    "\x1b[5~": PAGE_UP,
    "\x1b[6~": PAGE_DOWN,
}
SINGLE = {"\r": ENTER, "\n": ENTER, "\x1b": ESCAPE, "\x7f": BACKSPACE, "\x08": BACKSPACE}
READ_BYTES = 1024


class KeyReader:
    """Turns the bytes of a terminal into keys."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def keys(self, data: bytes) -> Iterator[str]:
        """Yield the keys of what was read at once: characters, and names of special keys."""
        text = self._decoder.decode(data)
        while text:
            known = next((each for each in SEQUENCES if text.startswith(each)), None)
            if known is not None:
                yield SEQUENCES[known]
                text = text.removeprefix(known)
            elif text.startswith(("\x1b[", "\x1bO")):
                text = after_sequence(text)
            else:
                yield SINGLE.get(text[0], text[0])
                text = text[1:]


def after_sequence(text: str) -> str:
    """Return what follows an unknown escape sequence, which ends with its first letter or `~`."""
    for position, each in enumerate(text[2:], 3):
        if each.isalpha() or each == "~":
            return text[position:]
    return ""


class Terminal:
    """An open terminal; see `open_terminal`."""

    def __init__(self, console: Console, wake_fd: int) -> None:
        self._console = console
        self._wake_fd = wake_fd
        self._keys = KeyReader()
        self._input = sys.stdin.fileno()

    @property
    def size(self) -> tuple[int, int]:
        """The width and height in cells, now."""
        size = self._console.size
        return size.width, size.height

    def draw(self, lines: Sequence[Line]) -> None:
        """Replace the contents of the screen."""
        texts = [Text(line.text, STYLES[line.style], no_wrap=True) for line in lines]
        self._console.print(Control.home(), Screen(Group(*texts)), sep="", end="")

    def wait(self, timeout_s: float) -> list[str] | None:
        """Return the keys pressed until then, a wake-up, or a new size of the terminal; None if
        the terminal is gone."""
        ready, _, _ = select.select([self._input, self._wake_fd], [], [], timeout_s)
        if self._wake_fd in ready:
            os.read(self._wake_fd, READ_BYTES)
        if self._input not in ready:
            return []
        try:
            data = os.read(self._input, READ_BYTES)
        except OSError:
            return None
        return list(self._keys.keys(data)) if data else None


@contextmanager
def open_terminal(wake_read: int, wake_write: int) -> Iterator[Terminal]:
    """Show the alternate screen and read keys one by one. A byte in the pipe ends a `wait`."""

    def resized(number: int, frame: FrameType | None) -> None:
        os.write(wake_write, b"r")

    console = Console()
    with ExitStack() as stack:
        before = signal.signal(signal.SIGWINCH, resized)
        stack.callback(signal.signal, signal.SIGWINCH, before or signal.SIG_DFL)
        stack.enter_context(key_by_key(sys.stdin.fileno()))
        stack.enter_context(console.screen())
        yield Terminal(console, wake_read)


@contextmanager
def key_by_key(descriptor: int) -> Iterator[None]:
    """Read keys without waiting for Enter and without an echo. Ctrl-C works, Ctrl-Z does not: the
    shell would get a terminal in this mode."""
    saved = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        changed = termios.tcgetattr(descriptor)
        changed[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(descriptor, termios.TCSANOW, changed)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, saved)
