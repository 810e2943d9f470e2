"""Build this machine's packages and try each in an empty environment: `python scripts/wheels.py`.

Into `dist/`: an sdist, and from it a wheel with compiled leaves and a pure one. Each wheel is
installed with its dependencies into a new environment, where the README's first session and
`odradek.testing.Broker` are run and records are produced and consumed. A table shows the rates,
also as ratios to this checkout's (`make setup`) in alternating rounds, and the seconds from the
start of `pip install` to the first acknowledged record; the figures are appended to
`bench/results/wheels.jsonl`. The exit code is 1 if a package cannot be
built or fails.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
TRIAL = ROOT / "scripts" / "wheel_trial.py"
RESULTS = ROOT / "bench" / "results" / "wheels.jsonl"
KINDS = {"1": "compiled", "0": "interpreted (built with ODRADEK_COMPILE=0)"}
"""`ODRADEK_COMPILE` -> what `odradek --version` says of the leaves."""
WORK = ("produced", "consumed")
ROUNDS = 5


def say(text: str) -> None:
    print(f"wheels: {text}", file=sys.stderr, flush=True)


def build_sdist() -> Path:
    run([sys.executable, "-m", "build", "--sdist", "--outdir", str(DIST), str(ROOT)])
    return next(DIST.glob("odradek-*.tar.gz"))


def build_wheel(sdist: Path, wish: str) -> Path:
    """A wheel from the sdist, as pip builds one."""
    before = set(DIST.glob("*.whl"))
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(DIST), str(sdist)]
    run(command, {"ODRADEK_COMPILE": wish})
    return next(iter(set(DIST.glob("*.whl")) - before))


def tried(wheel: Path, leaves: str) -> dict[str, float]:
    """Install the wheel in an empty environment and run the trial there; its rates, their ratios to
    this checkout's, and the seconds from the begin of the installation to the first acknowledged
    record.

    pip uses no cache, as on a machine where it installs the dependencies for the first time."""
    with tempfile.TemporaryDirectory(prefix="odradek-wheel-") as work:
        venv.create(work, with_pip=True)
        python = str(Path(work, "bin", "python"))
        options = ("-q", "--disable-pip-version-check", "--no-cache-dir")
        begin = time.time()
        run([python, "-m", "pip", "install", *options, str(wheel)])
        acknowledged = float(run([python, str(TRIAL), "first-record"], cwd=work))
        # Away from the checkout, whose sources must not be found.
        run([python, str(TRIAL), leaves], cwd=work)
        rounds = [(rates(python, work), rates(sys.executable, work)) for _ in range(ROUNDS)]
    figures = {"first record": acknowledged - begin}
    for name in WORK:
        figures[name] = statistics.median(wheels[name] for wheels, _ in rounds)
        ratio = statistics.median(wheels[name] / here[name] for wheels, here in rounds)
        figures[f"{name}, ratio"] = ratio
    return figures


def rates(python: str, work: str) -> dict[str, float]:
    """Records per second that the trial produces and consumes."""
    found: dict[str, float] = json.loads(run([python, str(TRIAL), "rates"], cwd=work))
    return found


def run(command: list[str], environment: dict[str, str] | None = None, cwd: str = "/") -> str:
    done = subprocess.run(
        command, cwd=cwd, env={**os.environ, **(environment or {})}, capture_output=True, text=True
    )
    if done.returncode != 0:
        sys.stderr.write(done.stdout + done.stderr)
        say(f"failed: {' '.join(command)}")
        sys.exit(1)
    return done.stdout


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    say("an sdist")
    sdist = build_sdist()
    table = Table(
        "package",
        "KiB",
        "leaves",
        "produced, records/s (to make setup)",
        "consumed, records/s (to make setup)",
        "pip install to first record, s",
    )
    table.add_row(sdist.name, f"{sdist.stat().st_size / 1024:,.0f}", "", "", "", "")
    lines = []
    for wish, leaves in KINDS.items():
        say(f"a wheel from it, ODRADEK_COMPILE={wish}" + " (2-4 minutes)" * (wish == "1"))
        wheel = build_wheel(sdist, wish)
        say(f"{wheel.name} in an empty environment")
        figures = tried(wheel, leaves)
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        lines.append(json.dumps({"at": at, "wheel": wheel.name, "leaves": leaves, **figures}))
        size = f"{wheel.stat().st_size / 1024:,.0f}"
        shown = [f"{figures[name]:,.0f} ({figures[f'{name}, ratio']:.2f})" for name in WORK]
        first = f"{figures['first record']:.1f}"
        table.add_row(wheel.name, size, leaves.partition(" ")[0], *shown, first)
    with RESULTS.open("a") as results:
        results.writelines(f"{line}\n" for line in lines)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
