"""The exactly-once sink under kill -9: one loss of each kind, in Spark drivers and a broker that
are processes of their own. `tests/soak/spark_exactly_once.py` goes on with it, also on a Spark
cluster.
"""

from __future__ import annotations

import pytest

from soak.spark_exactly_once import QueryRun, surroundings

LOSSES = (
    "attempt killed",
    "executor after its message",
    "driver undecided",
    "driver decided",
    "driver away",
    "two drivers",
    "broker",
)


@pytest.fixture(scope="module")
def around(tmp_path_factory):
    with surroundings(tmp_path_factory.mktemp("soak"), "odradek", "local[2,8]") as found:
        yield found


@pytest.mark.parametrize("loss", LOSSES)
def test_each_row_is_committed_once_whatever_is_lost(around, tmp_path, loss):
    run = QueryRun(LOSSES.index(loss), loss, 1, around, tmp_path)
    run.execute()
    assert run.records
    assert sum(run.lost.values()) == 1
