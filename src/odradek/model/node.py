"""Node: the id and the address of a broker, for connections to it."""

from __future__ import annotations

from typing import NamedTuple


class Node(NamedTuple):
    """A broker: its id and address."""

    id: int
    host: str
    port: int
    rack: str | None = None
