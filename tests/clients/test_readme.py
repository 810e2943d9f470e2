"""The examples of the README run as printed, against a broker on another port."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.terminals import COLOUR, on_terminal
from odradek.testing.broker import Broker

EXAMPLES = Path(__file__).parents[2] / "examples"
README = (Path(__file__).parents[2] / "README.md").read_text()
ADDRESS = "127.0.0.1:9092"
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHELL = re.findall(r"^\$ odradek (topic|produce|consume)(.*)\n((?:(?![$`]).*\n)*)", README, re.M)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap


def test_the_shell_session_of_the_readme_runs(bootstrap: str) -> None:
    assert [verb for verb, _, _ in SHELL] == ["topic", "produce", "consume"]
    for verb, arguments, shown in SHELL:
        code, output = on_terminal(bootstrap, verb, *arguments.split())
        assert (code, without_times(output)) == (0, without_times(shown))


def without_times(output: str) -> str:
    """Replace times and rates, which no two runs share."""
    output = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", COLOUR.sub("", output))
    return re.sub(r"[\d,]+ a second", "RATE", output)


@pytest.mark.parametrize("block", [block for block in BLOCKS if "spark" not in block])
def test_the_python_examples_of_the_readme_run(bootstrap: str, block: str) -> None:
    exec(compile(block.replace(ADDRESS, bootstrap), "README.md", "exec"), {})


def test_the_example_of_processing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        runpy.run_path(str(EXAMPLES / "enrich.py"))["enrich_all"](broker.bootstrap)
    assert "1000 outputs, 1000 of them distinct" in capsys.readouterr().out


def test_only_the_spark_example_of_the_readme_needs_spark() -> None:
    assert [("spark" in block) for block in BLOCKS].count(True) == 1
