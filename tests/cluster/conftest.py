"""One standalone cluster, one archive of `odradek spark pack` and one broker for all tests here.

These tests have a process of their own (`make sparkcluster`): it may hold one Spark context, and
that of `tests/spark` is local. The hosts of the cluster have a Python without Odradek; all that
executors run comes out of the archive.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.packed import Packed
from cluster.standalone import Cluster, standalone
from odradek.testing.broker import Broker
from temporary_files import use_class_archive

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.cluster)
            # The first one waits for the archive, and so for pip.
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session", autouse=True)
def class_archive() -> None:
    use_class_archive(os.environ)


@pytest.fixture(scope="session")
def scratch() -> Iterator[Path]:
    """A directory for gigabytes: unlike `tmp_path`, it does not stay when a test fails."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@pytest.fixture(scope="session")
def cluster(scratch: Path) -> Iterator[Cluster]:
    directory = scratch / "cluster"
    directory.mkdir()
    with standalone(directory) as running:
        yield running


@pytest.fixture(scope="session")
def packed(scratch: Path) -> Packed:
    directory = scratch / "packed"
    directory.mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "odradek", "spark", "pack"],
        capture_output=True,
        text=True,
        cwd=directory,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return Packed(directory / "environment.tar.gz", ran.stderr)


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory of a driver, which is this process. Its environment variables, which
    a session changes, are set back."""
    before, variables = Path.cwd(), dict(os.environ)
    directory = tmp_path_factory.mktemp("driver")
    os.chdir(directory)
    yield directory
    os.chdir(before)
    os.environ.clear()
    os.environ.update(variables)
