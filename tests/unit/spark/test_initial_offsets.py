"""The initial offsets of a stream are kept in this process, and in a file for the next one."""

import errno
import json
import os

import pytest
from pyarrow import fs

from odradek.model.topics import TopicPartition
from odradek.spark import initial_offsets
from odradek.spark.initial_offsets import DIRECTORY, InitialOffsets
from odradek.spark.options import read_options

T0 = TopicPartition("t", 0)


def options(**more):
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **more}
    return read_options(given, streaming=True)


class MovingEnds:
    """End offsets that rise at each call, as those of a topic that is written to."""

    def __init__(self):
        self.head = 100

    def __call__(self):
        self.head += 10
        return {T0: self.head}


def test_without_a_checkpoint_the_first_answer_is_kept_in_memory():
    initial, heads = InitialOffsets(options()), MovingEnds()
    assert initial.get(heads) == {T0: 110}
    assert initial.get(heads) == {T0: 110}


def test_with_a_checkpoint_another_process_gives_the_same_answer(tmp_path):
    heads = MovingEnds()
    given = options(checkpointLocation=str(tmp_path))
    assert InitialOffsets(given).get(heads) == {T0: 110}
    assert InitialOffsets(given).get(heads) == {T0: 110}
    assert heads.head == 110
    [file] = (tmp_path / DIRECTORY).iterdir()
    assert json.loads(file.read_text())["offsets"] == {"t": {"0": 110}}


def test_offsets_are_kept_from_the_first_micro_batch_on(tmp_path):
    """Before, no micro-batch can have begun at them: one that is run again began elsewhere."""
    given = options(checkpointLocation=str(tmp_path))
    asked = InitialOffsets(given)
    assert asked.get(MovingEnds()) == {T0: 110}
    assert asked.can_move()
    again = InitialOffsets(given)
    assert again.get(MovingEnds()) == {T0: 110}
    assert again.can_move()
    again.keep()
    asked.keep()  # The other source of a query.
    kept = InitialOffsets(given)
    assert kept.get(MovingEnds()) == {T0: 110}
    assert not any(each.can_move() for each in (asked, again, kept))


def test_offsets_kept_for_other_options_or_removed_do_not_count(tmp_path):
    given = options(checkpointLocation=str(tmp_path))
    first = InitialOffsets(given)
    first.get(MovingEnds())
    first.keep()
    changed = InitialOffsets(options(checkpointLocation=str(tmp_path), subscribe="t,u"))
    changed.get(MovingEnds())
    assert changed.can_move()
    for file in (tmp_path / DIRECTORY).iterdir():
        if "offered" not in file.name:
            file.unlink()
    removed = InitialOffsets(given)
    removed.get(MovingEnds())
    assert removed.can_move()


def test_the_first_writer_wins(tmp_path):
    given = options(checkpointLocation=str(tmp_path))
    late = InitialOffsets(given)

    def answered_by_another_reader():
        InitialOffsets(given).get(lambda: {T0: 1})
        return {T0: 2}

    assert late.get(answered_by_another_reader) == {T0: 1}
    assert len(list((tmp_path / DIRECTORY).iterdir())) == 1


def test_a_file_uri_is_a_directory(tmp_path):
    uri = (tmp_path / "with space").as_uri()
    InitialOffsets(options(checkpointLocation=uri)).get(MovingEnds())
    assert (tmp_path / "with space" / DIRECTORY).is_dir()


def test_an_unknown_file_system_is_refused_with_what_to_do():
    for location in ("dbfs:/x", "mock-of-nothing://bucket/x"):
        with pytest.raises(ValueError, match="leave this option out on the reader"):
            InitialOffsets(options(checkpointLocation=location)).get(MovingEnds())


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match=r"No space left .*the disk is full: make room there"):
        InitialOffsets(options(checkpointLocation=str(tmp_path))).get(MovingEnds())


def test_hadoop_schemes_of_s3_are_rewritten_for_arrow():
    for scheme in ("s3a", "s3n", "s3"):
        assert initial_offsets.arrow_uri(f"{scheme}://bucket/x") == "s3://bucket/x"
    assert initial_offsets.arrow_uri("hdfs://bucket/x") == "hdfs://bucket/x"


@pytest.fixture
def object_store(monkeypatch):
    """A file system under s3a:, which is not the local one."""
    store = fs._MockFileSystem()
    monkeypatch.setattr(initial_offsets, "file_system", lambda location: (store, "bucket/query"))
    return store


def test_an_object_store_keeps_the_offsets_for_another_process(object_store):
    heads = MovingEnds()
    given = options(checkpointLocation="s3a://bucket/query")
    for _ in range(2):
        initial = InitialOffsets(given)
        assert initial.get(heads) == {T0: 110}
        initial.keep()
        assert not initial.can_move()


def test_a_query_of_sparks_own_source_begins_at_the_offsets_it_kept(tmp_path):
    """The file starts with a NUL, as Spark writes it, and is beside that of another source."""
    for number, content in enumerate(('{"u":{"0":5}}', '{"t":{"0":7}}')):
        directory = tmp_path / "sources" / str(number)
        directory.mkdir(parents=True)
        (directory / "0").write_bytes(b"\0v1\n" + content.encode())
    initial = InitialOffsets(options(checkpointLocation=str(tmp_path)))
    assert initial.get(MovingEnds()) == {T0: 7}
    assert not initial.can_move()


@pytest.mark.parametrize(
    ("starting", "offset", "moves"),
    [
        ({"startingOffsets": "latest"}, 0, True),
        ({"startingOffsets": "earliest"}, 0, False),
        ({"startingOffsets": "earliest"}, 5, True),
        ({"startingOffsets": '{"t": {"0": 5}}'}, 5, False),
        ({"startingOffsets": '{"t": {"0": -1}}'}, 5, True),
        ({"startingOffsets": '{"t": {"0": -2}}'}, 0, False),
        ({"startingTimestamp": "17"}, 0, True),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 17}}'}, 0, True),
    ],
)
def test_a_start_can_move_if_it_could_resolve_to_other_offsets_without_a_loss(
    starting, offset, moves
):
    initial = InitialOffsets(options(**starting))
    assert not initial.can_move()
    initial.get(lambda: {T0: offset})
    assert initial.can_move() is moves


def test_sources_with_other_starting_options_do_not_share_a_file(tmp_path):
    place = str(tmp_path)
    first = InitialOffsets(options(checkpointLocation=place, startingOffsets="earliest"))
    other = InitialOffsets(options(checkpointLocation=place, startingOffsets="latest"))
    assert first.digest() != other.digest()
