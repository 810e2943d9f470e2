"""The Spark home: the installed PySpark without the zips that its workers would import from."""

import importlib.util
from pathlib import Path

import pytest

from odradek.spark import home


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A small fake of an installed PySpark, with the cache directory beside it."""
    package = tmp_path / "site-packages" / "pyspark"
    for directory in ("bin", "jars", "python/lib", "python/pyspark"):
        (package / directory).mkdir(parents=True)
    for file in ("__init__.py", "version.py", "bin/spark-submit", "python/lib/pyspark.zip"):
        (package / file).write_text(f"# {file}")
    monkeypatch.setenv("ODRADEK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    spec = importlib.util.spec_from_file_location("pyspark", package / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    return package


def test_the_home_has_all_but_the_zips(installed):
    found = home.spark_home()
    assert found.parent.name == "cache"
    assert (found / "bin" / "spark-submit").read_text() == "# bin/spark-submit"
    assert (found / "jars").resolve() == installed / "jars"
    assert (found / "python" / "pyspark").is_dir()
    assert not (found / "python" / "lib").exists()


def test_the_home_is_made_once_for_each_pyspark(installed):
    first = home.spark_home()
    made = first.stat().st_ino
    assert home.spark_home() == first
    assert first.stat().st_ino == made
    (installed / "version.py").write_text("another version")
    assert home.spark_home() != first
    assert not [path for path in first.parent.iterdir() if path.name.startswith(".draft")]


def test_a_home_made_by_another_process_is_used(installed, tmp_path):
    target = tmp_path / "cache" / "spark-x"
    home.make_home(installed, target)
    (target / "mark").touch()
    home.make_home(installed, target)
    assert (target / "mark").exists()


def test_spark_home_of_the_user_is_kept(installed, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert home.spark_home() == Path("/opt/spark")


def test_a_pyspark_without_zips_is_its_own_home(installed):
    (installed / "python" / "lib" / "pyspark.zip").unlink()
    (installed / "python" / "lib").rmdir()
    assert home.spark_home() == installed
