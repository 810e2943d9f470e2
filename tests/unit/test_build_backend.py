"""The build backend: when a wheel has compiled leaves, and what it does when it cannot."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

BACKEND = Path(__file__).parents[2] / "build_backend" / "odradek_build.py"
NO_COMPILER = "a C compiler was not found when the package was built"


class BuildMeta(ModuleType):
    """Replaces `setuptools.build_meta`: notes what setup.py would be told; may fail to compile.

    The real one is not imported: setuptools replaces distutils in the process that runs the tests.
    """

    def __init__(self) -> None:
        super().__init__("setuptools.build_meta")
        self.fails = False
        self.builds: list[tuple[str, str]] = []
        self.wishes: list[str] = []
        for name in (
            "build_sdist",
            "get_requires_for_build_editable",
            "get_requires_for_build_sdist",
            "prepare_metadata_for_build_editable",
        ):
            setattr(self, name, None)

    def build_wheel(self, directory: str, settings: object, metadata: object) -> str:
        wish = os.environ["ODRADEK_COMPILE"]
        self.builds.append((wish, os.environ["ODRADEK_NOT_COMPILED"]))
        if self.fails and wish == "1":
            raise SystemExit("error: command 'gcc' failed with exit code 1")
        return "odradek.whl"

    def get_requires_for_build_wheel(self, settings: object) -> list[str]:
        self.wishes.append(os.environ["ODRADEK_COMPILE"])
        return []


@pytest.fixture
def built() -> BuildMeta:
    return BuildMeta()


@pytest.fixture
def backend(built: BuildMeta, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The backend's module, on a machine where nothing is missing, in an empty directory."""
    setuptools = ModuleType("setuptools")
    setuptools.build_meta = built  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "setuptools", setuptools)
    monkeypatch.setitem(sys.modules, "setuptools.build_meta", built)
    spec = importlib.util.spec_from_file_location("odradek_build", BACKEND)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ODRADEK_COMPILE", raising=False)
    monkeypatch.setattr(module, "found_missing", module.what_is_missing, raising=False)
    monkeypatch.setattr(module, "what_is_missing", lambda: None)
    return module


def test_leaves_are_compiled_where_nothing_is_missing(backend: Any, built: BuildMeta) -> None:
    assert backend.build_wheel("dist") == "odradek.whl"
    assert built.builds == [("1", "")]


def test_a_wheel_is_pure_where_a_compiler_is_missing(
    backend: Any, built: BuildMeta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "what_is_missing", lambda: "a C compiler")
    backend.build_wheel("dist")
    assert built.builds == [("0", NO_COMPILER)]


def test_a_foreign_python_gets_a_pure_wheel_with_the_reason(
    backend: Any, built: BuildMeta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(name="pypy"))
    monkeypatch.setattr(backend, "what_is_missing", backend.found_missing)
    backend.build_wheel("dist")
    ((compiled, reason),) = built.builds
    assert compiled == "0"
    assert reason.startswith("CPython (pypy has no use for its extensions) was not found")


def test_a_foreign_platform_without_a_compiler_or_headers_names_what_is_missing(
    backend: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CC", "cl.exe")
    assert backend.found_missing() == "a C compiler"
    monkeypatch.setattr(backend, "compiler", lambda: "/usr/bin/cc")
    monkeypatch.setattr(backend.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    assert backend.found_missing() == "Python's headers (python3-dev)"


def test_odradek_compile_0_makes_a_pure_wheel(
    backend: Any, built: BuildMeta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_COMPILE", "0")
    backend.build_wheel("dist")
    assert built.builds == [("0", "built with ODRADEK_COMPILE=0")]
    assert os.environ["ODRADEK_COMPILE"] == "0"


def test_a_compilation_that_fails_leaves_a_pure_wheel_and_a_reason(
    backend: Any, built: BuildMeta, capsys: pytest.CaptureFixture[str]
) -> None:
    built.fails = True
    backend.build_wheel("dist")
    reason = "the compilation failed when the package was built"
    assert built.builds == [("1", ""), ("0", reason)]
    assert "gcc' failed with exit code 1): this wheel is pure Python" in capsys.readouterr().err
    assert "ODRADEK_COMPILE" not in os.environ


def test_odradek_compile_1_fails_with_the_compilation(
    backend: Any, built: BuildMeta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_COMPILE", "1")
    built.fails = True
    with pytest.raises(SystemExit, match="gcc"):
        backend.build_wheel("dist")
    assert built.builds == [("1", "")]


def test_odradek_compile_1_names_what_is_missing(
    backend: Any, built: BuildMeta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_COMPILE", "1")
    monkeypatch.setattr(backend, "what_is_missing", lambda: "a C compiler")
    with pytest.raises(SystemExit, match=r"a C compiler was not found\. What to do: install"):
        backend.build_wheel("dist")


def test_another_value_of_odradek_compile_is_refused(
    backend: Any, built: BuildMeta, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_COMPILE", "yes")
    with pytest.raises(
        SystemExit, match=r"ODRADEK_COMPILE is 'yes'\. What to do: set it to 1 or 0"
    ):
        backend.get_requires_for_build_wheel()


@pytest.mark.parametrize(("missing", "wanted"), [(None, True), ("a C compiler", False)])
def test_mypy_is_required_only_where_it_compiles(
    backend: Any,
    built: BuildMeta,
    monkeypatch: pytest.MonkeyPatch,
    missing: str | None,
    wanted: bool,
) -> None:
    monkeypatch.setattr(backend, "what_is_missing", lambda: missing)
    Path("pyproject.toml").write_text('[project]\ndependencies = ["msgspec>=0.19"]\n')
    assert (backend.MYPY in backend.get_requires_for_build_wheel()) is wanted
    assert built.wishes == ["0"], "setup.py would import mypyc before it is installed"


def test_a_directory_that_cannot_be_written_is_refused_with_the_way_out(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(SystemExit, match=r"cannot be written.*from a copy"):
        backend.get_requires_for_build_wheel()


def test_modules_of_an_earlier_build_do_not_get_into_a_wheel(
    backend: Any, built: BuildMeta
) -> None:
    old = Path("build/lib.linux-x86_64-cpython-311/odradek/gone.py")
    old.parent.mkdir(parents=True)
    old.touch()
    backend.build_wheel("dist")
    assert not old.exists()
