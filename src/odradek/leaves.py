"""The modules that mypyc compiles, and the import hook that never loads a stale binary.

The leaves are ordinary typed Python. `make compile` (and pip, where it can)
compiles them to extension modules and writes `compiled_leaves.json` with a digest of each source.
Python prefers an extension module to the `.py` beside it. The package calls `install` before it
imports any leaf: it adds a finder that loads the sources instead if

- `ODRADEK_INTERPRETED=1` is set (the tests of the leaves run in both forms), or
- a source has changed since it was compiled, or that of a constant in it (`INLINED`), or the
  manifest is missing.

Leaves call each other natively, so either all are compiled or none. Every start imports this
module, so it imports as little as possible.

Tests: unit/test_leaves.py
"""

from __future__ import annotations

import os
import sys
import zlib
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

LEAVES: tuple[str, ...] = (
    "odradek.broker.context",
    "odradek.broker.coordinator_topics",
    "odradek.broker.dispatch",
    "odradek.broker.fetch_sessions",
    "odradek.broker.handlers.fetch",
    "odradek.broker.handlers.heartbeat",
    "odradek.broker.handlers.produce",
    "odradek.broker.request_metrics",
    "odradek.broker.transaction_markers",
    "odradek.client.consumer.fetch.collector",
    "odradek.client.consumer.fetch.completed_fetch",
    "odradek.client.consumer.fetch.fetcher",
    "odradek.client.consumer.fetch.session",
    "odradek.client.consumer.metrics",
    "odradek.client.consumer.position.deferred_errors",
    "odradek.client.consumer.position.position",
    "odradek.client.consumer.position.subscription_state",
    "odradek.client.consumer.record",
    "odradek.client.deserializers",
    "odradek.client.interceptor_hook",
    "odradek.client.producer.batch_completion",
    "odradek.client.producer.buffer_pool",
    "odradek.client.producer.futures",
    "odradek.client.producer.intercepted_send",
    "odradek.client.producer.metrics",
    "odradek.client.producer.partition_queue",
    "odradek.client.producer.partitioner",
    "odradek.client.producer.produce_request",
    "odradek.client.producer.producer_batch",
    "odradek.client.producer.producer_core",
    "odradek.client.producer.record_accumulator",
    "odradek.client.producer.record_input",
    "odradek.client.producer.send_path",
    "odradek.client.producer.sender",
    "odradek.client.producer.settings",
    "odradek.client.producer.transaction_manager",
    "odradek.client.serializers",
    "odradek.client.waiter",
    "odradek.coordinator.group.classic_group",
    "odradek.coordinator.group.coordinator",
    "odradek.coordinator.group.group_shard",
    "odradek.coordinator.group.heartbeat",
    "odradek.coordinator.group.member",
    "odradek.coordinator.group.static_members",
    "odradek.coordinator.operation",
    "odradek.coordinator.records",
    "odradek.coordinator.runtime",
    "odradek.coordinator.shard",
    "odradek.coordinator.timers",
    "odradek.coordinator.transaction.add_partitions",
    "odradek.coordinator.transaction.coordinator",
    "odradek.coordinator.transaction.end_txn",
    "odradek.coordinator.transaction.ids_by_change",
    "odradek.coordinator.transaction.markers",
    "odradek.coordinator.transaction.transaction_metadata",
    "odradek.coordinator.transaction.transaction_record_codec",
    "odradek.coordinator.transaction.transaction_shard",
    "odradek.coordinator.transaction.transaction_state",
    "odradek.log.compaction.batch_retention",
    "odradek.log.compaction.transaction_outcomes",
    "odradek.log.fence",
    "odradek.log.files.local_file",
    "odradek.log.index",
    "odradek.log.leader_batches",
    "odradek.log.leader_epochs",
    "odradek.log.log",
    "odradek.log.log_reader",
    "odradek.log.log_segments",
    "odradek.log.open_transactions",
    "odradek.log.producer_state",
    "odradek.log.segment",
    "odradek.log.transaction_index",
    "odradek.log.verification",
    "odradek.model.byte_ranges",
    "odradek.model.column_builders",
    "odradek.model.histogram",
    "odradek.model.java_hash",
    "odradek.model.sampled_stat",
    "odradek.model.stopwatch",
    "odradek.network.connection",
    "odradek.network.framing",
    "odradek.network.loop_load",
    "odradek.network.output",
    "odradek.network.reactor",
    "odradek.network.server",
    "odradek.network.transport",
    "odradek.network_client.alarm",
    "odradek.network_client.api_versions",
    "odradek.network_client.backoff",
    "odradek.network_client.channel",
    "odradek.network_client.connection_states",
    "odradek.network_client.in_flight_requests",
    "odradek.network_client.network_client",
    "odradek.network_client.network_metrics",
    "odradek.network_client.node_connection",
    "odradek.protocol.control_records",
    "odradek.protocol.frame",
    "odradek.protocol.hot_codec",
    "odradek.protocol.hot_fetch",
    "odradek.protocol.hot_heartbeat",
    "odradek.protocol.hot_produce",
    "odradek.protocol.primitives",
    "odradek.protocol.record_batch",
    "odradek.protocol.record_batch_builder",
    "odradek.protocol.record_columns",
    "odradek.protocol.records",
    "odradek.protocol.validate",
    "odradek.replication.delete_records",
    "odradek.replication.fetch",
    "odradek.replication.flusher",
    "odradek.replication.follower_fetch",
    "odradek.replication.leadership",
    "odradek.replication.list_offsets",
    "odradek.replication.partition",
    "odradek.replication.produce",
    "odradek.replication.replica_manager",
    "odradek.timing.delayed_operation",
    "odradek.timing.purgatory",
    "odradek.timing.timer",
    "odradek.timing.timer_task",
    "odradek.timing.timing_wheel",
)

INLINED: tuple[str, ...] = (
    "odradek.broker.long_requests",
    "odradek.broker.transaction_verification",
    "odradek.client.arguments",
    "odradek.client.transaction",
    "odradek.log.scan",
    "odradek.model.version",
    "odradek.protocol.api.api_versions",
    "odradek.protocol.api_keys",
    "odradek.protocol.consumer_protocol",
)
"""Modules that are not compiled, and whose `Final` constants the leaves have inside."""

PACKAGE = os.path.dirname(os.path.abspath(__file__))
MANIFEST = os.path.join(PACKAGE, "compiled_leaves.json")
NOT_COMPILED = os.path.join(PACKAGE, "not_compiled.txt")


def source_of(leaf: str) -> str:
    """The path of the source of a module, given its dotted name."""
    return os.path.join(PACKAGE, *leaf.split(".")[1:]) + ".py"


def digest(leaf: str) -> str:
    """The size and CRC-32 of a module's source."""
    with open(source_of(leaf), "rb") as source:
        data = source.read()
    return f"{len(data)}-{zlib.crc32(data):08x}"


def manifest() -> str:
    """The content of `compiled_leaves.json` for the present sources."""
    lines = (f' "{leaf}": "{digest(leaf)}"' for leaf in (*LEAVES, *INLINED))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def is_compiled_from_these_sources() -> bool:
    """True if the extension modules were compiled from the present sources."""
    try:
        with open(MANIFEST, encoding="utf-8") as written:
            return written.read() == manifest()
    except FileNotFoundError:
        return False


def mode() -> str:
    """`compiled`, or `interpreted` with the reason: the form of the leaves in this process."""
    if not os.path.exists(MANIFEST):
        return f"interpreted ({reason_not_compiled()})"
    if os.environ.get("ODRADEK_INTERPRETED") == "1":
        return "interpreted (ODRADEK_INTERPRETED=1)"
    if any(isinstance(finder, SourceFinder) for finder in sys.meta_path):
        return "interpreted (sources changed since `make compile`)"
    if not any(os.path.exists(path) for path in extensions_of(LEAVES[0])):
        here = EXTENSION_SUFFIXES[0]
        return f"interpreted (compiled for another Python or platform, not for {here})"
    return "compiled"


def extensions_of(leaf: str) -> list[str]:
    """The paths where this Python looks for the extension module of a leaf."""
    stem = source_of(leaf).removesuffix(".py")
    return [stem + suffix for suffix in EXTENSION_SUFFIXES]


def reason_not_compiled() -> str:
    """Why an installed package has no extension modules, as its build noted it."""
    try:
        with open(NOT_COMPILED, encoding="utf-8") as note:
            return note.read().strip()
    except FileNotFoundError:
        return "not compiled"


def install() -> None:
    """Make the leaves load from their sources if the compiled form is stale or disabled."""
    if any(isinstance(finder, SourceFinder) for finder in sys.meta_path):
        return
    # An interrupted compilation leaves extensions without a manifest. They are not used either.
    if os.environ.get("ODRADEK_INTERPRETED") == "1" or not is_compiled_from_these_sources():
        sys.meta_path.insert(0, SourceFinder())


class SourceFinder:
    """Finds leaves in their `.py` files, before the import system finds the extensions."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in LEAVES:
            return None
        source = source_of(fullname)
        spec = ModuleSpec(fullname, SourceFileLoader(fullname, source), origin=source)
        spec.has_location = True
        return spec
