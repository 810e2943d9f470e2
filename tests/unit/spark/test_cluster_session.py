"""The session of each kind of master, and the environment of a driver."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek.cli import exits
from odradek.cli.main import main
from odradek.spark import cluster_session, local_session
from odradek.spark.session import ClusterSetupError, link_environment


def test_a_local_session_refuses_a_cluster() -> None:
    with pytest.raises(ValueError, match=r"use odradek\.spark\.cluster_session"):
        local_session(master="spark://master:7077")


def test_a_session_of_a_cluster_refuses_a_local_master() -> None:
    with pytest.raises(ClusterSetupError, match=r"use odradek\.spark\.local_session"):
        cluster_session("local[2]")


def test_an_archive_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    with pytest.raises(ClusterSetupError, match=r"there is no archive none\.tar\.gz"):
        cluster_session("spark://master:7077", archive="none.tar.gz")


def test_a_driver_gets_a_link_to_its_own_environment(tmp_path: Path) -> None:
    link_environment(tmp_path)
    link_environment(tmp_path)
    assert (tmp_path / "environment").resolve() == Path(sys.prefix).resolve()


def test_an_unpacked_archive_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "environment" / "bin").mkdir(parents=True)
    (tmp_path / "environment" / "bin" / "python").touch()
    link_environment(tmp_path)
    assert not (tmp_path / "environment").is_symlink()


def test_a_directory_that_is_no_environment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "environment").mkdir()
    with pytest.raises(ClusterSetupError, match="should lead to a Python environment"):
        link_environment(tmp_path)


@pytest.mark.parametrize(
    ("master", "said"),
    [
        ("spark://127.0.0.1:1", "nothing listens at spark://127.0.0.1:1"),
        ("sc://127.0.0.1:1/;user_id=u", "nothing listens at sc://127.0.0.1:1/;user_id=u"),
        ("spark://nonsense", "write spark://HOST:PORT"),
        ("local[2]", "is no cluster"),
    ],
)
def test_a_check_without_a_cluster_prints_one_sentence(master: str, said: str) -> None:
    ran = CliRunner().invoke(main, ["spark", "check", "--master", master])
    assert ran.exit_code == exits.CHECK_FAILED
    assert said in ran.stderr
    assert ran.stderr.count("\n") == 1
