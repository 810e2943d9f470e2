"""Offsets of the Spark source: their JSON, the limit of a micro-batch, and tasks made of ranges."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.topics import TopicPartition
from odradek.spark.offsets import (
    TASK_RECORDS,
    OffsetRange,
    from_json_dict,
    limit_offsets,
    parse_json,
    plan_ranges,
    to_json_dict,
)

A0, A1, A10, B0 = (
    TopicPartition("a", 0),
    TopicPartition("a", 1),
    TopicPartition("a", 10),
    TopicPartition("b", 0),
)

partitions = st.builds(
    TopicPartition, st.sampled_from(["flights", "weather", "a.b"]), st.integers(0, 12)
)
offsets = st.dictionaries(partitions, st.integers(0, 2**62), max_size=8)


def test_json_is_ordered_by_topic_and_number_whatever_the_order_it_was_given():
    expected = '{"a": {"0": 1, "1": 2, "10": 3}, "b": {"0": 4}}'
    assert json.dumps(to_json_dict({B0: 4, A10: 3, A0: 1, A1: 2})) == expected
    assert json.dumps(to_json_dict({A1: 2, A0: 1, A10: 3, B0: 4})) == expected


@given(offsets)
def test_offsets_are_the_same_after_a_way_through_json(given_offsets):
    assert from_json_dict(json.loads(json.dumps(to_json_dict(given_offsets)))) == given_offsets


@pytest.mark.parametrize("text", ["[]", '{"a": 1}', '{"a": {"x": 1}}', '{"a": {"0": "1"}}', "{"])
def test_json_of_another_shape_is_refused_by_name(text):
    with pytest.raises(ValueError, match="startingOffsets"):
        parse_json(text, "startingOffsets")


def test_a_limit_is_shared_in_proportion_to_the_waiting_records():
    start, heads = {A0: 0, A1: 100}, {A0: 900, A1: 400}
    assert limit_offsets(start, heads, 120) == {A0: 90, A1: 130}


def test_a_limit_above_the_waiting_records_has_no_effect():
    assert limit_offsets({A0: 5}, {A0: 10}, 100) == {A0: 10}


def test_limit_lets_every_partition_with_records_advance():
    start, heads = {A0: 0, A1: 0, B0: 7}, {A0: 1_000_000, A1: 1, B0: 7}
    assert limit_offsets(start, heads, 10) == {A0: 9, A1: 1, B0: 7}


@given(offsets, st.integers(1, 1000), st.data())
def test_limited_offsets_lie_between_start_and_heads_and_progress(heads, most, data):
    start = {p: data.draw(st.integers(0, head)) for p, head in heads.items()}
    ends = limit_offsets(start, heads, most)
    assert all(start[p] <= ends[p] <= heads[p] for p in heads)
    assert sum(ends.values()) - sum(start.values()) < most + max(1, len(heads))
    if heads != start:
        assert ends != start


ranges = st.lists(
    st.builds(
        lambda partition, start, length: OffsetRange("t", partition, start, start + length),
        st.integers(0, 50),
        st.integers(0, 1000),
        st.integers(0, 3 * TASK_RECORDS),
    ),
    unique_by=lambda r: r.partition,
    max_size=12,
)


@given(ranges, st.integers(0, 8), st.sampled_from([0, 1000, 70_000]))
def test_each_offset_is_in_exactly_one_task(whole, min_partitions, most):
    groups = plan_ranges(whole, min_partitions=min_partitions, max_records_per_partition=most)
    pieces = sorted((r for group in groups for r in group), key=lambda r: (r.partition, r.start))
    joined: dict[int, list[int]] = {}
    for piece in pieces:
        assert len(piece) > 0
        before = joined.setdefault(piece.partition, [piece.start, piece.start])
        assert before[1] == piece.start
        before[1] = piece.end
    assert joined == {r.partition: [r.start, r.end] for r in whole if len(r)}
    for group in groups:
        assert len({r.partition for r in group}) == len(group)
        assert not most or sum(map(len, group)) <= most


def test_small_ranges_share_a_task_and_large_ones_do_not():
    small = [OffsetRange("t", n, 0, 100) for n in range(8)]
    large = OffsetRange("t", 9, 0, 10 * TASK_RECORDS)
    groups = plan_ranges([*small, large], min_partitions=0, max_records_per_partition=0)
    assert groups == [small, [large]]


def test_min_partitions_splits_and_evens_out():
    whole = [OffsetRange("t", 0, 0, 900), OffsetRange("t", 1, 0, 100)]
    groups = plan_ranges(whole, min_partitions=4, max_records_per_partition=0)
    assert [sum(map(len, group)) for group in groups] == [250, 250, 250, 250]


def test_nothing_to_read_needs_no_task():
    empty = [OffsetRange("t", 0, 5, 5)]
    assert plan_ranges(empty, min_partitions=3, max_records_per_partition=0) == []
