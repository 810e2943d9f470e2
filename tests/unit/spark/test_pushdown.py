"""Filters are narrowed to partitions and offsets, and no matching record is lost."""

import datetime
import operator

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from odradek.model.topics import TopicPartition
from odradek.spark.offsets import OffsetRange
from odradek.spark.pushdown import EPOCH, PushFilters, ReadFilters, bounds

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
U0 = TopicPartition("u", 0)

COMPARISONS = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
}


def filters_on(column, values):
    plain = st.one_of(
        st.builds(
            lambda kind, value: kind((column,), value), st.sampled_from([*COMPARISONS]), values
        ),
        st.builds(lambda chosen: In((column,), chosen), st.lists(values, min_size=1, max_size=3)),
    )
    return st.one_of(plain, plain.map(Not))


def passes(filter_, record):
    if isinstance(filter_, Not):
        return not passes(filter_.child, record)
    actual = record[filter_.attribute[0]]
    if isinstance(filter_, In):
        return actual in filter_.value
    return COMPARISONS[type(filter_)](actual, filter_.value)


any_filters = st.lists(
    st.one_of(
        filters_on("topic", st.sampled_from("stu")),
        filters_on("partition", st.integers(-1, 3)),
        filters_on("offset", st.integers(-2, 12)),
    ),
    max_size=4,
)


@given(any_filters)
def test_every_record_that_matches_is_read(chosen):
    start, end = {T0: 0, T1: 2, T2: 5, U0: 0}, {T0: 10, T1: 10, T2: 5, U0: 3}
    starts, ends = ReadFilters(chosen).by_position(start, end)
    for partition in start:
        for offset in range(start[partition], end[partition]):
            record = {
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": offset,
            }
            if all(passes(each, record) for each in chosen):
                assert starts[partition] <= offset < ends[partition]


def narrowed(*filters):
    starts, ends = ReadFilters(list(filters)).by_position(
        {T0: 0, T1: 0, U0: 0}, {T0: 9, T1: 9, U0: 9}
    )
    return [OffsetRange(*p, starts[p], ends[p]) for p in starts]


def test_partitions_and_offsets_that_cannot_match_are_not_read():
    offset, partition, topic = ("offset",), ("partition",), ("topic",)
    assert narrowed(EqualTo(offset, 4), EqualTo(partition, 1)) == [OffsetRange("t", 1, 4, 5)]
    assert narrowed(Not(In(partition, [0])), Not(LessThan(offset, 7))) == [  # type: ignore[arg-type]
        OffsetRange("t", 1, 7, 9)
    ]
    assert narrowed(In(topic, ["u"]), In(offset, [3, None, 1])) == [OffsetRange("u", 0, 1, 4)]  # type: ignore[arg-type]
    assert narrowed(GreaterThan(offset, 2), LessThanOrEqual(offset, 2)) == []
    assert narrowed(GreaterThan(offset, 100)) == []
    assert narrowed(EqualTo(topic, "s")) == []


def test_a_filter_without_a_bound_narrows_nothing():
    everything = narrowed()
    assert len(everything) == 3
    for each in (
        Not(EqualTo(("offset",), 3)),
        IsNotNull(("offset",)),
        EqualTo(("value", "offset"), 3),
        EqualTo(("key",), b"k"),
        EqualTo(("partition",), "0"),
        EqualTo(("offset",), None),
    ):
        assert narrowed(each) == everything


def test_a_range_that_was_empty_before_is_kept_for_the_checks_of_data_loss():
    assert ReadFilters([]).by_position({T0: 7}, {T0: 5}) == ({T0: 7}, {T0: 5})


def test_a_filter_on_timestamps_bounds_them_in_microseconds():
    def at(microseconds):
        return EPOCH + datetime.timedelta(microseconds=microseconds)

    column = ("timestamp",)
    assert bounds(iter([GreaterThan(column, at(1_500))])) == (1_501, None)
    assert bounds(iter([In(column, [at(9), at(5)]), LessThan(column, at(8))])) == (5, 7)  # type: ignore[arg-type]
    assert bounds(iter([EqualTo(column, datetime.datetime(2020, 1, 1))])) == (None, None)


def test_spark_sees_the_method_as_not_overridden():
    """PySpark's `plan_data_source_read` checks this, and rejects overridden ones while the setting
    is off.
    """
    push = PushFilters(ReadFilters())
    assert getattr(push, "__func__", None) is DataSourceReader.pushFilters
    given_ = [EqualTo(("partition",), 1)]
    assert push(given_) == given_  # type: ignore[arg-type]
    assert push.read_filters.filters == given_
