"""What an Odradek broker shows of itself: what waits in it, its metrics. No other broker answers
these calls.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from odradek.client.admin.calls import Calls, raise_for_code
from odradek.client.admin.results import (
    BrokerMetric,
    BrokerMetricSample,
    GroupTransition,
    LogSegment,
    MetricHistogram,
    PartitionEnds,
    WaitingReport,
    WaitingRequest,
    WheelLevel,
)
from odradek.client.arguments import texts_of
from odradek.client.errors import error_for
from odradek.client.waiter import gather, spawn
from odradek.model.topics import TopicPartition
from odradek.protocol.api.describe_metrics import (
    DescribedMetric,
    DescribeMetricsRequest,
    DescribeMetricsResponse,
    MetricCursor,
)
from odradek.protocol.api.describe_waiting import (
    DescribeWaitingRequest,
    DescribeWaitingResponse,
    WaitingOperation,
)

NEWEST = -1


class ObservationCalls(Calls):
    """The calls about what happens inside of brokers."""

    async def describe_waiting(
        self,
        broker_ids: int | Collection[int] | None = None,
        *,
        kinds: str | Collection[str] = (),
        operations: int = 100,
        skip_operations: int = 0,
        transitions: int = 0,
        before_transition: int | None = None,
        topics: str | Collection[str] | None = None,
        segments: int = 0,
        skip_segments: int = 0,
        durable_ends: int = 0,
        skip_durable_ends: int = 0,
    ) -> dict[int, WaitingReport]:
        """Return what waits in one or several brokers (None: all), by broker: requests (if given,
        of these `kinds`, as `Fetch`), timers, the last changes of state of groups (if given, before
        that number), segments and durable ends (if given, of these `topics`). The numbers limit
        each list; a broker returns 500 rows in all at most, so read more with `skip_…`. A broker
        answers five times a second; the call waits for its turn. Raises `UnsupportedVersion` if a
        broker is not Odradek's."""
        request = DescribeWaitingRequest(
            kinds=texts_of("kind", kinds),
            operations_offset=skip_operations,
            operations_limit=operations,
            transitions_before=NEWEST if before_transition is None else before_transition,
            transitions_limit=transitions,
            topics=None if topics is None else texts_of("topic", topics),
            segments_offset=skip_segments,
            segments_limit=segments,
            durable_ends_offset=skip_durable_ends,
            durable_ends_limit=durable_ends,
        )

        async def ask(broker_id: int) -> WaitingReport:
            answer = await self.call(broker_id, request, DescribeWaitingResponse)
            what = f"what waits in broker {broker_id}"
            raise_for_code(answer.error_code, what, answer.error_message)
            return waiting_of(answer)

        brokers = await self.retry(lambda: self.named_brokers(broker_ids, "what waits"))
        waiters = {each: spawn(self.retry(partial(ask, each))) for each in brokers}
        await gather(list(waiters.values()))
        return {broker_id: waiter.result() for broker_id, waiter in waiters.items()}

    async def describe_metrics(
        self,
        broker_ids: int | Collection[int] | None = None,
        *,
        names: str | Collection[str] = (),
        partitions: bool = False,
    ) -> dict[int, tuple[BrokerMetric, ...]]:
        """Return the metrics of one or several brokers (None: all), by broker, in the order of
        their table: those with these names, else all of the broker, or with `partitions` those of
        its partitions. A broker answers in parts, five a second, and the call waits for its turn.
        A name that a broker does not know has an `error` in its result. Raises `UnsupportedVersion`
        if a broker is not Odradek's."""
        wanted = texts_of("metric", names)

        async def ask(broker_id: int, cursor: MetricCursor | None) -> DescribeMetricsResponse:
            request = DescribeMetricsRequest(names=wanted, partitions=partitions, cursor=cursor)
            answer = await self.call(broker_id, request, DescribeMetricsResponse)
            raise_for_code(
                answer.error_code, f"metrics of broker {broker_id}", answer.error_message
            )
            return answer

        async def read_all(broker_id: int) -> tuple[BrokerMetric, ...]:
            rows: list[DescribedMetric] = []
            cursor: MetricCursor | None = None
            while True:
                answer = await self.retry(partial(ask, broker_id, cursor))
                for row in answer.metrics:
                    if rows and rows[-1].name == row.name:
                        rows[-1].samples += row.samples
                    else:
                        rows.append(row)
                cursor = answer.next_cursor
                if cursor is None:
                    return tuple(broker_metric_of(row) for row in rows)

        brokers = await self.retry(lambda: self.named_brokers(broker_ids, "metrics"))
        waiters = {each: spawn(read_all(each)) for each in brokers}
        await gather(list(waiters.values()))
        return {broker_id: waiter.result() for broker_id, waiter in waiters.items()}


def waiting_of(answer: DescribeWaitingResponse) -> WaitingReport:
    """Return the contents of a response."""
    return WaitingReport(
        operations=tuple(waiting_request_of(each) for each in answer.operations),
        operations_total=answer.operations_total,
        by_kind={each.kind: each.count for each in answer.waiting},
        levels=tuple(
            WheelLevel(
                level.tick_ms,
                level.size,
                tuple((bucket.expires_in_ms, bucket.count) for bucket in level.buckets),
            )
            for level in answer.levels
        ),
        timers={each.kind: each.count for each in answer.timers},
        transitions=tuple(
            GroupTransition(
                each.number,
                each.time_ms,
                each.group_id,
                each.from_state,
                each.to_state,
                each.generation,
                each.members,
                each.pending_members,
                each.reason,
            )
            for each in answer.transitions
        ),
        transitions_total=answer.transitions_total,
        segments=tuple(
            LogSegment(
                TopicPartition(each.topic, each.partition), each.base_offset, each.size, each.active
            )
            for each in answer.segments
        ),
        segments_total=answer.segments_total,
        durable_ends=tuple(
            PartitionEnds(
                TopicPartition(each.topic, each.partition),
                each.segments,
                each.log_start,
                each.durable_end,
                each.recovery_point,
                each.high_watermark,
                each.log_end,
                each.error_code,
            )
            for each in answer.durable_ends
        ),
        durable_ends_total=answer.durable_ends_total,
    )


def waiting_request_of(row: WaitingOperation) -> WaitingRequest:
    return WaitingRequest(
        kind=row.kind,
        client_id=row.client_id,
        host=row.host,
        port=row.port,
        keys=tuple(row.keys),
        key_count=row.key_count,
        waited_ms=row.waited_ms,
        left_ms=None if row.left_ms < 0 else row.left_ms,
    )


def broker_metric_of(row: DescribedMetric) -> BrokerMetric:
    """Return a metric of a response. A label without a value is left out."""
    error = error_for(row.error_code, f"metric {row.name!r}") if row.error_code else None
    is_histogram = row.kind in ("histogram", "summary")
    return BrokerMetric(
        row.name,
        row.kind,
        row.unit,
        row.help,
        tuple(
            BrokerMetricSample(
                {name: text for name, text in zip(row.labels, each.labels, strict=False) if text},
                MetricHistogram(
                    each.count,
                    each.value,
                    tuple((bucket.upper_bound, bucket.count) for bucket in each.buckets),
                )
                if is_histogram
                else each.value,
            )
            for each in row.samples
        ),
        error,
    )
