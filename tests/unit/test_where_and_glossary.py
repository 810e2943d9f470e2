"""Every module and test that docs/where.md and docs/glossary.md name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHERE = ROOT / "docs" / "where.md"
GLOSSARY = ROOT / "docs" / "glossary.md"
ENTRY = re.compile(r"- \*\*(?P<term>.+?)\*\*: (?P<meaning>.+)\. `(?P<module>odradek[\w.]*)`")


def rows(page: Path) -> list[list[str]]:
    """The rows of the page's tables, without headings."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[0] != "Behaviour" and not row[0].startswith("---")]


def is_module(name: str) -> bool:
    path = ROOT.joinpath("src", *name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def is_test(name: str) -> bool:
    path = ROOT / name
    return name.startswith("tests/") and path.is_file() and path.suffix in (".py", ".txt")


def test_each_behaviour_has_one_module_and_one_test() -> None:
    for row in rows(WHERE):
        assert len(row) == 3, row
        assert re.fullmatch(r"`odradek[\w.]*`", row[1]), row
        assert re.fullmatch(r"`tests/[\w./]*`", row[2]), row


def test_there_are_sixty_behaviours_and_none_twice() -> None:
    behaviours = [row[0] for row in rows(WHERE)]
    assert len(behaviours) >= 60
    assert len(set(behaviours)) == len(behaviours)


@pytest.mark.parametrize("page", [WHERE, GLOSSARY], ids=lambda page: page.name)
def test_every_module_and_test_that_is_named_exists(page: Path) -> None:
    text = page.read_text()
    modules, tests = re.findall(r"`(odradek[\w.]*)`", text), re.findall(r"`(tests/[\w./]*)`", text)
    assert modules
    wrong = [name for name in modules if not is_module(name)]
    wrong += [name for name in tests if not is_test(name) and not (ROOT / name).is_dir()]
    assert wrong == []


def test_the_glossary_has_a_line_for_each_term_in_order() -> None:
    lines = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("- ")]
    entries = [ENTRY.fullmatch(line) for line in lines]
    assert [line for line, entry in zip(lines, entries, strict=True) if entry is None] == []
    terms = [entry["term"].lower() for entry in entries if entry is not None]
    assert terms == sorted(set(terms))
