"""Programs that use public clients of other languages: got ready once, and run against a broker.

Each prints a JSON object a line, the name of a call and its outcome, without what is another one in
each run. The packages have exact versions (in `node` by the lock file, in `go` by the sums of the
modules); what is built is kept in pytest's cache.

Without Node.js or Go these tests are skipped and say so: Java and Maven are enough to work here.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from interop.differential.plain import Plain

HERE = Path(__file__).parent
NODE = HERE / "node"
GO = HERE / "go"
RUN_TIMEOUT_S = 240


class ProgramMissing(Exception):
    """A language's tools or its packages are missing; the message says which."""


def node_program(source: str, cache: Path) -> list[str]:
    """Return the command that runs a file of `NODE`, whose packages are installed into `cache`.

    Raises `ProgramMissing`.
    """
    require("node", "npm")
    described = [NODE / "package.json", NODE / "package-lock.json"]
    home = cache / digest(described)
    with locked(cache):
        if not (home / "installed").exists():
            home.mkdir(exist_ok=True)
            for path in described:
                shutil.copy(path, home)
            got = run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], home)
            if got.returncode != 0:
                raise ProgramMissing(f"npm could not get the packages:\n{got.stderr[-2000:]}")
            (home / "installed").touch()
    return ["env", f"NODE_PATH={home / 'node_modules'}", "node", str(NODE / source)]


def go_program(name: str, cache: Path) -> list[str]:
    """Return the command that runs a package of `GO`, which is built into `cache`.

    Raises `ProgramMissing`, but `AssertionError` if the source does not compile.
    """
    require("go")
    built = cache / digest([*sorted(GO.rglob("*.go")), GO / "go.mod", GO / "go.sum"])
    with locked(cache):
        if not (built / name).exists():
            got = run(["go", "mod", "download"], GO)
            if got.returncode != 0:
                raise ProgramMissing(f"go could not get the modules:\n{got.stderr[-2000:]}")
            made = run(["go", "build", "-o", f"{built}{os.sep}", f"./{name}"], GO)
            assert made.returncode == 0, made.stderr
    return [str(built / name)]


def require(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            raise ProgramMissing(f"{program} is not on the PATH")


def digest(paths: Sequence[Path]) -> str:
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()[:16]


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Let one process at a time fill a directory."""
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(command: Sequence[str], directory: Path) -> subprocess.CompletedProcess[str]:
    # A toolchain of another version would be fetched silently.
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False
    )


class ClientRun:
    """A program that was started with the address of a broker."""

    def __init__(self, command: Sequence[str], bootstrap: str) -> None:
        self._process = subprocess.Popen(
            [*command, bootstrap], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def outcomes(self) -> dict[str, Plain]:
        """Wait for the end of the program; return the outcome of each call, in their order."""
        try:
            out, err = self._process.communicate(timeout=RUN_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            out, err = self._process.communicate()
        lines = [json.loads(line) for line in out.splitlines()]
        ended = f"ended with {self._process.returncode} after {lines[-1:]}:\n{err[-3000:]}"
        assert self._process.returncode == 0, ended
        found = {line["call"]: line["outcome"] for line in lines}
        assert len(found) == len(lines), "two calls have the same name"
        return found
