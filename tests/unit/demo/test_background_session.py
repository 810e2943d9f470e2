"""The demo's Spark session, which starts and stops beside other work."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from odradek.demo import run


class Session:
    def __init__(self):
        self.stops = 0

    def stop(self):
        self.stops += 1


@pytest.fixture
def workers():
    with ThreadPoolExecutor(2) as workers:
        yield workers


def test_other_work_goes_on_while_the_session_starts(workers, monkeypatch, tmp_path):
    may_start = threading.Event()
    session: Any = Session()

    def start(*arguments, **settings):
        may_start.wait()
        return session

    monkeypatch.setattr(run, "local_session", start)
    started = run.BackgroundSession(workers, tmp_path / "log")
    may_start.set()
    assert started.get() is session


def test_a_session_is_stopped_once(workers, monkeypatch, tmp_path):
    session = Session()
    monkeypatch.setattr(run, "local_session", lambda *arguments, **settings: session)
    started = run.BackgroundSession(workers, tmp_path / "log")
    started.begin_stop()
    started.close()
    started.close()
    assert session.stops == 1


def test_a_session_that_did_not_start_needs_no_stop(workers, monkeypatch, tmp_path):
    def start(*arguments, **settings):
        raise RuntimeError("no Java")

    monkeypatch.setattr(run, "local_session", start)
    started = run.BackgroundSession(workers, tmp_path / "log")
    with pytest.raises(RuntimeError, match="no Java"):
        started.get()
    started.close()
