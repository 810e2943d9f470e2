"""What `odradek doctor` makes of versions, leaves and Java."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from odradek.cli import package_checks
from odradek.cli.finding import CheckStatus
from odradek.cli.package_checks import (
    check_java,
    check_packages,
    judge_leaves,
    judge_package,
    judge_python,
    parse_requirement,
    satisfies,
)
from odradek.spark import java


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("h11>=0.16", ("h11", ">=0.16", None)),
        ('pyarrow>=18; extra == "arrow"', ("pyarrow", ">=18", "arrow")),
        ("pyspark<4.4,>=4.2; extra == 'spark'", ("pyspark", "<4.4,>=4.2", "spark")),
        ('pyspark[connect,pipelines]; extra == "dev"', ("pyspark", "", "dev")),
        ("python-dateutil (>=2.9)", ("python-dateutil", ">=2.9", None)),
    ],
)
def test_a_requirement_has_a_name_limits_and_perhaps_an_extra(
    text: str, parsed: tuple[str, str, str | None]
) -> None:
    assert parse_requirement(text) == parsed


@pytest.mark.parametrize(
    ("version", "limits", "holds"),
    [
        ("4.3.0", ">=4.2,<4.4", True),
        ("4.4", ">=4.2,<4.4", False),
        ("4.10", ">=4.9", True),
        ("18", ">=18.0", True),
        ("17.9.9", ">=18", False),
        ("2.4.1", "==2.4.1", True),
        ("4.4.0rc1", "<4.4", False),
        ("1", "", True),
    ],
)
def test_versions_are_compared_number_by_number(version: str, limits: str, holds: bool) -> None:
    assert satisfies(version, limits) is holds


def test_a_package_that_is_missing_or_too_old_fails_with_the_command_that_installs_it() -> None:
    missing = judge_package("h11", None, ">=0.16")
    old = judge_package("h11", "0.9", ">=0.16")
    assert {missing.state, old.state} == {CheckStatus.FAIL}
    assert missing.what_to_do == old.what_to_do == "pip install 'h11>=0.16'"
    assert judge_package("h11", "0.16.0", ">=0.16").state is CheckStatus.OK
    assert judge_package("pyspark", "3.5.0", "").state is CheckStatus.FAIL
    assert judge_python((3, 10), "3.10.1").state is CheckStatus.FAIL


@pytest.mark.parametrize(
    ("mode", "advice"),
    [
        ("interpreted (ODRADEK_INTERPRETED=1)", "unset ODRADEK_INTERPRETED"),
        ("interpreted (sources changed since `make compile`)", "make compile"),
        ("interpreted (no C compiler was found)", "--no-binary"),
    ],
)
def test_interpreted_leaves_are_a_warning_with_the_way_to_compile_them(
    mode: str, advice: str
) -> None:
    finding = judge_leaves(mode)
    assert (
        finding.state is CheckStatus.WARN and advice in finding.what_to_do and mode in finding.found
    )
    assert judge_leaves("compiled").state is CheckStatus.OK


def test_extras_that_are_not_installed_are_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        metadata,
        "requires",
        lambda name: ["click>=8", 'pyarrow>=18; extra == "arrow"', 'ruff; extra == "dev"'],
    )
    monkeypatch.setattr(
        package_checks, "version_of", lambda name: "8.1" if name == "click" else None
    )
    found = {each.check: each for each in check_packages()}
    assert "ruff" not in found and found["click"].state is CheckStatus.OK
    assert found["extra arrow"].state is CheckStatus.OK
    assert "odradek[arrow]" in found["extra arrow"].what_to_do


def test_java_matters_with_pyspark_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package_checks, "version_of", lambda name: None)
    assert check_java().state is CheckStatus.OK
    monkeypatch.setattr(package_checks, "version_of", lambda name: "4.3.0")
    monkeypatch.setattr(java, "candidates", lambda: iter([("PATH", Path("/j"))]))
    for version, state in ((17, CheckStatus.OK), (11, CheckStatus.FAIL), (None, CheckStatus.FAIL)):
        monkeypatch.setattr(java, "probe", lambda path, v=version: (v, True))
        assert check_java().state is state
