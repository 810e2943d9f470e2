"""Modules that importing and making a client does not import."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LOADED = "import json, sys; print(json.dumps(sorted(sys.modules)))"


@pytest.mark.parametrize(
    "program",
    [
        "from odradek import Admin, Consumer, Producer",
        "from odradek.aio import Admin, Consumer, Producer",
        "from odradek import Producer; Producer(brokers='127.0.0.1:1').close()",
    ],
)
def test_a_client_imports_neither_the_log_nor_the_broker(program: str) -> None:
    found = loaded(program)
    for package in ("log", "broker", "coordinator", "replication", "controller", "testing"):
        name = f"odradek.{package}"
        assert not [each for each in found if each == name or each.startswith(f"{name}.")]
    assert not found & {"pyarrow", "pyspark", "pandas"}


def test_a_blocking_client_does_not_import_asyncio() -> None:
    assert "asyncio" not in loaded("from odradek import Admin, Consumer, Producer")


def loaded(program: str) -> set[str]:
    """The names of the modules that a process has imported after `program`."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{LOADED}"], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))
