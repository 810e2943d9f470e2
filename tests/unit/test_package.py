"""What `import odradek` gives, and what it does not cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

import odradek
import odradek.aio
import odradek.errors
from odradek.client import errors
from odradek.client.aio import admin as awaited
from odradek.client.blocking import admin as blocking


def test_the_clients_are_there_when_asked_for() -> None:
    assert odradek.Admin is blocking.Admin
    assert odradek.aio.Admin is awaited.Admin
    assert odradek.KafkaError is errors.KafkaError
    assert all(getattr(odradek, name) is not None for name in odradek.__all__)
    assert set(odradek.__all__) <= set(dir(odradek))


def test_the_names_for_asyncio_are_the_same() -> None:
    named = ("Admin", "Consumer", "Producer", "process")
    clients = {name for name in odradek.__all__ if name in named}
    assert set(odradek.aio.__all__) == clients


def test_all_errors_can_be_imported_from_one_place() -> None:
    assert set(odradek.errors.__all__) == set(errors.__all__)
    for name in errors.__all__:
        assert getattr(odradek.errors, name) is getattr(errors, name)


def test_a_name_there_is_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Broker'"):
        odradek.__getattr__("Broker")


def test_asyncio_and_errors_need_no_import_of_their_own() -> None:
    program = (
        "import odradek; print(odradek.aio.Admin.__name__, odradek.errors.KafkaError.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["Admin", "KafkaError"], done.stderr


@pytest.mark.parametrize("program", ["import odradek", "import odradek.cli.main"])
def test_importing_it_imports_no_client(program: str) -> None:
    count = "import sys; print(sum(name.startswith('odradek.client') for name in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; {count}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0"


def test_importing_it_imports_none_of_the_extras() -> None:
    program = (
        "import sys, odradek, odradek.cli.main; odradek.Producer, odradek.Consumer, odradek.Admin; "
        "print(*{'pyarrow', 'pandas', 'pyspark', 'numpy', 'asyncio'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("\n", "")


@pytest.mark.parametrize(
    ("missing", "use", "extra"),
    [
        ("pyarrow", "odradek.read('t')", "arrow"),
        ("pyspark", "from odradek.spark import local_session; local_session()", "spark"),
    ],
)
def test_an_extra_that_is_missing_is_named(missing: str, use: str, extra: str) -> None:
    program = f"import sys; sys.modules['{missing}'] = None; import odradek; {use}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert f"pip install 'odradek[{extra}]'" in done.stderr.splitlines()[-1]


def test_on_a_foreign_platform_the_import_says_where_it_runs() -> None:
    program = "import os; os.name = 'nt'; import odradek"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: Odradek runs on Linux and macOS")
    assert "What to do: on Windows, install it in WSL" in done.stderr
