"""Who wants to know of the partitions of a topic: a coordinator that keeps its state in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

if TYPE_CHECKING:
    from odradek.replication.partition import Partition


@mypyc_attr(allow_interpreted_subclasses=True)
class PartitionListener(ABC):
    """Registered in `ReplicaManager.listeners` under the name of its topic. Owner thread."""

    @abstractmethod
    def opened(self, partition: Partition) -> None:
        """A partition of the topic is led here from now on."""

    @abstractmethod
    def moved(self, partition: Partition) -> None:
        """Its high watermark moved; or, if it has a `failure`, it went away."""
