"""An unsupported version of PySpark is reported."""

import runpy

import pyspark
import pytest

import odradek.spark
from odradek.spark.source import OdradekSource
from odradek.spark.versions import refusal


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0", "4.3.1.dev0"])
def test_a_supported_version_of_pyspark_is_not_refused(version):
    assert refusal(version) is None


@pytest.mark.parametrize("version", ["4.1.4", "4.4.0", "5.0.0", "unknown"])
def test_another_version_of_pyspark_is_refused_with_the_supported_ones(version):
    assert f"works with PySpark 4.2 and 4.3, and this is PySpark {version}" in refusal(version)  # type: ignore[operator]


def test_the_source_that_spark_finds_refuses_another_version(monkeypatch):
    assert runpy.run_module("pyspark_odradek.__init__")["DefaultSource"] is OdradekSource
    monkeypatch.setattr(pyspark, "__version__", "4.1.4")
    found = runpy.run_module("pyspark_odradek.__init__")["DefaultSource"]
    assert found.name() == "odradek"
    with pytest.raises(RuntimeError, match=r"this is PySpark 4\.1\.4"):
        found(options={})
    with pytest.raises(ImportError, match=r"this is PySpark 4\.1\.4"):
        odradek.spark.register  # noqa: B018
