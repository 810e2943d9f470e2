"""Only what pyproject.toml cannot say: the compiled leaves, when `ODRADEK_COMPILE=1` asks for them,
and the addresses of the repository that builds the package.

The build backend (`build_backend/odradek_build.py`) and `scripts/compile.py` set that variable. A
wheel has either the manifest of the sources that were compiled (see `src/odradek/leaves.py`) or
`not_compiled.txt`, which says why there are none.
"""

import importlib.util
import os
import sys
from email.parser import HeaderParser
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
COMPILE = os.environ.get("ODRADEK_COMPILE") == "1"


def load_leaves():
    """`odradek.leaves` without importing the package, whose dependencies are not there while
    building.
    """
    spec = importlib.util.spec_from_file_location("leaves", ROOT / "src/odradek/leaves.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


leaves = load_leaves()


class BuildWithNote(build_py):
    """Writes into the package what was compiled, or why nothing was."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        package = Path(self.build_lib) / "odradek"
        note = package / os.path.basename(leaves.MANIFEST if COMPILE else leaves.NOT_COMPILED)
        # Where the package's own file was linked here, it must not be written through.
        note.unlink(missing_ok=True)
        reason = os.environ.get("ODRADEK_NOT_COMPILED") or "built without"
        note.write_text(leaves.manifest() if COMPILE else reason + "\n")


def project_urls():
    """The addresses of the repository whose workflow builds this, or those of the sdist that it is
    built from; none where neither is known.
    """
    repository = os.environ.get("GITHUB_REPOSITORY")
    if repository:
        home = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{repository}"
        return {
            "Homepage": home,
            "Documentation": f"{home}/tree/HEAD/docs",
            "Changelog": f"{home}/blob/HEAD/CHANGELOG.md",
            "Issues": f"{home}/issues",
        }
    of_sdist = ROOT / "PKG-INFO"
    if not of_sdist.exists():
        return {}
    headers = HeaderParser().parsestr(of_sdist.read_text())
    return dict(each.split(", ", 1) for each in headers.get_all("Project-URL", []))


options = {"cmdclass": {"build_py": BuildWithNote}, "project_urls": project_urls()}
if COMPILE:
    from mypyc.build import mypycify

    sys.path.insert(0, str(ROOT / "src"))
    modules = mypycify(
        ["--strict", *(str(leaves.source_of(leaf)) for leaf in leaves.LEAVES)],
        opt_level="3",
        group_name="odradek",
    )
    if sys.platform != "win32":
        # Compiled functions are one library's own: without this, GCC makes their calls replaceable
        # by other libraries, so that it inlines none and each goes through a table. Warnings about
        # what it inlined differ from version to version: mypyc makes them errors.
        for module in modules:
            module.extra_compile_args = [
                *module.extra_compile_args,
                "-fvisibility=hidden",
                "-Wno-error",
            ]
    options["ext_modules"] = modules

setup(**options)
