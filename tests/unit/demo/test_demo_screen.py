"""The screen of `odradek demo`: flights, delays and micro-batches."""

import io
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from odradek.demo import terminal
from odradek.demo.reference import Delays, Window

DAY_MS = 86_400_000
NOW_MS = 1_357_068_600_000  # 1 January 2013, 14:30 in New York
QUICK = SimpleNamespace(numInputRows=1_234, batchDuration=567)


def queries(progress=QUICK):
    return {"delays": SimpleNamespace(lastProgress=progress, isActive=True)}


def screen(*parts):
    console = Console(file=io.StringIO(), width=140, color_system=None)
    console.print(terminal.draw(*parts))
    return cast("io.StringIO", console.file).getvalue()


def window(hours_ago, carrier):
    return Window(NOW_MS - int(hours_ago * 3_600_000), "JFK", carrier)


def delays(airline, flights, late, departure_delay):
    return Delays(airline, flights, late, departure_delay, 0, 0)


def test_the_screen_has_the_clock_the_counts_and_the_last_micro_batch():
    windows = {window(1, "UA"): delays("United", 7, 0, 0), window(30, "UA"): QUIET}
    head = screen(NOW_MS, 2_000, windows, queries()).splitlines()[0]
    assert "Tue 01 Jan 2013 14:30 in New York" in head
    assert "2,000 flights sent, 10 aggregated" in head
    assert "last micro-batch 1,234 rows in 567 ms" in head


QUIET = delays("United", 3, 3, 900)


def test_airlines_show_their_last_24_hours_busiest_first():
    windows = {
        window(1, "AA"): delays("American", 2, 1, 40),
        window(2, "UA"): delays("United", 3, 0, -3),
        window(23, "UA"): delays("United", 1, 1, 11),
        window(24.5, "UA"): QUIET,
    }
    lines = screen(NOW_MS, 9, windows, queries()).splitlines()
    united, american = (line.split() for line in lines[2:4])
    assert united[:4] == ["United", "4", "25%", "+2.0"]
    assert american[:4] == ["American", "2", "50%", "+20.0"]
    assert [len(bar) for bar in (united[4], american[4])] == [1, 10]


def test_the_screen_has_a_clock_before_the_first_result():
    shown = screen(NOW_MS, 0, {}, queries(None))
    assert "0 flights sent, 0 aggregated" in shown
    assert "micro-batch" not in shown


def test_a_query_that_ended_by_itself_is_an_error():
    terminal.raise_failures(queries())
    ended = SimpleNamespace(isActive=False, exception=lambda: "out of memory")
    with pytest.raises(terminal.QueryFailed, match="query rejected ended: out of memory"):
        terminal.raise_failures({**queries(), "rejected": ended})  # type: ignore[dict-item]
