"""`scripts/test`: parts that run beside each other, and what it says of a part that fails."""

from __future__ import annotations

import tempfile
from pathlib import Path

from scripts.all_tests import Line, Part


def test_a_failed_part_is_named_and_the_next_one_runs(tmp_path: Path) -> None:
    def part(name: str, program: str) -> Part:
        path = tmp_path / f"test_{name}.py"
        path.write_text(program)
        return Part(name, ("-c", "/dev/null", "-p", "no:cacheprovider", str(path)))

    wrong = part("wrong", "def test_it():\n    assert 1 == 2\n")
    right = part("right", "def test_it():\n    pass\n")
    with tempfile.TemporaryFile() as output:
        line = Line([wrong, right], output)
        line.run()
        output.seek(0)
        printed = output.read().decode()
    assert line.failed == ["wrong"]
    assert "assert 1 == 2" in printed and "1 passed" in printed


def test_a_part_gets_its_environment(tmp_path: Path) -> None:
    path = tmp_path / "test_environment.py"
    path.write_text("import os\ndef test_it():\n    assert os.environ['GIVEN'] == 'x'\n")
    arguments = ("-c", "/dev/null", "-p", "no:cacheprovider", str(path))
    with tempfile.TemporaryFile() as output:
        line = Line([Part("environment", arguments, {"GIVEN": "x"})], output)
        line.run()
    assert line.failed == []
