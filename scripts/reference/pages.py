"""The files that are rendered from the code, and the function that renders each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scripts.reference import (
    client_metrics,
    client_settings,
    code_index,
    keywords,
    metrics,
    protocol,
    python_api,
    settings,
    spark_options,
)

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"

PAGES: dict[Path, Callable[[], str]] = {
    REFERENCE / "settings.md": settings.page,
    REFERENCE / "client-settings.md": client_settings.page,
    REFERENCE / "client-metrics.md": client_metrics.page,
    REFERENCE / "code-index.md": code_index.page,
    REFERENCE / "protocol.md": protocol.page,
    REFERENCE / "metrics.md": metrics.page,
    REFERENCE / "python-api.md": python_api.page,
    REFERENCE / "spark-options.md": spark_options.page,
    ROOT / "src" / "odradek" / "config" / "keywords.py": keywords.page,
}
