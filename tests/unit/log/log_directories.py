"""Data directories on a disk in memory: opening, crashing and damaging them."""

from __future__ import annotations

import random
from uuid import UUID

from odradek.log.log_directory import LogDirectory
from odradek.log.memory_disk import MemoryDisk
from odradek.model.env import Disk
from odradek.model.topics import TopicIdPartition

TOPIC = UUID("e4db0fc8-5d12-4aa0-9093-d1ea987aa815")


def key(partition: int) -> TopicIdPartition:
    return TopicIdPartition(TOPIC, partition)


def open_directory(disk: Disk, path: str = "data", **identity: object) -> LogDirectory:
    cluster_id = identity.get("cluster_id")
    node_id = identity.get("node_id", 1)
    assert cluster_id is None or isinstance(cluster_id, str)
    assert isinstance(node_id, int)
    return LogDirectory(disk, path, random.Random(1), cluster_id=cluster_id, node_id=node_id)


def crash(disk: MemoryDisk) -> None:
    """End the process: its lock is gone, the page cache survives."""
    disk.locks.clear()


def damage(disk: MemoryDisk, position: int) -> None:
    disk.files[f"data/{key(0)}/{0:020d}.log"].content[position] ^= 1
