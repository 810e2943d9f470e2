"""The modules that each start imports, and the error where an extra is missing.

An import costs every start of a process its time: PySpark a second, pyarrow a fifth of one. The
times are measured by `bench/bench_startup.py`; here are the names.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"pyarrow", "pandas", "numpy", "pyspark", "py4j", "prometheus_client", "opentelemetry"}
SLOW = {
    "asyncio",
    "ssl",
    "email",
    "http.client",
    "concurrent.futures",
    "multiprocessing",
    "difflib",
}
"""Modules of the standard library that import many others."""
UP = """
import sys
from odradek.broker.server import Server
Server.run = lambda self, signals: self._close()
sys.argv = ["odradek", "up", "--port", "0", "--memory", *{arguments}]
from odradek.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
HELP = """
import sys
sys.argv = ["odradek", "--help"]
from odradek.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
LOADED = "import json, sys; print(json.dumps(sorted(sys.modules)))"


def loaded(program: str) -> set[str]:
    """The names of the modules that a process has imported after `program`."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{LOADED}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def of_odradek(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "odradek"}


def below(modules: set[str], *packages: str) -> list[str]:
    return [name for name in modules if name.startswith(packages)]


def test_import_odradek_imports_nothing_of_its_dependencies() -> None:
    modules = loaded("import odradek")
    assert not modules & (HEAVY | SLOW | {"click", "rich", "msgspec", "cramjam", "h11", "socket"})
    assert len(of_odradek(modules)) <= 4


def test_the_help_imports_no_command() -> None:
    modules = loaded(HELP)
    assert not modules & (HEAVY | SLOW | {"rich", "msgspec", "cramjam", "h11", "socket", "logging"})
    assert below(modules, "odradek.broker", "odradek.client", "odradek.config") == []
    assert len(of_odradek(modules)) <= 9


MOST = {
    "broker": 24,
    "broker.handlers": 2,
    "broker.metrics": 0,
    "config": 13,
    "controller": 12,
    "coordinator": 24,
    "log": 32,
    "log.compaction": 2,
    "network": 15,
    "network_client": 0,
    "protocol": 45,
    "protocol.api": 21,
    "raft": 15,
    "raft.wire": 0,
    "replication": 14,
    "timing": 6,
}
"""How many modules of each package (or below it) the start of a node that is alone imports. A part
that only a cluster or a rare request needs is imported by the function that uses it."""
LATE = {
    "shutil",
    "hashlib",
    "decimal",
    "encodings.idna",
    "urllib.request",
    "subprocess",
    "typing_extensions",
}
"""Modules of the standard library and others that a start did import once, without need."""


def test_a_broker_that_is_alone_imports_no_more_modules_than_it_needs() -> None:
    modules = loaded(UP.format(arguments=["--http", "none"]))
    for package, most in MOST.items():
        name = f"odradek.{package}"
        found = sorted(each for each in modules if each == name or each.startswith(f"{name}."))
        assert len(found) <= most, (package, found)
    assert not modules & LATE


def test_a_broker_imports_no_client_and_nothing_that_it_does_not_run() -> None:
    modules = loaded(UP.format(arguments=["--http", "0"]))
    assert not modules & (HEAVY | SLOW | {"rich"})
    assert (
        below(modules, "odradek.client", "odradek.testing", "odradek.spark", "odradek.demo") == []
    )
    assert {"h11", "odradek.network.http_server"} <= modules


def test_a_broker_without_http_imports_none_of_it() -> None:
    modules = loaded(UP.format(arguments=["--http", "none"]))
    assert "h11" not in modules and below(modules, "odradek.network.http", "hmac") == []


def test_a_command_is_imported_without_the_garbage_collector_which_then_goes_on() -> None:
    program = (
        "import gc, odradek.cli.main as main; "
        "seen = []; main.importlib.import_module = lambda name: seen.append(gc.isenabled()); "
        "main.imported('x'); assert (seen, gc.isenabled()) == ([False], True)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


BLOCK = "import logging, sys; logging.disable(); sys.modules.update(dict.fromkeys({missing!r}))\n"
"""Importing a module whose entry is None raises `ModuleNotFoundError`. A client's thread would log
into the middle of the line with that error."""
ANY = "brokers='127.0.0.1:1'"


@pytest.mark.parametrize(
    ("missing", "program", "extra"),
    [
        (["pyarrow"], f"import odradek; odradek.read('t', {ANY})", "arrow"),
        (["pyarrow"], f"import odradek; next(iter(odradek.Consumer('t', {ANY}).arrow()))", "arrow"),
        (["pyarrow"], f"import odradek; odradek.Producer({ANY}).send_arrow('t', None)", "arrow"),
        (["pyspark"], "from odradek.spark import local_session", "spark"),
        (["pyspark"], "from odradek.spark import OdradekSource", "spark"),
        (["pyarrow"], "from odradek.spark import OdradekSource", "spark"),
        (["pyarrow"], "from odradek.spark import local_session", "spark"),
    ],
)
def test_an_extra_that_is_missing_is_named_with_the_command_that_installs_it(
    missing: list[str], program: str, extra: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BLOCK.format(missing=missing) + program],
        capture_output=True,
        text=True,
    )
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("ModuleNotFoundError")]
    assert f"pip install 'odradek[{extra}]'" in error


@pytest.mark.parametrize(
    ("arguments", "missing", "extra"),
    [
        (["spark", "check", "--master", "spark://h:7077"], ["pyspark", "py4j"], "spark"),
        (["demo", "--limit", "1"], ["pyspark"], "demo"),
        (["demo", "--limit", "1"], ["pyarrow"], "demo"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(
    arguments: list[str], missing: list[str], extra: str
) -> None:
    program = f"from odradek.cli.main import main; main({arguments!r})"
    done = subprocess.run(
        [sys.executable, "-c", BLOCK.format(missing=missing) + program],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"pip install 'odradek[{extra}]'" in done.stderr
