"""The JSON of a stream offset, and its parts that Spark's own source reads."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.topics import TopicPartition
from odradek.spark.offsets import StreamOffset

NAMES = st.text("abz._-09", min_size=1, max_size=8)
IDS = st.text("abAB09-_", min_size=22, max_size=22)
OFFSETS = st.dictionaries(
    st.builds(TopicPartition, NAMES, st.integers(0, 12)), st.integers(0, 2**63 - 1), min_size=1
)


@given(OFFSETS, st.dictionaries(NAMES, IDS), st.booleans())
def test_a_stream_offset_round_trips_through_json(offsets, ids, begins):
    offset = StreamOffset(offsets, ids, begins)
    shaped = json.loads(json.dumps(offset.to_json()))
    assert StreamOffset.from_json(shaped, "x") == offset


@given(OFFSETS, st.dictionaries(NAMES, IDS), st.booleans())
def test_notes_read_as_topics_have_no_partitions(offsets, ids, begins):
    shaped = StreamOffset(offsets, ids, begins).to_json()
    found = {
        TopicPartition(topic, int(number)): offset
        for topic, partitions in shaped.items()
        for number, offset in partitions.items()
    }
    assert found == offsets


def test_equal_offsets_are_equal_text():
    first = {TopicPartition("t", n): n for n in (10, 2)}
    other = {TopicPartition("t", n): n for n in (2, 10)}
    ids = {"u": "1" * 22, "t": "2" * 22}, {"t": "2" * 22, "u": "1" * 22}
    texts = [
        json.dumps(StreamOffset(o, i).to_json()) for o, i in zip((first, other), ids, strict=True)
    ]
    assert texts[0] == texts[1]


def test_offsets_of_another_source_have_no_notes():
    found = StreamOffset.from_json({"t": {"0": 5}}, "x")
    assert found == StreamOffset({TopicPartition("t", 0): 5})
    with pytest.raises(ValueError, match="the start offset is not an object"):
        StreamOffset.from_json([1], "the start offset")


@pytest.mark.parametrize("other", [17, {"logOffset": 3}, {"offset": {"value": "x"}}])
def test_an_offset_of_another_kind_of_source_is_refused_with_what_to_do(other):
    message = "checkpoint is of a query over something else.*give each query a checkpointLocation"
    with pytest.raises(ValueError, match=message):
        StreamOffset.from_json(other, "the start offset")


def test_a_topic_with_another_id_was_created_again():
    offset = StreamOffset({TopicPartition("t", 0): 5, TopicPartition("u", 0): 6}, {"t": "a"})
    assert offset.recreated_topics({"t": "a", "u": "x"}) == []
    assert offset.recreated_topics({"t": "b"}) == ["t"]
    assert offset.recreated_topics({}) == []
    assert offset.without_topics(["t"]) == {TopicPartition("u", 0): 6}
