"""The class data archive of Spark: the Java and Spark that it fits, and failures to make it."""

import os
import sys

import pytest

from odradek.spark import class_archive


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a fake Java and a fake Spark, made of files only."""
    for directory in ("java/bin", "spark/jars"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "java" / "bin" / "java").touch()
    monkeypatch.setattr(class_archive, "java_home", lambda: tmp_path / "java")
    monkeypatch.setattr(class_archive, "spark_home", lambda: tmp_path / "spark")
    monkeypatch.setenv("ODRADEK_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_another_java_or_other_jars_have_another_archive(machine):
    first = class_archive.archive_path()
    assert class_archive.archive_path() == first
    os.utime(machine / "java" / "bin" / "java", ns=(1, 1))
    second = class_archive.archive_path()
    os.utime(machine / "spark" / "jars", ns=(1, 1))
    assert len({first, second, class_archive.archive_path()}) == 3


def test_options_name_the_archive_only_where_there_is_one(machine):
    assert class_archive.archive_options() == []
    path = class_archive.archive_path()
    path.parent.mkdir()
    path.touch()
    assert class_archive.archive_options()[0] == f"-XX:SharedArchiveFile={path}"


def python_that(machine, monkeypatch, script):
    """Replace the training run by a shell script; its third argument is the path of the archive."""
    program = machine / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def test_the_archive_is_made_once(machine, monkeypatch):
    python_that(machine, monkeypatch, 'echo classes > "$3"')
    path = class_archive.make_archive()
    assert path.read_text() == "classes\n"
    python_that(machine, monkeypatch, "exit 1")
    assert class_archive.make_archive() == path
    assert list(path.parent.iterdir()) == [path]


def test_only_the_archives_that_were_used_last_stay(machine, monkeypatch):
    python_that(machine, monkeypatch, 'echo classes > "$3"')
    made = []
    for number in range(4):
        os.utime(machine / "spark" / "jars", ns=(number, number))
        made.append(class_archive.make_archive())
        os.utime(made[-1], ns=(number, number))
        if number == 2:
            os.utime(machine / "spark" / "jars", ns=(0, 0))
            assert class_archive.archive_options()[0].endswith(made[0].name)
    assert [path.exists() for path in made] == [True, False, True, True]


def test_a_training_run_without_an_archive_fails_with_its_output(machine, monkeypatch):
    python_that(machine, monkeypatch, "echo no base archive >&2")
    with pytest.raises(class_archive.ArchiveFailed, match="it said: no base archive"):
        class_archive.make_archive()
    assert not class_archive.archive_path().exists()
