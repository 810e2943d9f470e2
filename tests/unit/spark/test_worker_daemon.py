"""The daemon from which task workers are forked: preloaded modules, and frozen objects."""

import gc
import subprocess
import sys

import pytest

from odradek.spark import worker_daemon
from odradek.spark.worker_daemon import freeze_loaded_modules

LOOK = """
import gc, os, sys
from odradek.spark import worker_daemon
worker_daemon.preload()
assert set(worker_daemon.PRELOADED) <= set(sys.modules)
print(len(os.listdir("/proc/self/task")), gc.get_freeze_count() > 0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_preloaded_modules_start_no_thread_and_are_frozen():
    ran = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["1", "True"], ran.stderr


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
    monkeypatch.setattr(worker_daemon, "_frozen", None)
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
