"""`scripts/test`: parts that run beside each other, and what it says of a part that fails."""

from __future__ import annotations

import tempfile
from pathlib import Path

from scripts.all_tests import OF_OTHER_LINES, WAITING_PARTS, Line, Part


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


def test_a_line_stands_behind_other_processes_by_its_nice_value(tmp_path: Path) -> None:
    path = tmp_path / "test_priority.py"
    path.write_text(
        "import os\n"
        "import time\n"
        "def test_it():\n"
        "    while os.getpriority(os.PRIO_PROCESS, 0) < 19: time.sleep(0.001)\n"
    )
    arguments = ("-c", "/dev/null", "-p", "no:cacheprovider", str(path))
    with tempfile.TemporaryFile() as output:
        line = Line([Part("behind", arguments)], output, nice=19)
        line.run()
    assert line.failed == []


def test_each_directory_of_tests_is_run_by_one_line() -> None:
    tests = Path(__file__).parents[1]
    with_tests = {path.parts[len(tests.parts)] for path in tests.glob("*/**/test_*.py")}
    named = {part.arguments[-1].removeprefix("tests/") for part in WAITING_PARTS}
    assert named | {"interop"} == set(OF_OTHER_LINES) <= with_tests
