"""The daemon that task workers are forked from."""

import subprocess
import sys

import pytest

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
