"""Runs the examples of `docs/reference/command-line.md`, line by line."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from cli.processes import ODRADEK
from odradek.cli import exits
from odradek.testing.broker import Broker

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "command-line.md").read_text()
BLOCKS = "".join(re.findall(r"```\n(.*?)```", PAGE, re.DOTALL))
SHOWN = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", BLOCKS, re.M)
SHELL = f'odradek() {{ "{ODRADEK[0]}" -m odradek "$@"; }}; '


def test_the_session_on_the_page() -> None:
    assert len(SHOWN) > 15
    with Broker() as broker:
        environment = {**os.environ, "ODRADEK_BROKERS": broker.bootstrap}
        for command, shown in SHOWN:
            done = subprocess.run(
                ["sh", "-c", SHELL + command],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
                timeout=60,
                check=False,
            )
            assert (done.returncode, done.stdout) == (0, shown), command


def test_every_exit_code_is_there() -> None:
    table = PAGE.partition("## Exit codes")[2]
    codes = {value for name, value in vars(exits).items() if name.isupper()}
    assert codes == {int(code) for code in re.findall(r"\b\d+\b", table)}
