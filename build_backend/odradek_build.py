"""The build backend (PEP 517): setuptools, with compiled leaves where a C compiler is found.

`ODRADEK_COMPILE` decides what a wheel has:

    unset   compiled leaves if a C compiler and Python's headers are there, else pure Python; pure
            Python too if the compilation fails
    1       compiled leaves, or the build fails
    0       pure Python

mypy, which compiles them, and the dependencies, whose types it reads, are requirements of the
build only where it compiles. A pure wheel says in `odradek/not_compiled.txt` why it is one, and
`odradek --version` shows that. An editable install is always pure Python: `make compile` compiles
a checkout in place.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

MYPY = "mypy==2.4.1"
WISH, REASON = "ODRADEK_COMPILE", "ODRADEK_NOT_COMPILED"
"""What setup.py reads: "1" to compile, and else why not."""
Settings = dict[str, Any] | None


def compiler() -> str | None:
    """Path of the C compiler that setuptools would use, or of the usual ones."""
    named = os.environ.get("CC") or (sysconfig.get_config_var("CC") or "cc").split()[0]
    return shutil.which(named) or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def what_is_missing() -> str | None:
    """What keeps this machine from compiling C extensions; None if nothing does."""
    if sys.implementation.name != "cpython":
        return f"CPython ({sys.implementation.name} has no use for its extensions)"
    if compiler() is None:
        return "a C compiler"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "Python's headers (python3-dev)"
    return None


def check_writable() -> None:
    """Raise `SystemExit` if this directory, in which setuptools builds, cannot be written."""
    if not os.access(".", os.W_OK):
        raise SystemExit(
            f"{Path.cwd()} cannot be written, and the package is built in it. What to do: build "
            "from a copy of it that this user may write, or install a wheel"
        )


def reason_for_pure() -> str | None:
    """Why this build makes a pure wheel; None if it compiles. Raises `SystemExit` when
    `ODRADEK_COMPILE` says something else than 0 and 1, or insists on what cannot be done."""
    wish = os.environ.get(WISH, "")
    if wish not in ("", "0", "1"):
        raise SystemExit(f"{WISH} is {wish!r}. What to do: set it to 1 or 0, or unset it")
    if wish == "0":
        return "built with ODRADEK_COMPILE=0"
    missing = what_is_missing()
    if missing and wish == "1":
        raise SystemExit(
            f"{WISH}=1, but {missing} was not found. What to do: install that, or unset {WISH} for "
            "a package that is not compiled"
        )
    return f"{missing} was not found when the package was built" if missing else None


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    """What the build needs besides `build-system.requires`."""
    check_writable()  # Here, before setuptools writes its own metadata.
    pure = reason_for_pure() is not None
    with environment(WISH, "0"):  # mypy may not be there yet.
        needed: list[str] = build_meta.get_requires_for_build_wheel(config_settings)
    if pure:
        return needed
    import tomllib  # Python 3.10 has none, and pip is to say that Odradek needs 3.11.

    # mypy reads the types of what the leaves import.
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    return [*needed, MYPY, *project["dependencies"]]


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Settings = None
) -> str:
    """Write the metadata, which are the same for both forms, in `metadata_directory`."""
    with environment(WISH, "0"):
        name: str = build_meta.prepare_metadata_for_build_wheel(metadata_directory, config_settings)
        return name


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel in `wheel_directory`; its file name."""
    insist = os.environ.get(WISH) == "1"
    reason = reason_for_pure()
    if reason is None:
        try:
            return built(wheel_directory, config_settings, metadata_directory, None)
        except (Exception, SystemExit) as failure:
            if insist:
                raise
            reason = "the compilation failed when the package was built"
            say(f"{reason} ({failure}): this wheel is pure Python, which is slower")
    else:
        say(f"this wheel is pure Python, which is slower: {reason}")
    return built(wheel_directory, config_settings, metadata_directory, reason)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Build an editable wheel in `wheel_directory`; its file name."""
    with environment(WISH, "0"):
        name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
        return name


def built(
    directory: str, settings: Settings, metadata_directory: str | None, reason: str | None
) -> str:
    # setuptools packs whatever an earlier build left there, modules that are gone among it.
    for left in Path("build").glob("lib*"):
        shutil.rmtree(left)
    # Without debugging information, which triples the size and the time to compile.
    flags = os.environ.get("CFLAGS", "-g0")
    with (
        environment(WISH, "0" if reason else "1"),
        environment(REASON, reason or ""),
        environment("CFLAGS", flags),
    ):
        name: str = build_meta.build_wheel(directory, settings, metadata_directory)
        return name


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def say(text: str) -> None:
    print(f"odradek: {text}", file=sys.stderr)
