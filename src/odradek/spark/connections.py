"""The admin clients and consumers of this process, kept from task to task.

Spark reuses its Python workers across tasks and micro-batches, and unpickles readers and writers
for each task; only module state stays. So an admin client is opened once per process and set of
options; a consumer is lent to one reader at a time, and kept if the reader ended well. Python
workers are forked, and two processes must never share a socket: the process id in the key prevents
a child from using its parent's clients.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from odradek import Admin
from odradek.config.client import AdminConfig
from odradek.spark.options import ClientOptions, settings_for

if TYPE_CHECKING:
    from odradek import Consumer

PREFETCH_BYTES = 24 * 1024 * 1024
"""The default of `kafka.prefetch.max.bytes` in tasks: less than elsewhere, for there is a Python
process for every core. Three responses of 8 MiB: with two, the reader waits for the broker."""

_admins: dict[tuple[int, ClientOptions], Admin] = {}


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The options of a consumer."""

    client: ClientOptions
    read_committed: bool
    max_bytes: int
    max_partition_bytes: int


_consumers: dict[tuple[int, FetchOptions], Consumer[bytes, bytes]] = {}


def admin_of(options: ClientOptions) -> Admin:
    """Return this process's admin client for these options."""
    key = (os.getpid(), options)
    if key not in _admins:
        _admins[key] = Admin(
            settings_for(options.settings, AdminConfig),
            brokers=options.bootstrap_servers,
            client_id=options.client_id,
            request_timeout_ms=options.request_timeout_ms,
            default_api_timeout_ms=options.api_timeout_ms,
        )
    return _admins[key]


@contextlib.contextmanager
def borrow_consumer(options: FetchOptions) -> Iterator[Consumer[bytes, bytes]]:
    """Borrow a consumer for one reader; an error closes it."""
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
    """Open a consumer without a group, which fails instead of skipping records."""
    # Imported here: a process that only plans a stream may never read.
    from odradek import Consumer

    return Consumer(
        {"prefetch.max.bytes": PREFETCH_BYTES, **dict(options.client.settings)},
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
