"""Which modules are compiled, and the promise that an edit never runs against a stale binary.

The leaves are ordinary typed Python. `make compile` (and a wheel built with `ODRADEK_COMPILE=1`)
turns them into extension modules with mypyc and writes `compiled_leaves.json`, the SHA-256 of every
source that was compiled. Python prefers an extension module to the `.py` beside it, so `install`,
called by the package before any leaf is imported, puts a finder in front that loads the sources
instead whenever

- `ODRADEK_INTERPRETED=1` asks for it (the tests of the leaves run in both forms), or
- a source no longer has the digest it was compiled from.

Leaves call each other natively, so it is all of them or none.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

LEAVES: tuple[str, ...] = (
    "odradek.protocol.frame",
    "odradek.protocol.header",
    "odradek.protocol.hot_requests",
    "odradek.protocol.hot_responses",
    "odradek.protocol.primitives",
    "odradek.protocol.record_batch",
    "odradek.protocol.record_batch_builder",
    "odradek.protocol.record_columns",
    "odradek.protocol.records",
    "odradek.protocol.validate",
    "odradek.timing.delayed_operation",
    "odradek.timing.purgatory",
    "odradek.timing.timer",
    "odradek.timing.timing_wheel",
)

PACKAGE = Path(__file__).parent
MANIFEST = PACKAGE / "compiled_leaves.json"


def source_of(leaf: str) -> Path:
    """The source file of a leaf, given its dotted module name."""
    return PACKAGE.joinpath(*leaf.split(".")[1:]).with_suffix(".py")


def digests() -> dict[str, str]:
    """Module name -> SHA-256 of its source, for every leaf."""
    return {leaf: hashlib.sha256(source_of(leaf).read_bytes()).hexdigest() for leaf in LEAVES}


def mode() -> str:
    """`compiled` or `interpreted`: the form in which the leaves run in this process, with the
    reason.
    """
    if not MANIFEST.exists():
        return "interpreted (not compiled)"
    if os.environ.get("ODRADEK_INTERPRETED") == "1":
        return "interpreted (ODRADEK_INTERPRETED=1)"
    if any(isinstance(finder, SourceFinder) for finder in sys.meta_path):
        return "interpreted (sources changed since `make compile`)"
    return "compiled"


def install() -> None:
    """Make the leaves load from source where the compiled form is not wanted or no longer true."""
    if not MANIFEST.exists() or any(isinstance(finder, SourceFinder) for finder in sys.meta_path):
        return
    interpreted = os.environ.get("ODRADEK_INTERPRETED") == "1"
    if interpreted or json.loads(MANIFEST.read_text()) != digests():
        sys.meta_path.insert(0, SourceFinder())


class SourceFinder(MetaPathFinder):
    """Finds the leaves in their `.py` files, before the import system sees the extension modules.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in LEAVES:
            return None
        return importlib.util.spec_from_file_location(fullname, source_of(fullname))
