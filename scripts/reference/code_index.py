"""The page that says which modules read a setting and which name an error of the protocol."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from odradek.config.topic import TopicConfig
from odradek.model.errors import ErrorCode
from scripts.reference.settings import GROUPS

SOURCE = Path(__file__).parents[2] / "src"
LEFT_OUT = ("config", "demo", "testing")
"""Packages that declare settings, or are clients of their own (the simulator's)."""
CLIENTS = ("client", "spark")
"""Packages whose settings are others."""
OWNER = re.compile(r"config|settings", re.IGNORECASE)
INTRODUCTION = """\
# Settings and errors in the code

<!-- Rendered from the code: `make reference` writes this page again. -->

Where to begin when a setting or an error is looked for: the modules below `odradek` that read the
setting of a broker or topic, perhaps only to hand it on, and those of broker and clients that name
the error, to answer it or to handle it. `docs/where.md` has the behaviours.
"""

Uses = Mapping[str, list[str]]


def page() -> str:
    """The page as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    settings, errors = _uses()
    yield INTRODUCTION
    yield "## Settings\n"
    yield "| Setting | Read in |"
    yield "|---|---|"
    declared = {name: each for _, group in GROUPS for name, each in group.declared.items()}
    declared |= {name: each for name, each in TopicConfig.declared.items() if not each.hidden}
    for name in sorted(declared):
        if found := settings.get(declared[name].attribute):
            yield _row(name, found)
    yield "\n## Errors\n"
    yield "| Error | Named in |"
    yield "|---|---|"
    for error in sorted(ErrorCode, key=lambda each: each.name):
        if found := errors.get(error.name):
            yield _row(error.name, found)
    yield ""


def _row(name: str, modules: list[str]) -> str:
    return f"| `{name}` | {', '.join(f'`{module}`' for module in modules)} |"


def _uses() -> tuple[Uses, Uses]:
    """The modules by attribute of a setting, and by error."""
    settings: dict[str, list[str]] = defaultdict(list)
    errors: dict[str, list[str]] = defaultdict(list)
    package = SOURCE / "odradek"
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if parts[0] in LEFT_OUT or parts[-1] == "__init__":
            continue
        module = ".".join(parts)
        named, read = set(), set()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute):
                continue
            owner = ast.unparse(node.value)
            if owner == "ErrorCode":
                named.add(node.attr)
            elif OWNER.search(owner.rpartition(".")[2]):
                read.add(node.attr)
        for name in named:
            errors[name].append(module)
        for name in read if parts[0] not in CLIENTS else ():
            settings[name].append(module)
    del errors["NONE"]
    return settings, errors
