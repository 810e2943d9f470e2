"""Objects of loaded modules that collections of a worker do not look at."""

import gc
import sys

import pytest

from odradek.spark import frozen_modules
from odradek.spark.frozen_modules import freeze_loaded_modules


@pytest.fixture(autouse=True, scope="module")
def nothing_frozen_before():
    """The test run itself freezes what it has collected: see `tests/conftest.py`."""
    gc.unfreeze()
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def thawed():
    yield
    gc.unfreeze()


def test_nothing_is_frozen_outside_of_workers(monkeypatch):
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    freeze_loaded_modules()
    assert gc.get_freeze_count() == 0


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.setattr(frozen_modules, "_frozen", None)
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    freeze_loaded_modules()
    assert gc.get_freeze_count() > 1000


def test_a_worker_freezes_once(worker):
    gc.unfreeze()
    freeze_loaded_modules()
    assert gc.get_freeze_count() == 0


def test_a_worker_freezes_modules_loaded_since(worker, monkeypatch):
    gc.unfreeze()
    monkeypatch.setitem(sys.modules, "odradek_loaded_since", gc)
    freeze_loaded_modules()
    assert gc.get_freeze_count() > 1000


def test_a_process_that_a_worker_forked_freezes_too(worker, monkeypatch):
    gc.unfreeze()
    monkeypatch.setattr("os.getpid", lambda: -1)
    freeze_loaded_modules()
    assert gc.get_freeze_count() > 1000
