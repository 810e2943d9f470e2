"""Where a stream began stays where it was: in this process, and in a file for the next one."""

import json

import pytest

from odradek.model.ids import TopicPartition
from odradek.spark.initial_offsets import DIRECTORY, InitialOffsets
from odradek.spark.options import read_options

T0 = TopicPartition("t", 0)


def options(**more):
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", **more}
    return read_options(given, streaming=True)


class Moving:
    """A head that is further at each look, as that of a busy topic."""

    def __init__(self):
        self.head = 100

    def __call__(self):
        self.head += 10
        return {T0: self.head}


def test_without_a_checkpoint_the_first_answer_is_kept_in_memory():
    initial, heads = InitialOffsets(options()), Moving()
    assert initial.get(heads) == {T0: 110}
    assert initial.get(heads) == {T0: 110}


def test_with_a_checkpoint_another_process_gives_the_same_answer(tmp_path):
    heads = Moving()
    given = options(checkpointLocation=str(tmp_path))
    assert InitialOffsets(given).get(heads) == {T0: 110}
    assert InitialOffsets(given).get(heads) == {T0: 110}
    assert heads.head == 110
    [file] = (tmp_path / DIRECTORY).iterdir()
    assert json.loads(file.read_text())["offsets"] == {"t": {"0": 110}}


def test_the_first_writer_wins(tmp_path):
    given = options(checkpointLocation=str(tmp_path))
    late = InitialOffsets(given)

    def meanwhile_another_one_answers():
        InitialOffsets(given).get(lambda: {T0: 1})
        return {T0: 2}

    assert late.get(meanwhile_another_one_answers) == {T0: 1}
    assert len(list((tmp_path / DIRECTORY).iterdir())) == 1


def test_a_file_uri_is_a_directory_and_other_storage_is_refused(tmp_path):
    uri = (tmp_path / "with space").as_uri()
    InitialOffsets(options(checkpointLocation=uri)).get(Moving())
    assert (tmp_path / "with space" / DIRECTORY).is_dir()
    with pytest.raises(ValueError, match="local directory only"):
        InitialOffsets(options(checkpointLocation="s3a://bucket/x")).get(Moving())


def test_sources_that_begin_elsewhere_do_not_share_a_file(tmp_path):
    place = str(tmp_path)
    first = InitialOffsets(options(checkpointLocation=place, startingOffsets="earliest"))
    other = InitialOffsets(options(checkpointLocation=place, startingOffsets="latest"))
    assert first.path() != other.path()
