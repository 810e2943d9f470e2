"""Typed access to the options Spark hands over: a map of strings with case-insensitive names.

Every refusal names the option and says what would be right; an option that nobody knows is refused
too (`option_table`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from odradek.spark.option_table import refusal

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class OptionReader:
    """Typed access to a string map, with errors that name the option."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = {name.lower(): value for name, value in given.items()}
        refused = refusal(given)
        if refused is not None:
            raise ValueError(refused)

    def text(self, name: str) -> str | None:
        return self.given.get(name.lower())

    def integer(self, name: str, default: int, minimum: int = 0) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            value = int(text)
        except ValueError:
            value = minimum - 1
        if value < minimum:
            raise ValueError(f"{name} must be a whole number of at least {minimum}, not {text!r}")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, not {text!r}")
        return text.lower() == "true"

    def duration_ms(self, name: str, default: int) -> int:
        """Milliseconds from "500", "500ms", "10s", "15m", "24h" or "30d"."""
        text = self.text(name)
        if text is None:
            return default
        found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
        unit = found.group(2) or "ms" if found else ""
        if found is None or unit not in UNITS_MS:
            raise ValueError(
                f"{name} must be a duration such as 500ms, 10s, 15m or 1d, not {text!r}"
            )
        return int(found.group(1)) * UNITS_MS[unit]

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        value = (self.text(name) or default).lower()
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        return value
