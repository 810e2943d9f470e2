"""Who wants to know how the connections to nodes fare."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from odradek.client.errors.base import KafkaError


@mypyc_attr(allow_interpreted_subclasses=True)
class ConnectionListener:
    """Told about connections, never from within a call to the client."""

    def node_ready(self, node_id: int) -> None:
        """Requests to the node leave at once now (again)."""

    def node_disconnected(self, node_id: int, error: KafkaError) -> None:
        """It could not be connected to, or the connection was lost; its requests have failed."""

    def rebootstrap_required(self) -> None:
        """A node says that it is not of the cluster, or not the node, it was taken for."""
