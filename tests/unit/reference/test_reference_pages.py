"""The rendered files in the repository are up to date, and are rendered outside of the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.reference.pages import PAGES, REFERENCE, ROOT

WRITTEN_BY_HAND = {"command-line.md"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_what_the_code_renders(path: Path) -> None:
    assert path.read_text() == PAGES[path](), "run: make reference"


def test_every_page_is_rendered_or_written_by_hand() -> None:
    rendered = {path.name for path in PAGES if path.parent == REFERENCE}
    assert {path.name for path in REFERENCE.iterdir()} == rendered | WRITTEN_BY_HAND


def test_the_package_does_not_name_the_pages() -> None:
    sources = (ROOT / "src" / "odradek").rglob("*.py")
    assert [str(path) for path in sources if "docs/reference" in path.read_text()] == []
