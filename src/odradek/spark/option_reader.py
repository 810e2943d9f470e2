"""Typed access to the options Spark hands over: a map of strings with case-insensitive names.

Every refusal names the option and says what would be right. An unknown `kafka.*` setting is refused
rather than ignored: a security setting that does nothing is worse than an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
KAFKA_SETTINGS = frozenset(
    {
        "kafka.bootstrap.servers",
        "kafka.isolation.level",
        "kafka.compression.type",
        "kafka.batch.size",
        "kafka.request.timeout.ms",
        "kafka.default.api.timeout.ms",
        "kafka.delivery.timeout.ms",
        "kafka.enable.idempotence",
        "kafka.acks",
        "kafka.client.id",
        "kafka.fetch.max.bytes",
        "kafka.max.partition.fetch.bytes",
    }
)


class OptionReader:
    """Typed access to a string map, with errors that name the option."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self.given = {name.lower(): value for name, value in given.items()}
        unknown = sorted(
            n for n in self.given if n.startswith("kafka.") and n not in KAFKA_SETTINGS
        )
        if unknown:
            known = ", ".join(sorted(KAFKA_SETTINGS))
            raise ValueError(f"the odradek source has no option {unknown[0]!r}; it knows {known}")

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
