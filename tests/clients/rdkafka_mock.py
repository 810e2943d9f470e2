"""librdkafka's mock cluster, with configurable errors.

confluent-kafka includes the library; its Python side can only start a cluster
(`test.mock.num.brokers`). Errors of brokers are configured in the library itself, through ctypes.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PRODUCER_TYPE = 0
PRODUCE, INIT_PRODUCER_ID, API_VERSIONS = 0, 22, 18
ERROR_BYTES = 512
DISCONNECT = -195
"""librdkafka's own code for a broken connection: the mock closes it without answering."""


def library() -> Any:
    """Return the shared library inside confluent-kafka's wheel, None if it is built otherwise."""
    found = importlib.util.find_spec("confluent_kafka")
    if found is None or found.origin is None:
        return None
    beside = Path(found.origin).parent.parent / "confluent_kafka.libs"
    for path in sorted(beside.glob("librdkafka*.so*")):
        return declare(ctypes.CDLL(str(path)))
    return None


def declare(lib: Any) -> Any:
    """Declare the types of the functions that are used."""
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    lib.rd_kafka_conf_new.restype = pointer
    lib.rd_kafka_conf_set.argtypes = [pointer, text, text, text, ctypes.c_size_t]
    lib.rd_kafka_new.restype = pointer
    lib.rd_kafka_new.argtypes = [ctypes.c_int, pointer, text, ctypes.c_size_t]
    lib.rd_kafka_destroy.argtypes = [pointer]
    lib.rd_kafka_mock_cluster_new.restype = pointer
    lib.rd_kafka_mock_cluster_new.argtypes = [pointer, ctypes.c_int]
    lib.rd_kafka_mock_cluster_destroy.argtypes = [pointer]
    lib.rd_kafka_mock_cluster_bootstraps.restype = text
    lib.rd_kafka_mock_cluster_bootstraps.argtypes = [pointer]
    lib.rd_kafka_mock_topic_create.argtypes = [pointer, text, ctypes.c_int, ctypes.c_int]
    lib.rd_kafka_mock_push_request_errors_array.argtypes = [
        pointer,
        ctypes.c_int16,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_int),
    ]
    lib.rd_kafka_mock_broker_set_down.argtypes = [pointer, ctypes.c_int32]
    lib.rd_kafka_mock_broker_set_up.argtypes = [pointer, ctypes.c_int32]
    lib.rd_kafka_mock_partition_set_leader.argtypes = [
        pointer,
        text,
        ctypes.c_int32,
        ctypes.c_int32,
    ]
    lib.rd_kafka_mock_coordinator_set.argtypes = [pointer, text, text, ctypes.c_int32]
    lib.rd_kafka_mock_group_initial_rebalance_delay_ms.argtypes = [pointer, ctypes.c_int32]
    lib.rd_kafka_mock_set_apiversion.argtypes = [
        pointer,
        ctypes.c_int16,
        ctypes.c_int16,
        ctypes.c_int16,
    ]
    return lib


class MockCluster:
    """A running cluster; see `mock_cluster`."""

    def __init__(self, lib: Any, handle: int) -> None:
        self._lib = lib
        self._handle = handle
        self.bootstrap: str = lib.rd_kafka_mock_cluster_bootstraps(handle).decode()

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic with one replica."""
        self._check(
            self._lib.rd_kafka_mock_topic_create(self._handle, topic.encode(), partitions, 1)
        )

    def fail_next(self, api_key: int, *codes: int) -> None:
        """Answer the next requests of a kind with these errors, without executing them."""
        array = (ctypes.c_int * len(codes))(*codes)
        self._lib.rd_kafka_mock_push_request_errors_array(self._handle, api_key, len(codes), array)

    def down(self, broker: int) -> None:
        """Close the broker's connections and accept none."""
        self._check(self._lib.rd_kafka_mock_broker_set_down(self._handle, broker))

    def up(self, broker: int) -> None:
        self._check(self._lib.rd_kafka_mock_broker_set_up(self._handle, broker))

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Make a broker the leader of a partition."""
        self._check(
            self._lib.rd_kafka_mock_partition_set_leader(
                self._handle, topic.encode(), partition, broker
            )
        )

    def coordinate(self, group: str, broker: int) -> None:
        """Make a broker the coordinator of a group; all brokers know the group itself."""
        self._check(
            self._lib.rd_kafka_mock_coordinator_set(self._handle, b"group", group.encode(), broker)
        )

    def rebalance_delay(self, delay_ms: int) -> None:
        """Set how long a new group waits for more members; the default is 3 s."""
        self._lib.rd_kafka_mock_group_initial_rebalance_delay_ms(self._handle, delay_ms)

    def versions(self, api_key: int, lowest: int, highest: int) -> None:
        """Set the versions of an API that the brokers support."""
        self._check(self._lib.rd_kafka_mock_set_apiversion(self._handle, api_key, lowest, highest))

    def _check(self, code: int) -> None:
        if code:
            raise RuntimeError(f"the mock cluster answered {code}")


@contextmanager
def mock_cluster(lib: Any, brokers: int = 1) -> Iterator[MockCluster]:
    """Run a cluster until the block is left."""
    reason = ctypes.create_string_buffer(ERROR_BYTES)
    settings = lib.rd_kafka_conf_new()
    lib.rd_kafka_conf_set(settings, b"log_level", b"0", reason, ERROR_BYTES)
    owner = lib.rd_kafka_new(PRODUCER_TYPE, settings, reason, ERROR_BYTES)
    if not owner:
        raise RuntimeError(reason.value.decode())
    handle = lib.rd_kafka_mock_cluster_new(owner, brokers)
    try:
        yield MockCluster(lib, handle)
    finally:
        lib.rd_kafka_mock_cluster_destroy(handle)
        lib.rd_kafka_destroy(owner)
