"""The built wheel can be installed in a new environment, and `odradek up` runs there."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from cli.processes import Up

ROOT = Path(__file__).parents[2]


def test_the_wheel_runs_in_an_empty_environment(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "-o", tmp_path, ROOT],
        check=True,
        env={**os.environ, "ODRADEK_COMPILE": "0"},
        capture_output=True,
        timeout=600,
    )
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {
        "odradek/py.typed",
        "odradek/demo/page.html",
        "odradek/spark/log4j2.properties",
        "odradek/not_compiled.txt",
    } <= set(names)
    assert not [name for name in names if name.endswith((".so", "compiled_leaves.json"))]
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, timeout=600)
    subprocess.run(
        [environment / "bin" / "pip", "install", "-q", wheel],
        check=True,
        timeout=600,
        cwd=tmp_path,
    )
    version = [str(environment / "bin" / "odr"), "--version"]
    said = subprocess.run(version, capture_output=True, text=True, check=True, timeout=600).stdout
    assert said.endswith("leaves interpreted (built with ODRADEK_COMPILE=0)\n")
    command = (str(environment / "bin" / "odradek"),)
    with Up("--port", "0", "--memory", command=command) as up:
        assert up.ready["data_dir"] is None
        assert up.stop() == 0
