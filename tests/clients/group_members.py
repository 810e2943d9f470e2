"""Processes of group members, as the test starts, stops and observes them.

    with Members(bootstrap, "group", "topic", "range") as members:
        a = members.start("odradek")
        b = members.start("confluent-kafka")
        members.await_whole(8)

Nothing here sleeps: a test waits for lines that members print (see `group_member`).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

SCRIPT = Path(__file__).with_name("group_member.py")
PATIENCE_S = 90
"""The patience for an expected event on a busy machine."""


class Member:
    """One process. `owned` is its last report, `read` all its reports."""

    def __init__(self, members: Members, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.owned: list[int] | None = None
        self.read: list[str] = []
        self.raised: list[str] = []
        self.calls: list[tuple[str, list[int]]] = []
        """The calls of its listener, if it reports them."""
        self.rebalances = 0
        self.ended = False
        self._members = members
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=members.stderr,
            text=True,
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                with self._members.news:
                    self._take(json.loads(line))
                    self._members.news.notify_all()
        with self._members.news:
            self.ended = True
            self._members.news.notify_all()

    def _take(self, told: dict[str, object]) -> None:
        match told:
            case {"owned": list(partitions)}:
                self.owned = partitions
                self.rebalances += 1
            case {"read": list(values)}:
                self.read += values
            case {"called": str(occasion), "with": list(partitions)}:
                self.calls.append((occasion, partitions))
            case {"raised": str(error)}:
                self.raised.append(error)

    def close(self) -> None:
        """Ask the member to close cleanly, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._reap()

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._process.kill()
        self._reap()

    def _reap(self) -> None:
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def stop(self) -> None:
        """Pause it with SIGSTOP."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume it with SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def __str__(self) -> str:
        state = "ended" if self.ended else f"owns {self.owned}"
        return f"{self.name} {state}, read {len(self.read)}, raised {self.raised}"


class Members:
    """The members of one group. All are ended when the block is left. `stderr` gets what they log;
    by default the test's own.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        strategy: str,
        session_ms: int = 6_000,
        *,
        stderr: IO[bytes] | None = None,
    ) -> None:
        self.stderr = stderr
        self.arguments = (bootstrap, group, topic, strategy, str(session_ms))
        self.news = threading.Condition()
        self._all: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for member in self._all:
            member.kill()

    def start(self, library: str, instance_id: str = "") -> Member:
        """Start a member with a Python library."""
        instance = [instance_id] if instance_id else []
        command = [sys.executable, str(SCRIPT), library, *self.arguments, *instance]
        return self.add(library, command)

    def add(self, name: str, command: Sequence[str]) -> Member:
        """Add a member that reports as `group_member` does."""
        member = Member(self, name, command)
        self._all.append(member)
        return member

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for reports until the condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        with self.news:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0 or not self.news.wait(left):
                    told = "; ".join(map(str, self._all))
                    raise AssertionError(f"not within {PATIENCE_S} s: {what}: {told}")

    def await_whole(self, partitions: int, *members: Member) -> None:
        """Wait until these members own every partition once, and each at least one."""

        def all_partitions_owned() -> bool:
            owned = [number for member in members for number in member.owned or ()]
            return sorted(owned) == list(range(partitions)) and all(m.owned for m in members)

        self.until(all_partitions_owned, f"{len(members)} members share {partitions} partitions")

    def await_read(self, values: Sequence[str]) -> None:
        """Wait until every record was read by a member."""
        wanted = set(values)

        def read() -> bool:
            return wanted <= {value for member in self._all for value in member.read}

        self.until(read, f"{len(wanted)} records are read")
