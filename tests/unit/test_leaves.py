"""An edit never runs against a stale binary."""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import odradek
from odradek import leaves


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one leaf that was compiled just now."""
    (tmp_path / "leaf.py").write_text("VALUE = 1\n")
    monkeypatch.setattr(leaves, "PACKAGE", str(tmp_path))
    monkeypatch.setattr(leaves, "MANIFEST", str(tmp_path / "compiled_leaves.json"))
    monkeypatch.setattr(leaves, "LEAVES", ("odradek.leaf",))
    monkeypatch.delenv("ODRADEK_INTERPRETED", raising=False)
    without = [f for f in sys.meta_path if not isinstance(f, leaves.SourceFinder)]
    monkeypatch.setattr(sys, "meta_path", without)
    Path(leaves.MANIFEST).write_text(leaves.manifest())
    return tmp_path


def test_what_was_compiled_from_these_sources_is_used(package: Path) -> None:
    leaves.install()
    assert leaves.mode() == "compiled"


def test_an_edited_source_runs_interpreted(package: Path) -> None:
    (package / "leaf.py").write_text("VALUE = 2\n")
    leaves.install()
    assert leaves.mode().startswith("interpreted (sources changed")
    spec = leaves.SourceFinder().find_spec("odradek.leaf", None)
    assert spec is not None and spec.origin == str(package / "leaf.py")
    assert leaves.SourceFinder().find_spec("odradek.other", None) is None


def test_the_sources_can_be_asked_for(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODRADEK_INTERPRETED", "1")
    leaves.install()
    assert leaves.mode() == "interpreted (ODRADEK_INTERPRETED=1)"
    assert isinstance(sys.meta_path[0], leaves.SourceFinder)


def test_extensions_that_nobody_vouches_for_are_not_loaded(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compilation was broken off before it wrote the manifest, or never got to it."""
    Path(leaves.MANIFEST).unlink()
    (package / f"leaf{EXTENSION_SUFFIXES[0]}").write_bytes(b"of some older source")
    monkeypatch.setattr(odradek, "__path__", [str(package)])
    monkeypatch.delitem(sys.modules, "odradek.leaf", raising=False)
    with pytest.raises(ImportError):
        importlib.import_module("odradek.leaf")
    leaves.install()
    assert leaves.mode() == "interpreted (not compiled)"
    assert importlib.import_module("odradek.leaf").VALUE == 1
    monkeypatch.delitem(sys.modules, "odradek.leaf")


def test_every_leaf_exists() -> None:
    assert all(Path(leaves.source_of(leaf)).exists() for leaf in leaves.LEAVES)


def test_every_package_with_leaves_is_tested_interpreted_too() -> None:
    """`scripts/test` names the directories of its last step."""
    script = Path(__file__).parents[2] / "scripts" / "test"
    _, _, interpreted = script.read_text().partition("ODRADEK_INTERPRETED=1")
    packages = {leaf.split(".")[1] for leaf in leaves.LEAVES}
    assert [name for name in sorted(packages) if f"tests/unit/{name}" not in interpreted] == []
