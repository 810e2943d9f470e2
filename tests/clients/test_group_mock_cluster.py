"""Our consumer in a group of librdkafka's mock cluster with errors.

Whatever the response to a group request, the consumer ends up with its partition, has read all
records without a gap, and commits; or the application gets an error and can go on.

The mock supports group requests only up to the versions that `cluster` sets. Its error responses to
FindCoordinator, JoinGroup and SyncGroup cannot be decoded (they have nulls where Kafka has none),
so those tests are about a coordinator that sends invalid responses; the unit tests of the
coordinator's errors cover the meaning of each error. A member that rejoins waits up to a second
less than its session timeout, so session timeouts are short here.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic

import confluent_kafka
import pytest

from clients.rdkafka_mock import DISCONNECT, MockCluster, library, mock_cluster
from odradek import Consumer, TopicPartition
from odradek.client.errors import (
    BrokerError,
    CommitFailed,
    FencedInstance,
    GroupAuthorizationError,
    KafkaError,
    RebalanceInProgress,
    TopicAuthorizationError,
)
from odradek.model.errors import ErrorCode

LONG_S = 90.0
TOPIC, GROUP = "t", "g"
PARTITION = TopicPartition(TOPIC, 0)
COUNT = 20
OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
SESSION_MS = 1_300
HURRY = {"topic.metadata.refresh.fast.interval.ms": 20}
"""The settings of the producer that fills the topic; by default it may learn of a leader a second
later.
"""
MOVING = [
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
]
UNREADABLE = [ErrorCode.NOT_COORDINATOR, ErrorCode.GROUP_AUTHORIZATION_FAILED, DISCONNECT]


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    lib = library()
    if lib is None:
        pytest.skip("confluent-kafka was not installed with its own librdkafka")
    with mock_cluster(lib, brokers=2) as running:
        running.create(TOPIC)
        running.lead(TOPIC, 0, 1)
        running.coordinate(GROUP, 1)
        running.rebalance_delay(1)
        for api_key, highest in ((JOIN_GROUP, 5), (SYNC_GROUP, 3), (HEARTBEAT, 3)):
            running.versions(api_key, 0, highest)
        running.versions(LEAVE_GROUP, 0, 1)
        producer = confluent_kafka.Producer(HURRY | {"bootstrap.servers": running.bootstrap})
        for number in range(COUNT):
            producer.produce(TOPIC, b"%d" % number)
        assert producer.flush(LONG_S) == 0
        yield running


def member(cluster: MockCluster) -> Consumer[bytes, bytes]:
    """Return a member of the group with short timeouts."""
    return Consumer(
        TOPIC,
        brokers=cluster.bootstrap,
        group=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=1,
        reconnect_backoff_ms=1,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=50,
    )


class Application:
    """Reads and checks that no record is skipped; records may repeat."""

    def __init__(self, consumer: Consumer[bytes, bytes]) -> None:
        self.consumer = consumer
        self.reached = 0
        self.deadline = monotonic() + LONG_S

    def poll(self) -> None:
        assert monotonic() < self.deadline, "the consumer does not catch up"
        record = self.consumer.poll(0.05)
        if record is not None:
            assert record.offset <= self.reached, "a record was skipped"
            assert record.value == b"%d" % record.offset
            self.reached = max(self.reached, record.offset + 1)

    def read_everything(self) -> None:
        while self.reached < COUNT:
            self.poll()

    def poll_until_told(self) -> None:
        while True:
            self.poll()

    def commit_until_refused(self, kind: type[KafkaError]) -> None:
        """Commit until the given error is raised; errors of rebalances in between do not count."""
        while True:
            self.poll()
            try:
                self.consumer.commit(timeout=LONG_S)
            except (CommitFailed, RebalanceInProgress) as error:
                if isinstance(error, kind):
                    raise

    def commit_everything(self) -> None:
        """Commit until everything is committed, which a rebalance may delay by a poll."""
        while True:
            self.poll()
            try:
                self.consumer.commit(timeout=LONG_S)
                found = self.consumer.committed(PARTITION)[PARTITION]
            except (CommitFailed, RebalanceInProgress):
                continue
            if found is not None and found.offset == COUNT:
                return

    def until_it_rejoined(self) -> None:
        """Poll until the listener was told of a loss or revocation, and then of an assignment."""
        before = len(CALLS)
        while CALLS[before:][-1:] != ["assigned"] or len(CALLS) < before + 2:
            self.poll()


CALLS: list[str] = []
"""The calls of the current test's listener."""


def listen(consumer: Consumer[bytes, bytes]) -> None:
    CALLS.clear()
    consumer.subscribe(
        TOPIC,
        on_assign=lambda *_: CALLS.append("assigned"),
        on_revoke=lambda *_: CALLS.append("revoked"),
        on_lost=lambda *_: CALLS.append("lost"),
    )


@pytest.mark.parametrize("code", UNREADABLE)
@pytest.mark.parametrize("api_key", [FIND_COORDINATOR, JOIN_GROUP, SYNC_GROUP])
def test_joining_is_retried_after_invalid_responses_of_the_coordinator(
    cluster: MockCluster, api_key: int, code: int
) -> None:
    cluster.fail_next(api_key, code, code)
    with member(cluster) as consumer:
        application = Application(consumer)
        application.read_everything()
        application.commit_everything()


@pytest.mark.parametrize("code", [*MOVING, ErrorCode.UNSTABLE_OFFSET_COMMIT, DISCONNECT])
def test_failed_offset_fetches_are_retried(cluster: MockCluster, code: int) -> None:
    cluster.fail_next(OFFSET_FETCH, code, code)
    with member(cluster) as consumer:
        application = Application(consumer)
        application.read_everything()
        application.commit_everything()


def test_an_unauthorized_offset_fetch_is_raised(cluster: MockCluster) -> None:
    cluster.fail_next(OFFSET_FETCH, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    with member(cluster) as consumer:
        application = Application(consumer)
        with pytest.raises(GroupAuthorizationError):
            application.read_everything()
        application.read_everything()
        application.commit_everything()


@pytest.mark.parametrize("code", [*MOVING, ErrorCode.REQUEST_TIMED_OUT, DISCONNECT])
def test_failed_commits_are_retried(cluster: MockCluster, code: int) -> None:
    with member(cluster) as consumer:
        application = Application(consumer)
        application.read_everything()
        cluster.fail_next(OFFSET_COMMIT, code, code)
        application.commit_everything()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationError),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, BrokerError),
        (ErrorCode.INVALID_COMMIT_OFFSET_SIZE, BrokerError),
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstance),
        (ErrorCode.REBALANCE_IN_PROGRESS, RebalanceInProgress),
        (ErrorCode.ILLEGAL_GENERATION, CommitFailed),
        (ErrorCode.UNKNOWN_MEMBER_ID, CommitFailed),
    ],
)
def test_a_refused_commit_is_raised_and_can_be_repeated(
    cluster: MockCluster, code: ErrorCode, kind: type[KafkaError]
) -> None:
    with member(cluster) as consumer:
        application = Application(consumer)
        application.read_everything()
        cluster.fail_next(OFFSET_COMMIT, code)
        with pytest.raises(kind):
            application.commit_until_refused(kind)
        application.commit_everything()


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    ],
)
def test_a_heartbeat_error_that_ends_the_generation_causes_a_rejoin(
    cluster: MockCluster, code: ErrorCode
) -> None:
    with member(cluster) as consumer:
        listen(consumer)
        application = Application(consumer)
        application.read_everything()
        cluster.fail_next(HEARTBEAT, code)
        application.until_it_rejoined()
        application.commit_everything()


@pytest.mark.parametrize("code", [*MOVING, DISCONNECT])
def test_failed_heartbeats_are_retried(cluster: MockCluster, code: int) -> None:
    with member(cluster) as consumer:
        application = Application(consumer)
        application.read_everything()
        cluster.fail_next(HEARTBEAT, code, code)
        application.commit_everything()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, GroupAuthorizationError),
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstance),
    ],
)
def test_a_fatal_heartbeat_error_is_raised(
    cluster: MockCluster, code: ErrorCode, kind: type[KafkaError]
) -> None:
    with member(cluster) as consumer:
        application = Application(consumer)
        application.read_everything()
        cluster.fail_next(HEARTBEAT, code)
        with pytest.raises(kind):
            application.poll_until_told()
        application.commit_everything()


@pytest.mark.parametrize("code", [*MOVING, ErrorCode.UNKNOWN_MEMBER_ID, DISCONNECT])
def test_a_consumer_closes_although_leave_group_fails(cluster: MockCluster, code: int) -> None:
    consumer = member(cluster)
    application = Application(consumer)
    application.read_everything()
    application.commit_everything()
    cluster.fail_next(LEAVE_GROUP, code)
    consumer.close()


def test_a_member_follows_a_coordinator_that_moves(cluster: MockCluster) -> None:
    with member(cluster) as consumer:
        application = Application(consumer)
        for broker in (2, 1, 2):
            application.read_everything()
            cluster.coordinate(GROUP, broker)
            application.commit_everything()


def test_a_member_continues_after_its_coordinator_was_down(cluster: MockCluster) -> None:
    cluster.coordinate(GROUP, 2)
    with member(cluster) as consumer:
        application = Application(consumer)
        application.read_everything()
        cluster.down(2)
        cluster.coordinate(GROUP, 1)
        application.commit_everything()
        cluster.up(2)
        cluster.coordinate(GROUP, 2)
        application.commit_everything()
