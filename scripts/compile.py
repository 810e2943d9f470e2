"""Compile the leaves in place: `python scripts/compile.py [--if-needed]`.

It compiles the modules in `odradek.leaves.LEAVES` with mypyc into `src/`, then writes the manifest
of their sources. Without a C compiler it prints a message and the sources stay interpreted; with
`ODRADEK_COMPILE=1` that is an error. See `src/odradek/leaves.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "build_backend")]

from odradek_build import what_is_missing  # noqa: E402

from odradek import leaves  # noqa: E402


def say(text: str) -> None:
    print(f"compile: {text}", file=sys.stderr)


def up_to_date() -> bool:
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    built = (Path(leaves.source_of(leaf)).with_suffix(suffix).exists() for leaf in leaves.LEAVES)
    return leaves.is_compiled_from_these_sources() and all(built)


def remove_old() -> None:
    Path(leaves.MANIFEST).unlink(missing_ok=True)
    for old in (ROOT / "src").rglob("*.so"):
        old.unlink()


def build() -> int:
    log = ROOT / ".setup" / "compile.log"
    log.parent.mkdir(exist_ok=True)
    environment = {**os.environ, "ODRADEK_COMPILE": "1", "CFLAGS": os.environ.get("CFLAGS", "-g0")}
    with log.open("w") as out:
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        return subprocess.call(
            command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT
        )


def main() -> int:
    if "--if-needed" in sys.argv[1:] and up_to_date():
        return 0
    before = leaves.manifest()
    missing = what_is_missing()
    if missing:
        say(f"{missing} was not found: the leaves stay interpreted, which is slower")
        return 1 if os.environ.get("ODRADEK_COMPILE") == "1" else 0
    say(f"{len(leaves.LEAVES)} leaves with mypyc")
    remove_old()
    if build() != 0:
        remove_old()
        say("failed, see .setup/compile.log")
        return 1
    Path(leaves.MANIFEST).write_text(before)
    return 0


if __name__ == "__main__":
    sys.exit(main())
