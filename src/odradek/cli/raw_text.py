"""Command-line arguments as bytes.

Python decodes arguments to text, with surrogates for bytes that are not UTF-8. Keys, values and
delimiters are sent as the original bytes. Names must be UTF-8, as the protocol requires. This
module is apart from the others because `main` imports it.
"""

from __future__ import annotations

import click


def argument_bytes(text: str) -> bytes:
    """Return the original bytes of an argument."""
    return text.encode("utf-8", "surrogateescape")


def check_utf8(*arguments: str) -> None:
    """Raise `UsageError` for a name that is not UTF-8."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise click.UsageError(
                f"{argument_bytes(argument)!r} is not UTF-8: names of topics, groups, headers and "
                "settings must be"
            ) from None
