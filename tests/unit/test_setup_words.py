"""`make setup` says what there is now and what to type next; commands that only need it do not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = """#!/bin/sh
case "$*" in
  *hashlib*) cat >/dev/null; echo digest ;;
  *odradek.spark.java*) echo /a/java ;;
esac
"""
ODRADEK = "#!/bin/sh\necho 'odradek 1.2.3, leaves compiled'\n"


@pytest.mark.parametrize(("goal", "is_told"), [("setup", True), ("demo", False), ("test", False)])
def test_setup_says_what_there_is_and_what_comes_next_if_asked(
    tmp_path: Path, goal: str, is_told: bool
) -> None:
    """The script itself, in a tree where all is there already."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "setup.py"):
        shutil.copy(ROOT / name, tmp_path)
    executables = {
        "scripts/setup": (ROOT / "scripts/setup").read_text(),
        "scripts/test": "#!/bin/sh\n",
        ".venv/bin/pip": "#!/bin/sh\n",
        ".venv/bin/python": PYTHON,
        ".venv/bin/odradek": ODRADEK,
    }
    for name, text in executables.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / ".setup").mkdir()
    (tmp_path / ".setup/dependencies").write_text("digest\n")
    outer = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES")
    environment = {name: value for name, value in os.environ.items() if name not in outer}
    done = subprocess.run(
        ["make", goal], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("setup: ")]
    if is_told:
        assert "odradek 1.2.3, leaves compiled" in said[0] and "/a/java" in said[0]
        assert ".venv/bin/odradek --help" in said[1] and "make demo" in said[1]
    else:
        assert said == []
