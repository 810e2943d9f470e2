"""What a test run says of itself, what makes it the same run everywhere, and what it leaves behind.

Property tests draw the same examples each time, and are never failed for being slow: a busy machine
is no counterexample.
"""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import settings

import odradek
from temporary_files import TemporaryFiles, temporary_root

settings.register_profile("odradek", deadline=None, derandomize=True)
settings.register_profile("few", settings.get_profile("odradek"), max_examples=30)
settings.load_profile("odradek")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start what runs in the background so. Tests press Ctrl-C, here and in what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config: pytest.Config) -> str:
    return f"odradek {odradek.__version__}, leaves {odradek.leaves.mode()}"


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return  # A worker of pytest-xdist has the environment of the run.
    files = TemporaryFiles(temporary_root())
    files.use(os.environ)
    config.add_cleanup(files.remove)


def pytest_collection_finish() -> None:
    """Keep the modules and the collected tests, which stay to the end, out of what the garbage
    collector looks at: the tests that wait for a collection are then as fast as they are alone.
    """
    gc.collect()
    gc.freeze()
