"""A defect of kafka-python 3.0 that ends its clients when a broker leaves, and a way around it."""

from __future__ import annotations

from typing import Any


def survive_leaving_brokers() -> None:
    """Let requests to a broker that has just left the metadata fail as those to one that is down.

    kafka-python raises where it handles no error: its producer has already taken the batches, and
    never sends that partition again; its consumer raises from `poll`.
    """
    from kafka.errors import NodeNotReadyError, UnknownBrokerIdError
    from kafka.net.manager import KafkaConnectionManager

    get_connection = KafkaConnectionManager.get_connection

    def get_known(self: Any, node_id: Any, *args: Any, **keywords: Any) -> Any:
        try:
            return get_connection(self, node_id, *args, **keywords)
        except UnknownBrokerIdError as error:
            raise NodeNotReadyError(node_id) from error

    KafkaConnectionManager.get_connection = get_known
