"""ControllerLifecycle: the life of a node that is a controller alone (`process.roles=controller`).

    quorum ─► a leader is known, and its metadata committed here ─► `caught_up` ─► `ready`

Such a node registers nowhere: no partition is assigned to it, and its address is that of a voter.
It has nothing to give up before it stops; the quorum elects another leader.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.log.log_directory import NO_BROKER_EPOCH

if TYPE_CHECKING:
    from odradek.broker.broker import Broker


class ControllerLifecycle:
    """Takes the place of a `BrokerLifecycleManager`. Owner thread."""

    epoch = NO_BROKER_EPOCH

    def __init__(
        self, broker: Broker, *, caught_up: Callable[[], None], ready: Callable[[], None]
    ) -> None:
        """`caught_up`: called once; ends in `logs_opened`. `ready`: called after that."""
        self._broker = broker
        self._caught_up = caught_up
        self._ready = ready
        self._has_caught_up = False
        self._stopped = False

    def start(self) -> None:
        """Begin to wait for the metadata."""
        self._look()

    def metadata_committed(self) -> None:
        """The committed image has moved."""
        self._look()

    def controller_changed(self) -> None:
        """Another node leads the quorum, or none is known."""
        self._look()

    def _look(self) -> None:
        metadata = self._broker.metadata
        known = metadata.raft.core.leader_id is not None and metadata.committed_offset > 0
        if known and not self._has_caught_up and not self._stopped:
            self._has_caught_up = True
            self._caught_up()

    def logs_opened(self) -> None:
        """The directory is open; there are no logs of partitions in it."""
        self._ready()

    def session_ended(self) -> bool:
        """False: it has no session, and leads no partition that others may have taken over."""
        return False

    def directory_failed(self) -> None:
        """Do nothing: the quorum was told, and there are no leaderships to move."""

    def directory_cordoned(self, cordoned: bool) -> None:
        """Do nothing: no partition is placed on a controller alone."""

    def shut_down(self, may_stop: Callable[[], None]) -> None:
        """Call `may_stop` at once."""
        may_stop()

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True
