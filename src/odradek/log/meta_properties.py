"""`meta.properties`: which node of which cluster a data directory belongs to.

    #
    #2026-11-21T10:00:00                    (Kafka writes a date here; we do not)
    cluster.id=Lbb1xuqcTUyKnq1VgYwvBQ
    directory.id=0yJqkpEvTzuW2dNrLV8pLg
    node.id=1
    version=1

A directory with an unreadable or foreign identity is refused. It is never taken over, and nothing
in it is ever removed as an orphan.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from odradek.model.env import Disk
from odradek.model.topics import uuid_from_text, uuid_text

META_FILE = "meta.properties"


class WrongDirectory(Exception):
    """This data directory is not this node's, or does not say whose it is."""


@dataclass(slots=True, frozen=True)
class MetaProperties:
    """The identity of a data directory."""

    cluster_id: str
    node_id: int
    directory_id: UUID

    def encode(self) -> bytes:
        return (
            f"#\ncluster.id={self.cluster_id}\ndirectory.id={uuid_text(self.directory_id)}\n"
            f"node.id={self.node_id}\nversion=1\n"
        ).encode()


def read(disk: Disk, directory: str) -> MetaProperties | None:
    """The identity of `directory`; None if it has none yet. Raises `WrongDirectory`."""
    path = f"{directory}/{META_FILE}"
    if not disk.exists(path):
        return None
    lines = disk.read_file(path).decode("utf-8", "replace").splitlines()
    values = dict(
        line.partition("=")[::2] for line in lines if "=" in line and not line.startswith("#")
    )
    try:
        if values["version"] != "1":
            raise ValueError(f"version {values['version']}")
        return MetaProperties(
            values["cluster.id"], int(values["node.id"]), uuid_from_text(values["directory.id"])
        )
    except (KeyError, ValueError) as error:
        raise WrongDirectory(
            f"{path} cannot be read ({error}); restore it from a backup, or write it anew with "
            "cluster.id, node.id, directory.id and version=1"
        ) from error
