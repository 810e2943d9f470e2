"""The screen of `odradek top`: what keys change, and the lines for a size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from odradek.cli.top_figures import Figures, GroupSample, Sample, TopicSample, View, figures
from odradek.cli.top_screen import (
    BACKSPACE,
    DOWN,
    ENTER,
    ESCAPE,
    PAGE_DOWN,
    UP,
    Line,
    ScreenState,
    clean,
    press,
    screen_lines,
    short_number,
)


def found(topics: int = 3) -> Figures:
    before = Sample(0.0, 1, {f"topic-{n}": TopicSample(1, 0, 0) for n in range(topics)})
    now = Sample(
        1.0,
        1,
        {f"topic-{n}": TopicSample(1, n * 10, n * 2000) for n in range(topics)},
        {"readers": GroupSample("Stable", 2, 1234567, 5)},
    )
    return figures(now, before)


def pressed(*keys: str, state: ScreenState | None = None) -> ScreenState:
    state = state or ScreenState()
    for key in keys:
        state = press(state, key, page=10)
    return state


def shown(state: ScreenState, width: int = 80, height: int = 24, problem: str = "") -> list[str]:
    lines = screen_lines(state, found(), width, height, title="localhost:9092", problem=problem)
    return [line.text for line in lines]


def rows_of(texts: list[str]) -> list[str]:
    """The names of the rows."""
    return [text.split()[0] for text in texts[4:-2] if text]


# -- keys ------------------------------------------------------------------------------------------


def test_numbers_and_tab_choose_the_view() -> None:
    assert pressed("2").view is View.GROUPS
    assert pressed("\t", "\t").view is View.WAITING
    assert pressed("4", "\t").view is View.TOPICS


def test_a_letter_sorts_and_the_same_letter_turns_the_order() -> None:
    assert rows_of(shown(pressed())) == ["topic-2", "topic-1", "topic-0"]
    assert rows_of(shown(pressed("n"))) == ["topic-0", "topic-1", "topic-2"]
    assert rows_of(shown(pressed("n", "n"))) == ["topic-2", "topic-1", "topic-0"]
    assert rows_of(shown(pressed("m"))) == ["topic-0", "topic-1", "topic-2"]


def test_each_view_keeps_its_order() -> None:
    state = pressed("n", "2", "t", "1")
    assert state.orders[View.TOPICS].column == "topic"
    assert state.orders[View.GROUPS].column == "state"


def test_a_filter_is_typed_kept_and_dropped() -> None:
    typing = pressed("/", *"TOPIC-1")
    assert rows_of(shown(typing)) == ["topic-1"] and "filter: TOPIC-1_" in shown(typing)[-1]
    kept = pressed(ENTER, state=typing)
    assert rows_of(shown(kept)) == ["topic-1"] and not kept.quit
    assert pressed("q", state=kept).quit
    assert rows_of(shown(pressed(ESCAPE, state=kept))) == ["topic-2", "topic-1", "topic-0"]
    assert pressed(BACKSPACE, BACKSPACE, state=typing).filter == "TOPIC"


def test_letters_belong_to_the_filter_while_it_is_typed() -> None:
    state = pressed("/", "q", " ", "2", UP)
    assert (state.filter, state.quit, state.paused, state.view) == (
        "q 2",
        False,
        False,
        View.TOPICS,
    )


def test_a_filter_that_matches_nothing_says_so() -> None:
    assert shown(pressed("/", "x", "y", ENTER))[4] == "none of 3 rows contains 'xy'"


def test_space_pauses_and_goes_on() -> None:
    assert shown(pressed(" "))[0].endswith("PAUSED")
    assert not pressed(" ", " ").paused


def test_scrolling_stops_at_both_ends() -> None:
    many = found(50)
    state = pressed("n", PAGE_DOWN, DOWN, "j", UP)
    lines = screen_lines(state, many, 80, 24, title="t")
    assert lines[4].text.startswith("topic-19 ")
    end = screen_lines(replace(state, scroll=1000), many, 80, 24, title="t")
    assert end[-3].text.startswith("topic-9 ")
    assert pressed(UP, UP).scroll == 0


def test_an_unknown_key_changes_nothing() -> None:
    assert pressed("ü", "X", ENTER) == ScreenState()


# -- lines -----------------------------------------------------------------------------------------


def test_the_topics_at_80_columns() -> None:
    assert shown(ScreenState(), height=10) == [
        "odradek top  localhost:9092",
        "1 TOPICS 3   2 groups 1   3 waiting 0   4 timers 0",
        "1 broker  30.0 messages/s  waiting, timers: Odradek's brokers only",
        "topic                 ▼messages/s    bytes/s            end      size partitions",
        "topic-2                      20.0     3.9 kB             20    3.9 kB          1",
        "topic-1                      10.0     2.0 kB             10    2.0 kB          1",
        "topic-0                       0.0        0 B              0       0 B          1",
        "",
        "sort n:topic m:messages/s b:bytes/s e:end z:size p:partitions",
        "q quit  1-4 view  space pause  arrows scroll  / filter",
    ]


def test_the_groups_at_80_columns() -> None:
    texts = shown(pressed("2"))
    assert texts[3:5] == [
        "group                               ▼lag  messages/s members state",
        "readers                        1,234,567           -       2 Stable",
    ]


@pytest.mark.parametrize("width", [1, 7, 20, 39, 80, 200])
@pytest.mark.parametrize("height", [1, 2, 5, 6, 24, 100])
def test_every_size_is_filled_and_not_exceeded(width: int, height: int) -> None:
    for key in "1234":
        lines = shown(pressed(key), width, height, problem="no answer " * 30)
        assert len(lines) == height
        assert all(cell_len(line) <= width for line in lines)


def test_wide_characters_do_not_shift_the_columns() -> None:
    now = Sample(0.0, 1, {}, {"読者" * 30: GroupSample("Stable", 1, 5, 5)})
    line = screen_lines(pressed("2"), figures(now, None), 80, 24, title="t")[4].text
    assert cell_len(line) <= 80 and line.endswith(" 1 Stable") and "…" in line


def test_names_cannot_move_the_cursor() -> None:
    assert clean("a\x1b[2Jb\nc\x07") == "a·[2Jb·c·"
    now = Sample(0.0, 1, {}, {"\x1b]0;x\x07": GroupSample("\x1b[31m", 1, 5, 5)})
    for line in screen_lines(pressed("2"), figures(now, None), 80, 24, title="t"):
        assert line.text.isprintable()


def test_a_problem_takes_the_place_of_the_totals() -> None:
    lines = screen_lines(
        ScreenState(),
        found(),
        80,
        24,
        title="t",
        problem="no answer for 5 s, these figures are old",
    )
    assert lines[2] == Line("no answer for 5 s, these figures are old", "warning")


def test_other_brokers_are_said_not_to_show_what_waits() -> None:
    assert shown(pressed("3"))[4] == "only Odradek's brokers show what waits in them"


def test_before_the_first_answer_the_screen_says_that_it_waits() -> None:
    lines = screen_lines(ScreenState(), None, 80, 24, title="t")
    assert lines[2].text == "waiting for the first answer"


@pytest.mark.parametrize(
    ("number", "step", "unit", "text"),
    [
        (0, 1024, "B", "0 B"),
        (1023, 1024, "B", "1,023 B"),
        (1536, 1024, "B", "1.5 kB"),
        (99_999, 1000, "", "99,999"),
        (1_234_567, 1000, "", "1.2 M"),
        (5e21, 1000, "", "5,000.0 E"),
    ],
)
def test_large_numbers_are_short(number: float, step: int, unit: str, text: str) -> None:
    assert short_number(number, step, unit) == text


def test_partitions_without_an_end_have_a_column_while_there_are_some() -> None:
    now = Sample(1.0, 3, {"t": TopicSample(3, 20, 200, unknown=(1,))}, silent=(2,))
    lines = [each.text for each in screen_lines(ScreenState(), figures(now, None), 80, 9, title="")]
    assert lines[3].endswith(" partitions  no end") and lines[4].endswith("3       1")
    assert "o:no end" in lines[-2] and "o:no end" not in shown(ScreenState())[-2]
