from __future__ import annotations

from collections import Counter

import pytest

from odradek.testing import sim
from odradek.testing.scheduler import SECOND
from odradek.testing.totals import RunResult, Totals

KILLED = Counter({"fault: kill": 2, "disk: full": 1})
SPLIT = Counter({"fault: kill": 1, "fault: split": 1})


def test_runs_add_up_to_hours_faults_records_and_kinds_of_violations() -> None:
    totals = Totals()
    totals.add(RunResult("cluster", [], True, 900 * SECOND, 10, KILLED, 100, 90))
    found = ["lost record", "lost record", "stuck"]
    totals.add(RunResult("cluster", [], False, 900 * SECOND, 10, SPLIT, 50, 40, 2, found))
    assert totals.summary() == [
        "0.50 virtual hours of cluster worlds; 2 runs, 1 failed;"
        " records sent 150, acked 130, lost 2",
        "faults: 4 (kill 3, split 1)",
        "violations: 3 (lost record 2, stuck 1)",
    ]
    assert totals.speed(60.0) == (
        "1 of 2 ok; 1800 virtual seconds in 60.0 s (30x), 0 events per second"
    )


def test_each_kind_of_world_has_its_table_of_sites() -> None:
    totals = Totals()
    for _ in range(2):
        totals.add(RunResult("cluster", [], True, 0, 0, KILLED))
    totals.add(RunResult("quorum", [], True, 0, 0, SPLIT))
    lines = [line.split("  ")[0 if line[0] != " " else 1] for line in table_of(totals)]
    assert lines == [
        "sites of cluster worlds:",
        "a: never",
        "disk: full",
        "fault: kill",
        "sites of quorum worlds:",
        "fault: kill",
        "fault: split",
    ]


def table_of(totals: Totals) -> list[str]:
    return totals.site_table({"cluster": ["a: never"], "quorum": []})


def test_hours_go_on_from_seed_to_seed_with_any_number_of_processes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # 0.02 hours are more than one run of a quorum takes.
    given = ["--world", "quorum", "--seed", "3", "--steps", "5", "--hours", "0.02", "--log"]
    outputs = []
    for jobs in ("1", "2"):
        assert sim.main([*given, "--jobs", jobs]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert "seed 3: ok" in outputs[0]
    assert "seed 4: ok" in outputs[0]
    assert "violations: 0 (none)" in outputs[0]
