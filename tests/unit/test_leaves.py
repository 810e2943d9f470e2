"""Leaves are loaded from extension modules only if those were compiled from the same sources."""

from __future__ import annotations

import ast
import importlib
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

import odradek
from odradek import leaves
from scripts.all_tests import NO_LEAVES, ROOT, leaves_packages


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with one compiled leaf whose manifest is up to date."""
    (tmp_path / "leaf.py").write_text("VALUE = 1\n")
    (tmp_path / f"leaf{EXTENSION_SUFFIXES[0]}").touch()
    (tmp_path / "constants.py").write_text("LIMIT: Final = 1\n")
    monkeypatch.setattr(leaves, "PACKAGE", str(tmp_path))
    monkeypatch.setattr(leaves, "MANIFEST", str(tmp_path / "compiled_leaves.json"))
    monkeypatch.setattr(leaves, "LEAVES", ("odradek.leaf",))
    monkeypatch.setattr(leaves, "INLINED", ("odradek.constants",))
    monkeypatch.delenv("ODRADEK_INTERPRETED", raising=False)
    without = [f for f in sys.meta_path if not isinstance(f, leaves.SourceFinder)]
    monkeypatch.setattr(sys, "meta_path", without)
    Path(leaves.MANIFEST).write_text(leaves.manifest())
    return tmp_path


def test_leaves_with_an_up_to_date_manifest_run_compiled(package: Path) -> None:
    leaves.install()
    assert leaves.mode() == "compiled"


def test_leaves_compiled_for_another_platform_run_interpreted(package: Path) -> None:
    extension = package / f"leaf{EXTENSION_SUFFIXES[0]}"
    extension.rename(package / "leaf.cpython-39-s390x-linux-gnu.so")
    leaves.install()
    assert leaves.mode().startswith("interpreted (compiled for another Python or platform")


def test_leaves_with_an_edited_source_run_interpreted(package: Path) -> None:
    (package / "leaf.py").write_text("VALUE = 2\n")
    leaves.install()
    assert leaves.mode().startswith("interpreted (sources changed")
    spec = leaves.SourceFinder().find_spec("odradek.leaf", None)
    assert spec is not None and spec.origin == str(package / "leaf.py")
    assert leaves.SourceFinder().find_spec("odradek.other", None) is None


def test_leaves_with_an_edited_constant_of_another_module_run_interpreted(package: Path) -> None:
    (package / "constants.py").write_text("LIMIT: Final = 2\n")
    leaves.install()
    assert leaves.mode().startswith("interpreted (sources changed")


def test_the_environment_variable_makes_leaves_run_interpreted(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_INTERPRETED", "1")
    leaves.install()
    assert leaves.mode() == "interpreted (ODRADEK_INTERPRETED=1)"
    assert isinstance(sys.meta_path[0], leaves.SourceFinder)


def test_extensions_without_a_manifest_are_not_loaded(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted compilation leaves extensions without a manifest."""
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


def test_every_leaf_has_a_source() -> None:
    assert all(Path(leaves.source_of(leaf)).exists() for leaf in leaves.LEAVES)


def test_every_package_with_leaves_is_also_tested_interpreted() -> None:
    directories = [ROOT / name for name in leaves_packages()]
    assert [directory for directory in directories if not directory.is_dir()] == []
    packages = {leaf.split(".")[1] for leaf in leaves.LEAVES}
    assert {ROOT / "tests" / "unit" / name for name in packages} <= set(directories)
    assert [path for path in NO_LEAVES if not (ROOT / path).exists()] == []


def source_of(module: str) -> ast.Module:
    return ast.parse((ROOT / "src" / f"{module.replace('.', '/')}.py").read_text())


def test_each_module_whose_constants_are_compiled_into_a_leaf_is_listed() -> None:
    """mypyc copies the value of an imported `Final` into the leaf."""
    found = {
        each.module
        for leaf in leaves.LEAVES
        for each in ast.walk(source_of(leaf))
        if isinstance(each, ast.ImportFrom)
        and each.module
        and each.module.startswith("odradek.")
        and each.module not in leaves.LEAVES
        and {name.name for name in each.names} & finals_of(each.module)
    }
    assert found == set(leaves.INLINED)


def finals_of(module: str) -> set[str]:
    """The names that a module declares as `Final`; none of a package."""
    path = Path(leaves.source_of(module))
    return {
        each.target.id
        for each in (ast.parse(path.read_text()).body if path.exists() else ())
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and ast.unparse(each.annotation).startswith("Final")
    }


def test_a_class_of_a_leaf_with_interpreted_subclasses_allows_them() -> None:
    """Interpreted, any class may have subclasses; compiled, such a one raises TypeError."""
    closed = {
        (module, each.name)
        for module in leaves.LEAVES
        for each in source_of(module).body
        if isinstance(each, ast.ClassDef)
        and not any("allow_interpreted_subclasses" in ast.unparse(d) for d in each.decorator_list)
        and not any("Protocol" in ast.unparse(base) for base in each.bases)
    }
    found = []
    for path in sorted((ROOT / "src" / "odradek").rglob("*.py")):
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        if module in leaves.LEAVES:
            continue
        nodes = list(ast.walk(source_of(module) if path.name != "__init__.py" else ast.parse("")))
        imported = {
            name.asname or name.name: (each.module, name.name)
            for each in nodes
            if isinstance(each, ast.ImportFrom) and each.module
            for name in each.names
        }
        for each in nodes:
            if isinstance(each, ast.ClassDef):
                bases = [b.value if isinstance(b, ast.Subscript) else b for b in each.bases]
                found += [
                    f"{module}.{each.name}({base.id})"
                    for base in bases
                    if isinstance(base, ast.Name) and imported.get(base.id) in closed
                ]
    assert found == []
