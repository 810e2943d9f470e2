"""What a test run says of itself, and what makes it the same run everywhere.

Property tests draw the same examples each time, and are never failed for being slow: a busy machine
is no counterexample.
"""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

import odradek

settings.register_profile("odradek", deadline=None, derandomize=True)
settings.load_profile("odradek")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start what runs in the background so. Tests press Ctrl-C, here and in what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config: pytest.Config) -> str:
    return f"odradek {odradek.__version__}, leaves {odradek.leaves.mode()}"
