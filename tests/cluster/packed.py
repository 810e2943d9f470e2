"""The archive that all executors of these tests run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Packed:
    """What `odradek spark pack` wrote, and said."""

    archive: Path
    said: str
