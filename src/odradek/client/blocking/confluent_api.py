"""The producer's methods for users of confluent-kafka: `produce`, `produce_batch`, `poll`.

Arguments and results are confluent-kafka's. Callbacks run by themselves, so `poll` does nothing.
Where a producer blocks while its buffer is full (`on_full="block"`, the default) so do these. The
methods for transactions have confluent-kafka's names too: see `blocking.transactions`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from odradek.client.errors import ClientClosed, KafkaError
from odradek.client.producer.producer_batch import DeliveryCallback
from odradek.client.producer.send_path import ANY_PARTITION, Headers, checked_partition

K = TypeVar("K")
V = TypeVar("V")

MESSAGE_KEYS = frozenset(
    ("value", "key", "headers", "partition", "timestamp", "on_delivery", "callback")
)


class ConfluentProducerApi(Generic[K, V]):
    """The methods, for a class with `send`."""

    send: Callable[..., object]

    def produce(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int = -1,
        on_delivery: DeliveryCallback | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
        callback: DeliveryCallback | None = None,
    ) -> None:
        """`send` with confluent-kafka's arguments; `callback` is another name for `on_delivery`."""
        self.send(
            topic,
            value,
            key=key,
            headers=headers,
            partition=None if partition == ANY_PARTITION else partition,
            timestamp=timestamp or None,
            on_delivery=on_delivery or callback,
        )

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: DeliveryCallback | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> int:
        """`produce` each of `messages`: mappings of `value`, `key`, `headers`, `partition`,
        `timestamp`, `on_delivery` (or `callback`); the arguments are the defaults.

        Returns how many were queued. A message that was not has the `KafkaError` as its `_error`.
        `send_many` is faster, with one timestamp, partition and headers for all, and returns the
        deliveries. Raises, before any is queued, `TypeError` unless `messages` is a list of such
        mappings, and `ValueError` for an invalid partition; also `ClientClosed`.
        """
        check_messages(messages)
        default_callback = on_delivery or callback
        queued = 0
        for message in messages:
            message.pop("_error", None)
            given = {"partition": partition, **message}
            own = given.pop("on_delivery", None) or given.pop("callback", None)
            try:
                self.produce(topic, **given, on_delivery=own or default_callback)
                queued += 1
            except ClientClosed:
                raise
            except KafkaError as error:
                message["_error"] = error
        return queued

    def poll(self, timeout: float = 0) -> int:
        """Return 0: callbacks run by themselves. For programs written for confluent-kafka."""
        return 0


def check_messages(messages: list[dict[str, Any]]) -> None:
    """Raise the errors of `produce_batch` for an invalid argument."""
    if not isinstance(messages, list):
        raise TypeError(f"{messages!r} is no list of messages")
    for message in messages:
        if not isinstance(message, dict) or message.keys() - MESSAGE_KEYS - {"_error"}:
            known = ", ".join(sorted(MESSAGE_KEYS))
            raise TypeError(f"{message!r} is no message: give a dict of {known}")
        partition = message.get("partition")
        if partition is not None and partition != ANY_PARTITION:
            checked_partition(partition)
