"""The build backend: when a wheel has compiled leaves, and what it does when it cannot."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "build_backend"))

import odradek_build as backend
from setuptools import build_meta

NO_COMPILER = "a C compiler was not found when the package was built"


class Setuptools:
    """Stands in for `build_meta.build_wheel`: notes what setup.py would be told; may fail to
    compile."""

    def __init__(self, fails: bool) -> None:
        self.fails = fails
        self.builds: list[tuple[str, str]] = []

    def build_wheel(self, directory: str, settings: object, metadata: object) -> str:
        wish = os.environ["ODRADEK_COMPILE"]
        self.builds.append((wish, os.environ["ODRADEK_NOT_COMPILED"]))
        if self.fails and wish == "1":
            raise SystemExit("error: command 'gcc' failed with exit code 1")
        return "odradek.whl"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Setuptools:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ODRADEK_COMPILE", raising=False)
    monkeypatch.setattr(backend, "what_is_missing", lambda: None)
    stand_in = Setuptools(fails=False)
    monkeypatch.setattr(build_meta, "build_wheel", stand_in.build_wheel)
    return stand_in


def test_leaves_are_compiled_where_nothing_is_missing(built: Setuptools) -> None:
    assert backend.build_wheel("dist") == "odradek.whl"
    assert built.builds == [("1", "")]


def test_a_wheel_is_pure_where_a_compiler_is_missing(
    built: Setuptools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "what_is_missing", lambda: "a C compiler")
    backend.build_wheel("dist")
    assert built.builds == [("0", NO_COMPILER)]


def test_odradek_compile_0_makes_a_pure_wheel(
    built: Setuptools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_COMPILE", "0")
    backend.build_wheel("dist")
    assert built.builds == [("0", "built with ODRADEK_COMPILE=0")]
    assert os.environ["ODRADEK_COMPILE"] == "0"


def test_a_compilation_that_fails_leaves_a_pure_wheel_and_a_reason(
    built: Setuptools, capsys: pytest.CaptureFixture[str]
) -> None:
    built.fails = True
    backend.build_wheel("dist")
    reason = "the compilation failed when the package was built"
    assert built.builds == [("1", ""), ("0", reason)]
    assert "gcc' failed with exit code 1): this wheel is pure Python" in capsys.readouterr().err
    assert "ODRADEK_COMPILE" not in os.environ


def test_odradek_compile_1_fails_with_the_compilation(
    built: Setuptools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_COMPILE", "1")
    built.fails = True
    with pytest.raises(SystemExit, match="gcc"):
        backend.build_wheel("dist")
    assert built.builds == [("1", "")]


def test_odradek_compile_1_names_what_is_missing(
    built: Setuptools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_COMPILE", "1")
    monkeypatch.setattr(backend, "what_is_missing", lambda: "a C compiler")
    with pytest.raises(SystemExit, match=r"a C compiler was not found\. What to do: install"):
        backend.build_wheel("dist")


def test_another_value_of_odradek_compile_is_refused(
    built: Setuptools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODRADEK_COMPILE", "yes")
    with pytest.raises(
        SystemExit, match=r"ODRADEK_COMPILE is 'yes'\. What to do: set it to 1 or 0"
    ):
        backend.get_requires_for_build_wheel()


@pytest.mark.parametrize(("missing", "wanted"), [(None, True), ("a C compiler", False)])
def test_mypy_is_required_only_where_it_compiles(
    built: Setuptools, monkeypatch: pytest.MonkeyPatch, missing: str | None, wanted: bool
) -> None:
    monkeypatch.setattr(backend, "what_is_missing", lambda: missing)
    wishes: list[str] = []

    def requires(settings: object) -> list[str]:
        wishes.append(os.environ["ODRADEK_COMPILE"])
        return []

    monkeypatch.setattr(build_meta, "get_requires_for_build_wheel", requires)
    Path("pyproject.toml").write_text('[project]\ndependencies = ["msgspec>=0.19"]\n')
    assert (backend.MYPY in backend.get_requires_for_build_wheel()) is wanted
    assert wishes == ["0"], "setup.py would import mypyc before it is installed"


def test_modules_of_an_earlier_build_do_not_get_into_a_wheel(built: Setuptools) -> None:
    old = Path("build/lib.linux-x86_64-cpython-311/odradek/gone.py")
    old.parent.mkdir(parents=True)
    old.touch()
    backend.build_wheel("dist")
    assert not old.exists()
