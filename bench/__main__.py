"""Run the benchmarks: `python -m bench [NAME ...] [-- ARGUMENTS]`; without a name, all of them.

`NAME` is what follows `bench_` in the name of a module here; ARGUMENTS go to each that is run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
NAMES = [path.stem.removeprefix("bench_") for path in sorted(HERE.glob("bench_*.py"))]


def main(arguments: list[str]) -> int:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    names, passed_on = arguments[:at] or NAMES, arguments[at + 1 :]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"bench: no {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    ends = []
    for name in names:
        print(f"bench: {name}", file=sys.stderr)
        ends.append(subprocess.call([sys.executable, HERE / f"bench_{name}.py", *passed_on]))
    return max(ends)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
