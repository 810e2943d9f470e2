"""Objects that collections pass over in Spark's workers, and in no other process."""

import gc

import pytest

from odradek.spark import worker_memory
from odradek.spark.worker_memory import freeze_what_is_loaded


@pytest.fixture(autouse=True)
def thawed():
    yield
    gc.unfreeze()


def test_nothing_is_frozen_outside_of_workers(monkeypatch):
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)
    freeze_what_is_loaded()
    assert gc.get_freeze_count() == 0


def test_a_worker_freezes_once(monkeypatch):
    monkeypatch.setattr(worker_memory, "_frozen_in", None)
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    freeze_what_is_loaded()
    count = gc.get_freeze_count()
    assert count > 1000
    kept = [[] for _ in range(10)]
    freeze_what_is_loaded()
    assert gc.get_freeze_count() <= count
    assert all(gc.is_tracked(each) for each in kept)


def test_a_process_that_a_worker_forked_freezes_too(monkeypatch):
    monkeypatch.setattr(worker_memory, "_frozen_in", -1)
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    freeze_what_is_loaded()
    assert gc.get_freeze_count() > 1000
