"""The metadata of a package: the addresses of the repository that builds it."""

from __future__ import annotations

import os
import subprocess
import sys
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def urls_of_metadata(directory: Path, **environment: str) -> list[str]:
    """Return the addresses in the metadata that setup.py makes."""
    outside = {name: each for name, each in os.environ.items() if not name.startswith("GITHUB_")}
    subprocess.run(
        [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", str(directory)],
        cwd=ROOT,
        env=outside | environment,
        check=True,
        capture_output=True,
    )
    metadata = (directory / "odradek.egg-info" / "PKG-INFO").read_text()
    return HeaderParser().parsestr(metadata).get_all("Project-URL", [])


def test_a_package_built_by_a_repository_has_its_addresses(tmp_path: Path) -> None:
    urls = urls_of_metadata(tmp_path, GITHUB_REPOSITORY="someone/odradek")
    assert "Homepage, https://github.com/someone/odradek" in urls
    assert "Issues, https://github.com/someone/odradek/issues" in urls


def test_a_package_built_elsewhere_names_no_address(tmp_path: Path) -> None:
    assert urls_of_metadata(tmp_path) == []
