"""Samples of a cluster become rates, rows and sorted tables."""

from __future__ import annotations

from collections.abc import Mapping

from odradek.cli.top_figures import (
    COLUMNS,
    FIRST_SORT,
    GroupSample,
    Row,
    Sample,
    TopicSample,
    View,
    figures,
    matching_rows,
    sorted_rows,
)
from odradek.client.admin.results import MetricHistogram, WaitingReport, WaitingRequest, WheelLevel


def sample(
    taken_s: float,
    topics: Mapping[str, TopicSample] | None = None,
    groups: Mapping[str, GroupSample] | None = None,
    waiting: Mapping[int, WaitingReport] | None = None,
) -> Sample:
    return Sample(taken_s, 1, topics or {}, groups or {}, waiting)


def report(**given: object) -> WaitingReport:
    empty: dict[str, object] = {
        "operations": (),
        "operations_total": 0,
        "by_kind": {},
        "levels": (),
        "timers": {},
        "transitions": (),
        "transitions_total": 0,
        "segments": (),
        "segments_total": 0,
        "durable_ends": (),
        "durable_ends_total": 0,
    }
    return WaitingReport(**{**empty, **given})  # type: ignore[arg-type]


def topic_row(now: Sample, before: Sample | None) -> Row:
    (row,) = figures(now, before).rows[View.TOPICS]
    return row


def test_rates_are_the_growth_between_two_samples_over_their_distance() -> None:
    before = sample(10.0, {"t": TopicSample(3, 1000, 50_000)})
    now = sample(12.0, {"t": TopicSample(3, 1500, 60_000)})
    assert topic_row(now, before) == ("t", 250.0, 5000.0, 1500, 60_000, 3, 0)
    assert figures(now, before).messages_s == 250.0


def test_the_first_sample_has_no_rates() -> None:
    now = sample(1.0, {"t": TopicSample(1, 5, None)}, {"g": GroupSample("Stable", 1, 3, 2)})
    assert topic_row(now, None)[1:3] == (None, None)
    found = figures(now, None)
    assert found.rows[View.GROUPS] == [("g", 3, None, 1, "Stable")]
    assert found.messages_s is None


def test_a_log_that_shrank_or_a_topic_made_again_has_no_rate() -> None:
    before = sample(0.0, {"t": TopicSample(1, 100, 9_000, "one")})
    shrunk = sample(1.0, {"t": TopicSample(1, 150, 4_000, "one")})
    assert topic_row(shrunk, before)[1:3] == (50.0, None)
    again = sample(1.0, {"t": TopicSample(1, 500, 20_000, "two")})
    assert topic_row(again, before)[1:3] == (None, None)


def test_a_topic_that_is_new_or_gone_changes_no_other() -> None:
    before = sample(0.0, {"gone": TopicSample(1, 9, 9), "t": TopicSample(1, 0, 0)})
    now = sample(1.0, {"new": TopicSample(1, 9, 9), "t": TopicSample(1, 1, 1)})
    rows = {row[0]: row for row in figures(now, before).rows[View.TOPICS]}
    assert rows["t"][1] == 1.0 and rows["new"][1] is None
    assert figures(now, before).messages_s == 1.0


def test_groups_have_the_rate_of_their_commits() -> None:
    before = sample(0.0, groups={"g": GroupSample("Stable", 2, 10, 100)})
    now = sample(2.0, groups={"g": GroupSample("Stable", 2, 30, 180)})
    assert figures(now, before).rows[View.GROUPS] == [("g", 30, 40.0, 2, "Stable")]


def test_requests_that_wait_and_timers_have_rows_for_each_broker() -> None:
    fetch = WaitingRequest("Fetch", None, "10.0.0.9", 1234, ("t-0", "t-1"), 5, 20, None)
    level = WheelLevel(400, 20, ((120, 3), (800, 1)))
    told = report(
        operations=(fetch,), by_kind={"Fetch": 7}, levels=(level,), timers={"Fetch": 3, "join": 1}
    )
    found = figures(sample(0.0, waiting={2: told}), None)
    assert found.rows[View.WAITING] == [("t-0, t-1 +3", "Fetch", "10.0.0.9:1234", 20, None, 2)]
    assert found.rows[View.TIMERS] == [
        ("level 1: 20 buckets of 400 ms", 4, 2, 120, 2),
        ("timers: Fetch", 3, None, None, 2),
        ("timers: join", 1, None, None, 2),
    ]
    assert (found.counts[View.WAITING], found.counts[View.TIMERS]) == (7, 4)


def test_rows_are_sorted_with_unknown_values_last_in_both_directions() -> None:
    rows: list[Row] = [
        ("b", None, None, 1, 1, 1),
        ("a", 5.0, None, 1, 1, 1),
        ("c", 9.0, None, 1, 1, 1),
    ]
    most = sorted_rows(rows, View.TOPICS, "messages_s", turned=False)
    assert [row[0] for row in most] == ["c", "a", "b"]
    least = sorted_rows(rows, View.TOPICS, "messages_s", turned=True)
    assert [row[0] for row in least] == ["a", "c", "b"]


def test_equal_rows_are_sorted_by_name_whatever_its_case() -> None:
    rows: list[Row] = [(name, 1.0, None, 1, 1, 1) for name in ("beta", "Alpha", "gamma")]
    by_rate = sorted_rows(rows, View.TOPICS, "messages_s", turned=False)
    assert [row[0] for row in by_rate] == ["Alpha", "beta", "gamma"]
    by_name = sorted_rows(rows, View.TOPICS, "topic", turned=True)
    assert [row[0] for row in by_name] == ["gamma", "beta", "Alpha"]


def test_a_filter_matches_any_text_cell_in_any_case() -> None:
    rows: list[Row] = [
        ("orders-0", "Fetch", "reader", 1, 2, 1),
        ("flights-0", "Produce", "Writer", 1, 2, 1),
    ]
    assert matching_rows(rows, "WRITER") == [rows[1]]
    assert matching_rows(rows, "") == rows
    assert matching_rows(rows, "1") == []


def test_each_view_has_different_keys_and_a_first_order_that_it_has() -> None:
    for view, columns in COLUMNS.items():
        keys = [each.key for each in columns if each.key]
        assert len(set(keys)) == len(keys)
        assert not set(keys) & set("q/jk1234 ")
        assert FIRST_SORT[view] in [each.name for each in columns]


def lag(count: int, *buckets: tuple[float, int]) -> MetricHistogram:
    return MetricHistogram(count, 0.0, buckets)


def test_the_loop_lag_is_a_bound_on_99_of_100_timers_since_the_last_sample() -> None:
    before = Sample(
        0.0, 2, loop_lag={1: lag(1000, (0.001, 0), (0.01, 1000)), 2: lag(0, (0.001, 0))}
    )
    now = Sample(
        1.0,
        2,
        loop_lag={1: lag(1100, (0.001, 99), (0.01, 1100)), 2: lag(10, (0.001, 9), (0.01, 10))},
    )
    assert figures(now, before).loop_lag_s == 0.01
    alone = Sample(1.0, 1, loop_lag={1: now.loop_lag[1]})
    assert figures(alone, before).loop_lag_s == 0.001


def test_the_loop_lag_is_unknown_without_timers_or_an_earlier_sample() -> None:
    now = Sample(1.0, 1, loop_lag={1: lag(5, (0.001, 5))})
    assert figures(now, None).loop_lag_s is None
    assert figures(now, Sample(0.0, 1, loop_lag=now.loop_lag)).loop_lag_s is None
    restarted = Sample(0.0, 1, loop_lag={1: lag(900, (0.001, 0))})
    assert figures(now, restarted).loop_lag_s == 0.001


def test_a_topic_without_the_end_of_a_partition_is_marked_and_has_no_rate() -> None:
    whole = sample(0.0, {"t": TopicSample(3, 900, 9)})
    partly = sample(1.0, {"t": TopicSample(3, 1000, 9, unknown=(2,))})
    assert topic_row(partly, whole) == ("t", None, 0.0, 1000, 9, 3, 1)
    later = sample(2.0, {"t": TopicSample(3, 1500, 9, unknown=(2,))})
    assert topic_row(later, partly)[1] == 500.0, "of the others"
    again = sample(3.0, {"t": TopicSample(3, 2500, 9)})
    assert topic_row(again, later)[1] is None
