"""Only what pyproject.toml cannot say: the compiled leaves, when `ODRADEK_COMPILE=1` asks for them.

Without it the wheel is pure Python and no compiler is needed. The manifest of digests is written by
`scripts/compile.py` in a checkout and by `BuildWithManifest` in a wheel; see
`src/odradek/leaves.py`.
"""

import importlib.util
import os
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent


def load_leaves():
    """`odradek.leaves` without importing the package (its dependencies are not here while
    building).
    """
    spec = importlib.util.spec_from_file_location("leaves", ROOT / "src/odradek/leaves.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildWithManifest(build_py):
    """Writes beside the package which sources the extension modules were compiled from."""

    def run(self):
        super().run()
        target = Path(self.build_lib) / "odradek" / "compiled_leaves.json"
        if not self.editable_mode:
            target.unlink(missing_ok=True)
            target.write_text(load_leaves().manifest())


options = {}
leaves = load_leaves()
if os.environ.get("ODRADEK_COMPILE") == "1" and leaves.LEAVES:
    from mypyc.build import mypycify

    sys.path.insert(0, str(ROOT / "src"))
    options = {
        "ext_modules": mypycify(
            ["--strict", *(str(leaves.source_of(leaf)) for leaf in leaves.LEAVES)],
            opt_level="3",
            group_name="odradek",
        ),
        "cmdclass": {"build_py": BuildWithManifest},
    }

setup(**options)
