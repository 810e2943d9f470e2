"""The faults of a chaos run: each is injected, lasts for a while, and is healed.

| fault           | what happens                                                          |
|-----------------|-----------------------------------------------------------------------|
| kill            | SIGKILL; the broker is started again at once                          |
| stop            | SIGTERM, a clean shutdown; the broker is started again                |
| suspend         | SIGSTOP for a while: connections stay open and nothing answers        |
| cut             | all connections are reset, new ones refused                           |
| deaf            | requests do not arrive, answers do; then the connections are reset    |
| mute            | requests arrive, answers do not; then the connections are reset       |
| disk full       | every append fails with ENOSPC for a while; the broker goes on        |
| fsync fails     | every fsync fails with EIO: the directory is fenced. Then kill        |
| killed starting | SIGKILL, and another one while the broker recovers                    |
"""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass

from chaos.node import Node
from chaos.proxy import Direction, Proxy

SHORT_S = (0.2, 3.0)
LONG_S = (0.5, 8.0)
"""A writer whose request times out after 5 s meets both: answers in time, and none."""


@dataclass(slots=True)
class Target:
    """The broker, the network before it, and the random numbers of the run."""

    node: Node
    proxy: Proxy
    random: random.Random

    def wait(self, seconds: tuple[float, float]) -> None:
        """Wait for a random time."""
        threading.Event().wait(self.random.uniform(*seconds))


def kill(target: Target) -> None:
    target.node.kill()
    target.node.start()


def stop(target: Target) -> None:
    code = target.node.stop()
    if code != 0:
        raise AssertionError(f"a clean stop ended with exit code {code}")
    target.node.start()


def suspend(target: Target) -> None:
    target.node.suspend()
    target.wait(LONG_S)
    target.node.resume()


def cut(target: Target) -> None:
    target.proxy.cut()
    target.wait(SHORT_S)
    target.proxy.heal()


def deaf(target: Target) -> None:
    target.proxy.hold(Direction.TO_BROKER)
    target.wait(LONG_S)
    target.proxy.heal()


def mute(target: Target) -> None:
    target.proxy.hold(Direction.TO_CLIENT)
    target.wait(LONG_S)
    target.proxy.heal()


def disk_full(target: Target) -> None:
    target.node.disk(f"append {errno.ENOSPC}")
    target.wait(SHORT_S)
    target.node.disk("works")


def fsync_fails(target: Target) -> None:
    target.node.disk(f"sync {errno.EIO}")
    target.wait(SHORT_S)
    kill(target)


def killed_starting(target: Target) -> None:
    target.node.kill()
    target.node.start(wait=False)
    target.wait((0.0, 0.6))
    target.node.kill()
    target.node.start()


FAULTS: dict[str, Callable[[Target], None]] = {
    "kill": kill,
    "stop": stop,
    "suspend": suspend,
    "cut": cut,
    "deaf": deaf,
    "mute": mute,
    "disk full": disk_full,
    "fsync fails": fsync_fails,
    "killed starting": killed_starting,
}
