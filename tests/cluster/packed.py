"""The archive that all executors of these tests run, and small ones that lead to files here."""

from __future__ import annotations

import os
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"


@dataclass(frozen=True)
class Packed:
    """What `odradek spark pack` wrote, and said."""

    archive: Path
    said: str


def linked_environment(directory: Path, name: str, packages: Path) -> Path:
    """Write an archive of an environment whose packages stay where they are, in `packages`."""
    links = directory / f"{name}-links"
    inside = links / "lib" / VERSION / "site-packages"
    inside.mkdir(parents=True)
    (inside / "there.pth").write_text(f"{packages}\n")
    python = Path(os.path.realpath(sys.executable))
    (links / "bin").mkdir()
    (links / "bin" / "python").symlink_to(python)
    (links / "pyvenv.cfg").write_text(f"home = {python.parent}\n")
    archive = directory / f"{name}.tar.gz"
    with tarfile.open(archive, "w:gz") as out:
        out.add(links, ".")
    return archive
