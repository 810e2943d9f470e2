"""What a topic may be called."""

from __future__ import annotations

import re

MAX_NAME_LENGTH = 249
LEGAL = re.compile(r"[a-zA-Z0-9._-]+")
METADATA_TOPIC = "__cluster_metadata"
CONSUMER_OFFSETS = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, "__transaction_state", "__share_group_state"})


def name_problem(name: str) -> str | None:
    """Why `name` cannot be that of a topic; None if it can."""
    if not name:
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return (
            f"Topic name is invalid: the length of '{name}' is {len(name)}, "
            f"and at most {MAX_NAME_LENGTH} is allowed"
        )
    if LEGAL.fullmatch(name) is None:
        return (
            f"Topic name is invalid: '{name}' contains characters other than "
            "ASCII letters, digits, '.', '_' and '-'"
        )
    return None
