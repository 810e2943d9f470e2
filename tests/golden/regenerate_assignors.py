"""Regenerate the golden assignor results with Kafka's own assignors. Needs Java 17+ and Maven.

    python tests/golden/regenerate_assignors.py

Review the changes before you commit them: a new version of Kafka may assign differently.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from golden.assignor_cases import Case, cases
from interop.apache_kafka import class_path

HERE = Path(__file__).parent
RESULTS = HERE / "assignors.json.gz"
GROUPS, ROUNDS = 150, 7


def answers(asked: list[Case], jars: str) -> list[Case]:
    """Return the driver's result for each case."""
    command = ["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp", jars]
    done = subprocess.run(
        [*command, str(HERE / "AssignorDriver.java")],
        input="\n".join(json.dumps(case) for case in asked),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def main() -> None:
    cache = HERE.parents[1] / ".pytest_cache" / "d" / "apache-kafka"
    cache.mkdir(parents=True, exist_ok=True)
    asked = list(cases(GROUPS, ROUNDS))
    kept = [
        case | answer for case, answer in zip(asked, answers(asked, class_path(cache)), strict=True)
    ]
    lines = "\n".join(json.dumps(case, separators=(",", ":"), ensure_ascii=False) for case in kept)
    RESULTS.write_bytes(gzip.compress(lines.encode(), compresslevel=9, mtime=0))
    print(f"{len(kept)} cases, {RESULTS.stat().st_size} bytes")


if __name__ == "__main__":
    main()
