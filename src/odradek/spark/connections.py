"""The clients of this process, kept from task to task.

Spark reuses its Python workers across tasks and micro-batches, and unpickles readers and writers
anew for each; what lives in a module stays. An admin client is therefore opened once per process
and set of options; a consumer is lent to one reader at a time, and kept if that came to its end.
Python workers are forked: what a parent opened is not used by its child (two processes must never
share a socket), which the process id in the key sees to.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek import Admin
from odradek.config.client import AdminConfig
from odradek.spark.options import ClientOptions, those_of

if TYPE_CHECKING:
    from odradek import Consumer

_admins: dict[tuple[int, ClientOptions], Admin] = {}


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How a consumer is to read."""

    client: ClientOptions
    read_committed: bool
    max_bytes: int
    max_partition_bytes: int


_consumers: dict[tuple[int, FetchOptions], Consumer[bytes, bytes]] = {}


def admin_of(options: ClientOptions) -> Admin:
    """This process's admin client for these options."""
    key = (os.getpid(), options)
    if key not in _admins:
        _admins[key] = Admin(
            those_of(options.settings, AdminConfig),
            brokers=options.bootstrap_servers,
            client_id=options.client_id,
            request_timeout_ms=options.request_timeout_ms,
            default_api_timeout_ms=options.api_timeout_ms,
        )
    return _admins[key]


@contextlib.contextmanager
def lent_consumer(options: FetchOptions) -> Iterator[Consumer[bytes, bytes]]:
    """A consumer for nobody else; closed unless all went well."""
    key = (os.getpid(), options)
    consumer = _consumers.pop(key, None) or open_consumer(options)
    try:
        yield consumer
        consumer.assign([])
    except BaseException:
        consumer.close()
        raise
    if key in _consumers:
        consumer.close()
    else:
        _consumers[key] = consumer


def open_consumer(options: FetchOptions) -> Consumer[bytes, bytes]:
    """One without a group, that jumps over nothing."""
    # A process that only plans a stream may never read.
    from odradek import Consumer

    return Consumer(
        dict(options.client.settings),
        brokers=options.client.bootstrap_servers,
        client_id=options.client.client_id,
        request_timeout_ms=options.client.request_timeout_ms,
        default_api_timeout_ms=options.client.api_timeout_ms,
        auto_offset_reset="none",
        allow_auto_create_topics=False,
        isolation_level="read_committed" if options.read_committed else "read_uncommitted",
        fetch_max_bytes=options.max_bytes,
        max_partition_fetch_bytes=options.max_partition_bytes,
    )
