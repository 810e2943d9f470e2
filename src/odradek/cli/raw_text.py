"""Arguments as the bytes they are.

The system gives arguments as bytes, and Python makes text of them; what of it is no UTF-8 stands
there as surrogates. Keys, values and delimiters are bytes to us and go through as they came. Names
are text, and the protocol's text is UTF-8: any other is refused before somebody is asked about it.
"""

from __future__ import annotations

import click


def argument_bytes(text: str) -> bytes:
    """The bytes that were typed."""
    return text.encode("utf-8", "surrogateescape")


def check_utf8(*arguments: str) -> None:
    """Raises `UsageError` for a name that is not UTF-8."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise click.UsageError(
                f"{raw(argument)!r} is not UTF-8: names of topics, groups, headers and settings are"
            ) from None
