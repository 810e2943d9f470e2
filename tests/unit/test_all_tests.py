"""`scripts/test`: parts that run beside each other, and what it says of a part that fails."""

from __future__ import annotations

import tempfile
from collections import deque
from pathlib import Path

from scripts.all_tests import OF_OTHER_LINES, WAITING_PARTS, Line, Part, computing_parts


def test_a_failed_part_is_named_and_the_next_one_runs(tmp_path: Path) -> None:
    def part(name: str, program: str) -> Part:
        path = tmp_path / f"test_{name}.py"
        path.write_text(program)
        return Part(name, ("-c", "/dev/null", "-p", "no:cacheprovider", str(path)))

    wrong = part("wrong", "def test_it():\n    assert 1 == 2\n")
    right = part("right", "def test_it():\n    pass\n")
    with tempfile.TemporaryFile() as output:
        line = Line(deque([wrong, right]), output)
        line.run()
        output.seek(0)
        printed = output.read().decode()
    assert line.failed == ["wrong"]
    assert "assert 1 == 2" in printed and "1 passed" in printed


def test_lines_that_share_parts_run_each_once(tmp_path: Path) -> None:
    path = tmp_path / "test_once.py"
    path.write_text(
        "import os\n"
        "def test_it():\n"
        "    os.close(os.open(os.environ['MADE'], os.O_CREAT | os.O_EXCL))\n"
    )
    arguments = ("-c", "/dev/null", "-p", "no:cacheprovider", str(path))
    made = [tmp_path / name for name in ("one", "two", "three")]
    parts = deque(Part(path.name, arguments, {"MADE": str(path)}) for path in made)
    with tempfile.TemporaryFile() as output:
        lines = [Line(parts, output), Line(parts, output)]
        for line in lines:
            line.start()
        for line in lines:
            line.join()
    assert [line.failed for line in lines] == [[], []]
    assert all(path.exists() for path in made)


def test_a_part_gets_its_environment(tmp_path: Path) -> None:
    path = tmp_path / "test_environment.py"
    path.write_text("import os\ndef test_it():\n    assert os.environ['GIVEN'] == 'x'\n")
    arguments = ("-c", "/dev/null", "-p", "no:cacheprovider", str(path))
    with tempfile.TemporaryFile() as output:
        line = Line(deque([Part("environment", arguments, {"GIVEN": "x"})]), output)
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
        line = Line(deque([Part("behind", arguments)]), output, nice=19)
        line.run()
    assert line.failed == []


def test_each_directory_of_tests_is_run_by_one_line_or_a_target_of_its_own() -> None:
    tests = Path(__file__).parents[1]
    makefile = (tests.parent / "Makefile").read_text()
    with_tests = {path.parts[len(tests.parts)] for path in tests.glob("*/**/test_*.py")}
    named = {part.arguments[-1].removeprefix("tests/") for part in WAITING_PARTS}
    targets = {name for name in with_tests if f"-m {name} " in makefile}
    assert targets == {"cluster", "interop"}
    assert named | targets == set(OF_OTHER_LINES) <= with_tests


def test_each_module_of_the_other_directories_is_run_by_one_computing_part() -> None:
    root = Path(__file__).parents[2]
    once = [part for part in computing_parts() if not part.environment]
    for path in sorted(root.glob("tests/*/**/test_*.py")):
        module = path.relative_to(root)
        others = module.parts[1] in OF_OTHER_LINES
        assert sum(runs(part, module) for part in once) == (0 if others else 1), module


def runs(part: Part, module: Path) -> bool:
    """True if a part's arguments have pytest collect the module."""
    given = [each for each in part.arguments if each.startswith("tests")]
    ignored = [each.partition("=")[2] for each in part.arguments if each.startswith("--ignore=")]
    return any(map(module.is_relative_to, given)) and not any(map(module.is_relative_to, ignored))
