"""Interceptors: objects of the application that see every record on its way through a client.

    Producer(interceptors=[a, b])

    send ─► a.on_send ─► b.on_send ─► serializers ─► broker
    an outcome ─► a.on_acknowledgement ─► b.on_acknowledgement ─► on_delivery ─► future

    Consumer("orders", interceptors=[a, b])

    broker ─► deserializers ─► a.on_consume ─► b.on_consume ─► application
    a commit succeeded ─► a.on_commit ─► b.on_commit

They are Kafka's ProducerInterceptor and ConsumerInterceptor (KIP-42). An interceptor derives from
one of the two classes here, or from both, and overrides the methods that it needs; the others cost
nothing. The methods run in the order of the list, and each gets what the one before it returned.

An exception is logged and passed over: the record goes on as the last interceptor left it that did
not fail, and the next one is called. So is a result of the wrong kind. Of each method, one failure
in ten seconds is logged, with the number of those since. Only exceptions that are to end the
program (KeyboardInterrupt, SystemExit) are raised to the caller of `send` or `poll`.

Methods must be fast and must not wait for the client they belong to: all records pass through them.
They are plain functions in `odradek.aio` too, where they run in the event loop and block it as long
as they run. Coroutine functions are refused.

An object may be given to several clients; it is closed by each of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.client.errors import ConfigError
from odradek.client.interceptor_hook import Hook
from odradek.model.env import Clock
from odradek.model.topics import TopicPartition
from odradek.protocol.records import Header

if TYPE_CHECKING:
    from odradek.client.arrow_types import ArrowBatch
    from odradek.client.consumer.batch import OffsetAndMetadata
    from odradek.client.consumer.record import Record
    from odradek.client.producer.futures import Deliveries, Delivery
    from odradek.client.producer.intercepted_send import ProducerRecord, ProducerRecords


class ProducerInterceptor:
    """The base class of interceptors of a producer; its methods do nothing.

    Each record that `on_send` got has exactly one `on_acknowledgement`, and each call of
    `send_many` or `send_arrow` exactly one `on_acknowledgement_many`.
    """

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Return the record to send instead of this one, or this one.

        Called by `send`, `enqueue`, `send_nowait` and `produce` on the caller's thread, before the
        serializers. The topic, partition, headers and everything else may be changed: see
        `ProducerRecord.replace`.
        """
        return record

    def on_send_many(self, records: ProducerRecords) -> ProducerRecords:
        """Return the records to send instead of these, or these.

        Called once by `send_many` and by `send_arrow`, on the caller's thread; `on_send` is not
        called for their records.
        """
        return records

    def on_acknowledgement(
        self, delivery: Delivery, error: BaseException | None, headers: Sequence[Header]
    ) -> None:
        """A record was acknowledged (`error` is None), or failed.

        `headers` are those that it was sent with. Called before the record's `on_delivery`, on the
        thread that sends records (in `odradek.aio`: in the event loop), for each partition in the
        order of its records. If `send` raises, because the record cannot be queued, this is called
        on the caller's thread with that error before; `delivery.partition` is -1 then if no
        partition was given or chosen.
        """

    def on_acknowledgement_many(
        self, deliveries: Deliveries, error: BaseException | None, headers: Sequence[Header]
    ) -> None:
        """All records of a `send_many` or `send_arrow` have an outcome, which `deliveries` has.

        `error` is what the call raised, if it did: `deliveries` has the records before the one at
        fault then. `headers` are those that all records were sent with. Called on the thread that
        sends records, or on the caller's if nothing was queued.
        """

    def close(self) -> None:
        """The producer was closed: nothing more is called."""


class ConsumerInterceptor:
    """The base class of interceptors of a consumer; its methods do nothing.

    They run on the application's thread, inside polls, commits and `close`.
    """

    def on_consume(self, records: list[Record[Any, Any]]) -> list[Record[Any, Any]]:
        """Return the records that the application is to get instead of these, or these.

        They are records of one partition in the order of their offsets, up to 500 at once, as they
        are decoded ahead: `poll` and iteration return them one by one afterwards. A list that is
        returned has some of them, in the same order, as they are or as `Record.replace` makes them.
        Positions also pass those that are left out.

        Records that are not returned after all, because partitions were revoked or the application
        seeks, come again when they are read again.
        """
        return records

    def on_consume_arrow(self, batch: ArrowBatch) -> ArrowBatch:
        """Return the Arrow batch that the application is to get instead of this one, or this one.

        Called for each batch of `Consumer.arrow`, after the values are decoded; `on_consume` is not
        called for its rows. A batch that is returned has the same columns.
        """
        return batch

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        """Offsets were committed, automatically or by `commit`.

        Called after the commit succeeded: in the call that waits for it, else in the next poll,
        commit or `close`. Many commits between two polls are told as one.
        """

    def close(self) -> None:
        """The consumer was closed, after its last commit: nothing more is called."""


InterceptorT = TypeVar("InterceptorT", ProducerInterceptor, ConsumerInterceptor)

LIST = "What to do: give objects, such as interceptors=[Audit()]"


def checked_interceptors(given: object, base: type[InterceptorT]) -> list[InterceptorT]:
    """Return the interceptors that a client's constructor got; None is none. Raises
    `ConfigError`."""
    if given is None:
        return []
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ConfigError(f"interceptors is {given!r}, not a list of interceptors. {LIST}")
    checked: list[InterceptorT] = []
    for each in given:
        if not isinstance(each, base):
            raise ConfigError(
                f"interceptor {each!r} is not derived from {base.__name__}. What to do: give "
                "objects of classes of yours that derive from it, such as interceptors=[Audit()]"
            )
        for name in vars(base):
            if inspect.iscoroutinefunction(getattr(each, name)):
                raise ConfigError(
                    f"{type(each).__name__}.{name} is a coroutine function, which an interceptor "
                    "cannot have. What to do: make it a plain function; it may start a task"
                )
        checked.append(each)
    return checked


def hooks(
    interceptors: Sequence[ProducerInterceptor] | Sequence[ConsumerInterceptor],
    method: Callable[..., Any],
    clock: Clock,
) -> list[Hook]:
    """Return the hooks of all interceptors that override a method of their base class."""
    name = method.__name__
    found: list[Hook] = []
    for each in interceptors:
        own = getattr(each, name)
        if getattr(own, "__func__", own) is not method:
            found.append(Hook(own, f"{type(each).__name__}.{name}", clock))
    return found
