"""`odradek doctor` as a command: its lines, its JSON and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

from cli.processes import run

CHECKS = {"python", "odradek", "compiled", "click", "file system", "disk space", "disk writes"} | {
    "monotonic clock",
    "wall clock",
    "descriptors",
    "port 9092",
    "port 9404",
    "java",
}


def test_each_check_is_a_line_and_the_summary_is_on_stderr(tmp_path: Path) -> None:
    done = run("doctor", "--data-dir", str(tmp_path))
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert {row[0] for row in rows} >= CHECKS
    assert all(len(row) == 4 and row[1] in ("ok", "warn", "fail") for row in rows)
    assert all(row[3] for row in rows if row[1] != "ok"), "each has a way out"
    assert "warning" in done.stderr
    assert done.returncode == (1 if any(row[1] == "fail" for row in rows) else 0)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_is_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("doctor", "--data-dir", str(tmp_path / "file"), "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    (disk,) = [row for row in rows if row["check"] == "disk"]
    assert (disk["state"], "--data-dir" in disk["what_to_do"]) == ("fail", True)
