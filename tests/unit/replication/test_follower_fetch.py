"""Serving followers: what is due, what is held back, what a newer fetch answers."""

from __future__ import annotations

from odradek.log.memory_disk import MemoryFile
from odradek.model.errors import ErrorCode
from odradek.protocol.hot_fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from odradek.replication.follower_fetch import (
    FIRST_RECORDS_MAX,
    RESULTS_MAX,
    DelayedFollowerFetch,
    FollowerFetches,
    FollowerResponse,
)
from unit.replication.memory_replicas import TOPIC_ID
from unit.replication.replicated import Replicated, registration

FOLLOWER = 2
EPOCH = 100


class Serving:
    """A leader and the fetches of broker 2; `answers` are those of parked ones, in order."""

    def __init__(self) -> None:
        self.led = Replicated()
        self.partition = self.led.replica(registration())
        self.fetches = FollowerFetches(self.led.replicas)
        self.connection = object()
        self.answers: list[FollowerResponse] = []
        self.session = self.epoch = 0

    def listed(
        self, offset: int, durable: int, *, epoch: int = 0, last: int = -1, number: int = 0
    ) -> list[FetchPartition]:
        return [
            FetchPartition(
                partition=number,
                current_leader_epoch=epoch,
                fetch_offset=offset,
                last_fetched_epoch=last,
                log_start_offset=0,
                partition_max_bytes=1 << 20,
                durable_end=durable,
            )
        ]

    def fetch(
        self,
        listed: list[FetchPartition] | None = None,
        *,
        forget: bool = False,
        broker: int = FOLLOWER,
        max_bytes: int = 1 << 20,
    ) -> FollowerResponse | None:
        """Fetch in the session; None if the request is parked."""
        topics = [FetchTopic(topic_id=TOPIC_ID, partitions=listed)] if listed else []
        forgotten = [ForgottenTopic(topic_id=TOPIC_ID, partitions=[0])] if forget else []
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            session_id=self.session,
            session_epoch=self.epoch,
            topics=topics,
            forgotten_topics_data=forgotten,
        )
        found = self.fetches.fetch(
            broker, EPOCH, request, max_bytes, self.answers.append, self.connection
        )
        self.epoch += 1
        if isinstance(found, DelayedFollowerFetch):
            purgatory = self.fetches.purgatory
            purgatory.try_complete_else_watch(found, [found.session.watch_key])
            return None
        self.session = found.session_id
        return found

    def append(self) -> None:
        self.led.append(self.partition)

    def more_partitions(self, count: int) -> list[FetchPartition]:
        """Lead further partitions, which a fetch may list then."""
        numbers = range(1, count + 1)
        for number in numbers:
            self.led.replica(registration(), number=number)
        return [each for number in numbers for each in self.listed(0, 0, number=number)]


def sizes(response: FollowerResponse | None) -> list[int]:
    """The bytes of each partition of a response."""
    assert response is not None
    found = [result.size for _, result in response.results]
    for _, result in response.results:
        if result.read is not None:
            result.read.release()
    return found


def errors(response: FollowerResponse | None) -> list[ErrorCode]:
    assert response is not None
    return [result.error for _, result in response.results]


def test_a_follower_reads_up_to_the_log_end():
    serving = Serving()
    serving.append()
    (size,) = sizes(serving.fetch(serving.listed(0, 0)))
    assert size > 0
    assert serving.partition.high_watermark == 0


def test_what_a_lagging_follower_will_ask_for_next_is_read_ahead(monkeypatch):
    """Sending cold bytes blocks the loop; the last of them are followed by nothing."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(MemoryFile, "read_ahead", lambda self, *range_: asked.append(range_))
    serving = Serving()
    for _ in range(4):
        serving.append()
    (one,) = sizes(serving.fetch(serving.listed(0, 0), max_bytes=1))
    assert asked == [(one, one)]
    sizes(serving.fetch(serving.listed(1, 1)))
    assert asked == [(one, one)], "it got all that there is"


def test_a_parked_fetch_is_answered_at_the_end_of_the_event_that_appends():
    serving = Serving()
    serving.fetch(serving.listed(0, 0))
    assert serving.fetch() is None
    serving.append()
    assert serving.answers == []
    serving.led.begin_flushes()
    assert len(serving.answers) == 1
    assert sizes(serving.answers[0])[0] > 0


def test_a_newer_fetch_answers_the_older_one_and_its_news_raises_the_high_watermark():
    serving = Serving()
    serving.append()
    serving.led.run_until_idle()
    sizes(serving.fetch(serving.listed(0, 0)))
    assert serving.fetch(serving.listed(1, 0)) is None
    serving.led.fetched(serving.partition, 3, 1)
    assert serving.partition.high_watermark == 0
    assert serving.fetch(serving.listed(1, 1)) is None
    assert serving.partition.high_watermark == 1
    assert [each.results for each in serving.answers] == [[]]


def test_nothing_is_sent_twice_before_the_follower_lists_another_position():
    serving = Serving()
    serving.append()
    sizes(serving.fetch(serving.listed(0, 0)))
    assert serving.fetch(serving.listed(0, 0)) is None, "only the durable end is told"
    serving.append()
    serving.led.begin_flushes()
    assert serving.answers == []


def test_a_follower_that_forgets_a_partition_gets_it_again():
    serving = Serving()
    serving.append()
    sizes(serving.fetch(serving.listed(0, 0)))
    assert sizes(serving.fetch(serving.listed(0, 0), forget=True))[0] > 0


def test_a_new_high_watermark_goes_with_the_next_response_and_ends_no_wait():
    serving = Serving()
    serving.append()
    serving.led.run_until_idle()
    sizes(serving.fetch(serving.listed(0, 0)))
    assert serving.fetch(serving.listed(1, 1)) is None
    serving.led.fetched(serving.partition, 3, 1)
    serving.led.begin_flushes()
    assert (serving.partition.high_watermark, serving.answers) == (1, [])
    serving.fetch(serving.listed(1, 1))
    ((_, result),) = serving.answers[0].results
    assert result.high_watermark == 1


def test_a_lost_leadership_answers_the_parked_fetch_at_once():
    serving = Serving()
    serving.fetch(serving.listed(0, 0))
    serving.fetch()
    serving.led.replicas.apply(serving.partition, registration(leader=3, epoch=1), 1)
    serving.led.begin_flushes()
    assert errors(serving.answers[0]) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_an_older_or_newer_leader_epoch_is_told():
    serving = Serving()
    serving.led.replicas.apply(serving.partition, registration(epoch=3), 1)
    assert errors(serving.fetch(serving.listed(0, 0, epoch=2))) == [ErrorCode.FENCED_LEADER_EPOCH]
    unknown = serving.fetch(serving.listed(0, 0, epoch=4))
    assert errors(unknown) == [ErrorCode.UNKNOWN_LEADER_EPOCH]


def test_a_diverging_log_counts_nothing_and_is_told_where_it_diverges():
    serving = Serving()
    serving.append()
    serving.led.run_until_idle()
    serving.led.replicas.apply(serving.partition, registration(epoch=4), 1)
    serving.led.fetched(serving.partition, 3, 9)
    response = serving.fetch(serving.listed(5, 5, epoch=4, last=2))
    assert response is not None
    ((_, result),) = response.results
    assert result.diverging == (0, 1)
    assert serving.partition.high_watermark == 0


def test_a_position_out_of_range_is_told_the_range():
    serving = Serving()
    serving.append()
    response = serving.fetch(serving.listed(7, 7))
    assert errors(response) == [ErrorCode.OFFSET_OUT_OF_RANGE]
    assert response is not None
    ((_, result),) = response.results
    assert (result.log_start_offset, result.diverging) == (0, (0, 1))


def test_a_broker_that_is_no_replica_gets_nothing():
    serving = Serving()
    serving.append()
    response = serving.fetch(serving.listed(0, 0), broker=9)
    assert errors(response) == [ErrorCode.UNKNOWN_LEADER_EPOCH]


def test_a_session_is_known_by_id_epoch_and_broker():
    serving = Serving()
    serving.fetch(serving.listed(0, 0))
    serving.epoch = 5
    wrong = serving.fetch()
    assert wrong is not None
    assert wrong.error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    serving.session, serving.epoch = 12345, 1
    unknown = serving.fetch()
    assert unknown is not None
    assert unknown.error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_full_request_replaces_the_session_and_answers_its_parked_fetch():
    serving = Serving()
    serving.fetch(serving.listed(0, 0))
    serving.fetch()
    serving.epoch = 0
    response = serving.fetch(serving.listed(0, 0))
    assert response is not None
    assert len(response.results) == 1
    assert len(serving.answers) == 1
    assert len(serving.partition.watchers) == 1


def test_a_deleted_partition_is_told():
    serving = Serving()
    serving.fetch(serving.listed(0, 0))
    serving.fetch()
    serving.led.replicas.remove(serving.partition.topic_partition)
    serving.led.begin_flushes()
    assert errors(serving.answers[0]) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_without_news_nothing_is_due_and_an_append_makes_its_partition_due():
    serving = Serving()
    serving.fetch(serving.listed(0, 0))
    for _ in range(3):
        serving.fetch()
    (session,) = serving.fetches.sessions.values()
    assert (len(session.positions), session.due, session.moved) == (1, {}, {})
    serving.append()
    assert [position.key for position in session.due] == [(TOPIC_ID, 0)]


def test_the_news_of_many_partitions_goes_with_several_responses():
    serving = Serving()
    serving.fetch(serving.listed(0, 0))
    many = RESULTS_MAX + 7
    found = [len(errors(serving.fetch(unknown(many))))]
    while sum(found) < many:
        found.append(len(errors(serving.fetch())))
    assert found == [RESULTS_MAX, 7]
    assert serving.fetch() is None


def test_the_first_records_of_many_partitions_go_with_several_responses():
    """A follower makes the files of each, for which one turn of its loop would be too long."""
    serving = Serving()
    serving.fetch(serving.listed(0, 0))
    many = FIRST_RECORDS_MAX + 7
    assert serving.fetch(serving.more_partitions(many)) is None
    for partition in list(serving.led.replicas):
        if partition is not serving.partition:
            serving.led.append(partition)
    serving.led.begin_flushes()
    (first,) = serving.answers
    with_records = [sum(size > 0 for size in sizes(each)) for each in (first, serving.fetch())]
    assert with_records == [FIRST_RECORDS_MAX, 7]
    assert serving.fetch() is None


def unknown(count: int) -> list[FetchPartition]:
    """Partitions that are not there, which is an answer at once."""
    return [
        FetchPartition(
            partition=number,
            current_leader_epoch=0,
            fetch_offset=0,
            last_fetched_epoch=-1,
            log_start_offset=0,
            partition_max_bytes=1 << 20,
            durable_end=0,
        )
        for number in range(1, count + 1)
    ]


def test_the_sessions_of_a_connection_end_with_it():
    serving = Serving()
    serving.fetch(serving.listed(0, 0))
    serving.fetch()
    serving.fetches.connection_closed(object())
    assert len(serving.fetches.sessions) == 1
    serving.fetches.connection_closed(serving.connection)
    assert serving.fetches.sessions == {}
    assert (serving.partition.watchers, len(serving.answers)) == ([], 1)
