"""Produce: v3-13.

Each partition's batch is validated and appended on its own; an error of one does not affect the
others. `acks=1` responds when the batches are appended, `acks=-1` when they are committed
(`DelayedProduce`), `acks=0` not at all: if such a request has an error, the connection is closed,
because the client has no other way to learn of it. As in Kafka, when `flush.messages` is reached
the flush comes before the response, also with `acks=1`.

Versions: 7 allows zstd; 8 reports refused records one by one (KIP-467); 13 names topics by id
(KIP-516), an unknown id is UNKNOWN_TOPIC_ID; 10 names the present leader to a client that asks
another broker (KIP-951). Versions below 3 are advertised but not served (see
`apis`).

Transactional batches need a transactional id, and all those of a request are of one producer. They
are appended when the coordinator of the id knows that their partitions are in the transaction
(`transaction_verification`): at once, unless they are the first ones of a transaction. Other
batches of such a request wait for them, and are appended like all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from odradek.broker.context import (
    CALLBACK_RESPONSE,
    NO_RESPONSE,
    CallbackResponse,
    DelayedResponse,
    NoResponse,
)
from odradek.broker.leader_hints import CUT_OFF, LeaderHints, error_if_missing, is_cut_off
from odradek.broker.transaction_verification import (
    ADD_PARTITION,
    TransactionalBatches,
    VerificationResult,
    operation_of_produce,
)
from odradek.model.byte_ranges import ByteRange
from odradek.model.errors import ErrorCode
from odradek.model.topics import TopicPartition
from odradek.protocol.api.produce import BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint
from odradek.protocol.hot_produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from odradek.protocol.record_batch import (
    HEADER_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
    RecordBatchHeader,
)
from odradek.replication.partition import Partition
from odradek.replication.produce import DelayedProduce, ProduceStatus, update_produce_status

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext
    from odradek.replication.replica_manager import ReplicaManager

NONE: Final = ErrorCode.NONE
TIMED_OUT: Final = ErrorCode.REQUEST_TIMED_OUT
NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
FIRST_VERSION_WITH_LEADERS: Final = 10
FIRST_VERSION_WITH_TOPIC_IDS: Final = 13
ALL: Final = -1
LEADER: Final = 1
NOBODY: Final = 0
NO_RECORDS: Final = ByteRange(b"", 0, 0)
DISK_TIMEOUT_MS: Final = 30_000
"""The limit for this broker's own disk: the default `request.timeout.ms` of producers."""
MAGIC_AT: Final = 16
ATTRIBUTES_LOW_AT: Final = 22

UNREACHABLE: Final = (
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors of a coordinator that clients try again as NOT_ENOUGH_REPLICAS: it makes no old client
fail, and none ask for metadata."""

SEVERAL_PRODUCERS: Final = "Transactional records contained more than one producer ID"

RequestedPartition = tuple[TopicProduceData, PartitionProduceData]


def handle(
    broker: Broker, context: RequestContext, request: ProduceRequest
) -> ProduceResponse | DelayedResponse | NoResponse | CallbackResponse:
    asked = requested(request)
    if request.transactional_id is not None:
        return handle_transactional(broker, context, request, asked)
    if any_transactional(asked):
        refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return refuse_all(broker, context, request, asked, refusal)
    return append_all(broker, context, request, asked, None)


def handle_transactional(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    asked: list[RequestedPartition],
) -> ProduceResponse | DelayedResponse | NoResponse | CallbackResponse:
    """Have the coordinator verify the transactional batches, then append all."""
    transactional = [(t, d, batch_header(d)) for t, d in asked if is_transactional(d)]
    if not transactional:
        return append_all(broker, context, request, asked, None)
    first = transactional[0][2]
    producer_id, producer_epoch = first.producer_id, first.producer_epoch
    for _, _, header in transactional:
        if header.producer_id != producer_id or header.producer_epoch != producer_epoch:
            refusal = ErrorCode.INVALID_PRODUCER_ID_MAPPING
            return refuse_all(broker, context, request, asked, refusal, SEVERAL_PRODUCERS)
    replicas = broker.replicas
    found = [
        (partition, header.base_sequence)
        for topic, data, header in transactional
        if (partition := requested_partition(replicas, context.version, topic, data)) is not None
        and partition.topic_partition.topic not in replicas.listeners
    ]
    verification = broker.transaction_verification
    if not verification.is_needed(found, producer_id, producer_epoch):
        return append_all(broker, context, request, asked, None)
    batches = TransactionalBatches(
        request.transactional_id or "",
        producer_id,
        producer_epoch,
        found,
        operation_of_produce(context.version),
    )

    answered = partial(append_verified, broker, context, request, asked, found)
    at_once = verification.verify(batches, answered)
    if at_once is None:
        return CALLBACK_RESPONSE
    return append_all(broker, context, request, asked, at_once)


def append_verified(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    asked: list[RequestedPartition],
    found: list[tuple[Partition, int]],
    verified: VerificationResult,
) -> None:
    """Append all partitions of a request, and respond. `found`: those that were asked about."""
    # A partition that came meanwhile, or came again, was not: Kafka's clients give up upon
    # INVALID_TXN_STATE, which its log would answer, but not upon this.
    known = {partition for partition, _ in found}
    for topic, data in asked:
        if is_transactional(data):
            partition = requested_partition(broker.replicas, context.version, topic, data)
            if partition is not None and partition not in known:
                verified.errors[partition.topic_partition] = NOT_LEADER
    deliver(context, append_all(broker, context, request, asked, verified))


def deliver(
    context: RequestContext, answer: ProduceResponse | DelayedResponse | NoResponse
) -> None:
    """Answer a request that has waited for its coordinator, or let it wait for its commit."""
    if isinstance(answer, NoResponse):
        context.no_response()
        return
    if not isinstance(answer, DelayedResponse):
        context.respond(answer)
        return
    exchange, operation = context.exchange, answer.operation
    done = answer.purgatory.try_complete_else_watch(operation, answer.keys)
    if not done and context.collect is None and not exchange.answered:
        exchange.frame = b""
        exchange.abandoned = operation.expire
        answer.context = context
        exchange.waiting = answer


def refuse_all(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    asked: list[RequestedPartition],
    error: ErrorCode,
    message: str | None = None,
) -> ProduceResponse | NoResponse:
    """Refuse the request as a whole."""
    responses = [refused(data.index, error) for _, data in asked]
    for each in responses:
        each.error_message = message
    if request.acks == NOBODY:
        return no_response(context, responses)
    return response(broker, context, asked, responses)


def append_all(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    asked: list[RequestedPartition],
    verified: VerificationResult | None,
) -> ProduceResponse | DelayedResponse | NoResponse:
    """Append the batches and respond, or wait for their commit. `verified`: what the coordinator of
    the transaction says.
    """
    responses: list[PartitionProduceResponse] = []
    appended: list[Partition] = []
    statuses: list[ProduceStatus] = []
    for topic, data in asked:  # each on its own: an error of one does not affect the others
        responses.append(
            append(broker, context.version, request, topic, data, appended, statuses, verified)
        )
    replicas = broker.replicas
    for partition in appended:
        replicas.appended(partition)
    if request.acks == NOBODY:
        return no_response(context, responses)
    if statuses and not all_committed(statuses):
        return delayed_response(broker, context, request, asked, responses, statuses)
    return response(broker, context, asked, responses)


def delayed_response(
    broker: Broker,
    context: RequestContext,
    request: ProduceRequest,
    asked: list[RequestedPartition],
    responses: list[PartitionProduceResponse],
    statuses: list[ProduceStatus],
) -> DelayedResponse:
    """Let the request wait for its commit, or for a flush that comes first.

    The log has the records now: the request drops its references to them.
    """
    for _, data in asked:
        data.records = None
    operation = DelayedProduce(
        time_limit_ms(request, statuses),
        statuses,
        lambda _: context.respond(response(broker, context, asked, responses)),
    )
    return DelayedResponse(broker.replicas.produce_purgatory, operation, watch_keys(broker, asked))


def time_limit_ms(request: ProduceRequest, statuses: list[ProduceStatus]) -> int:
    """How long the response may wait: `timeout_ms` is a limit for followers, as in Kafka, where the
    leader's own disk is done with a batch before the time counts.
    """
    for status in statuses:
        if request.acks == ALL and status.partition.leadership is not None:
            return request.timeout_ms
    return max(request.timeout_ms, DISK_TIMEOUT_MS)


def no_response(context: RequestContext, responses: list[PartitionProduceResponse]) -> NoResponse:
    """End a request with `acks=0`; an error closes the connection."""
    failed = [each.error_code for each in responses if each.error_code]
    if failed:
        for code in failed:
            context.metrics.error(code)
        errors = sorted({ErrorCode(code).name for code in failed})
        context.exchange.close_connection(f"produce with acks=0 failed: {', '.join(errors)}")
    return NO_RESPONSE


def requested(request: ProduceRequest) -> list[RequestedPartition]:
    """The partitions of a request; of one that is listed twice the last one counts, as in Kafka."""
    asked = [(topic, data) for topic in request.topic_data for data in topic.partition_data]
    if len(asked) < 2:
        return asked
    return list({(t.name, t.topic_id, d.index): (t, d) for t, d in asked}.values())


def any_transactional(asked: list[RequestedPartition]) -> bool:
    return any(is_transactional(data) for _, data in asked)


def is_transactional(data: PartitionProduceData) -> bool:
    """True if the attributes of the first batch say so."""
    records = data.records
    if not isinstance(records, ByteRange) or len(records) < HEADER_BYTES:
        return False
    frame, start = records.data, records.start
    return (
        frame[start + ATTRIBUTES_LOW_AT] & TRANSACTIONAL_BIT != 0
        and frame[start + MAGIC_AT] == MAGIC
    )


def batch_header(data: PartitionProduceData) -> RecordBatchHeader:
    """The header of a batch that `is_transactional`."""
    records = data.records
    assert isinstance(records, ByteRange)
    return RecordBatchHeader(records.data, records.start)


def all_committed(statuses: list[ProduceStatus]) -> bool:
    """True if no partition waits: with `log.durability=os` the append itself has committed."""
    done = True
    for status in statuses:
        if status.pending:
            update_produce_status(status)
            done = done and not status.pending
    return done


def append(
    broker: Broker,
    version: int,
    request: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    appended: list[Partition],
    statuses: list[ProduceStatus],
    verified: VerificationResult | None,
) -> PartitionProduceResponse:
    """Append one partition's batch, or refuse it; return its part of the response.

    Adds the partition to `appended` on success, and to `statuses` if the response has to wait.
    """
    index = data.index
    if request.acks not in (ALL, LEADER, NOBODY):
        return refused(index, ErrorCode.INVALID_REQUIRED_ACKS)
    replicas = broker.replicas
    partition = requested_partition(replicas, version, topic, data)
    if partition is None:
        if version >= FIRST_VERSION_WITH_TOPIC_IDS and not broker.image.topic_by_id(topic.topic_id):
            return refused(index, ErrorCode.UNKNOWN_TOPIC_ID)
        by_id = version >= FIRST_VERSION_WITH_TOPIC_IDS
        return refused(
            index, error_if_missing(broker, topic.topic_id if by_id else topic.name, index)
        )
    if partition.topic_partition.topic in replicas.listeners:  # written by its coordinator only
        return refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION)
    guard = None
    if verified is not None:
        error = verified.errors.get(partition.topic_partition, NONE)
        if error is not NONE:
            return not_verified(index, error, version)
        guard = verified.guards.get(partition.topic_partition)
    if request.acks == ALL:
        error = partition.append_error()
        if error is not NONE:
            return refused(index, error)
    records = data.records
    span = records if isinstance(records, ByteRange) else NO_RECORDS
    info = replicas.append(partition, span, version, guard)
    answer = PartitionProduceResponse(
        index=index,
        error_code=info.error,
        base_offset=info.base_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )
    if info.error is not NONE:
        answer.error_message = info.error_message
        answer.record_errors = [
            BatchIndexAndErrorMessage(
                batch_index=bad.batch_index, batch_index_error_message=bad.message
            )
            for bad in info.record_errors
        ]
        return answer
    appended.append(partition)
    if request.acks == ALL or (request.acks == LEADER and partition.must_flush_first()):
        required_offset = info.required_offset
        if partition.high_watermark < required_offset:
            answer.error_code = TIMED_OUT
            statuses.append(ProduceStatus(partition, required_offset, answer))
    return answer


def requested_partition(
    replicas: ReplicaManager, version: int, topic: TopicProduceData, data: PartitionProduceData
) -> Partition | None:
    """The partition of this broker that a request names; None if it has none."""
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return replicas.by_id.get((topic.topic_id, data.index))
    return replicas.by_name.get((topic.name, data.index))


def not_verified(index: int, error: ErrorCode, version: int) -> PartitionProduceResponse:
    """The response for a batch whose transaction the coordinator does not confirm, as in Kafka."""
    is_concurrent = error is ErrorCode.CONCURRENT_TRANSACTIONS
    adds = operation_of_produce(version) is ADD_PARTITION
    if error in UNREACHABLE or (is_concurrent and not adds):
        answer = refused(index, ErrorCode.NOT_ENOUGH_REPLICAS)
        answer.error_message = (
            "Unable to verify the partition has been added to the transaction. "
            f"Underlying error: {error.name}"
        )
        return answer
    answer = refused(index, error)
    if error is ErrorCode.INVALID_TXN_STATE:
        answer.error_message = "Partition was not added to the transaction"
    return answer


def refused(index: int, error: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=error, base_offset=-1, log_append_time_ms=-1, log_start_offset=-1
    )


def watch_keys(broker: Broker, asked: Sequence[RequestedPartition]) -> list[TopicPartition]:
    """The keys of all partitions of the request, refused ones included."""
    keys = []
    for topic, data in asked:
        found = broker.image.topic_by_id(topic.topic_id)
        name = topic.name if found is None else found.name
        keys.append(TopicPartition(name, data.index))
    return keys


def response(
    broker: Broker,
    context: RequestContext,
    asked: Sequence[RequestedPartition],
    answers: Sequence[PartitionProduceResponse],
) -> ProduceResponse:
    """The partitions by topic, in the order of the request; a topic without partitions is left out.

    As in Kafka, an appended batch keeps its offset and times if the wait ends with an error: the
    records are in the log, only their commit is not known.
    """
    topics: list[TopicProduceResponse] = []
    last: TopicProduceResponse | None = None
    hints: LeaderHints | None = None
    cut_off = False
    for number, (topic, _) in enumerate(asked):
        if last is None or last.name != topic.name or last.topic_id != topic.topic_id:
            last = TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=[]
            )
            topics.append(last)
        answer = answers[number]
        if answer.error_code:
            context.metrics.error(answer.error_code)
            if answer.error_code == NOT_LEADER:
                by_id = context.version >= FIRST_VERSION_WITH_TOPIC_IDS
                key = topic.topic_id if by_id else topic.name
                if is_cut_off(broker, key, answer.index):
                    cut_off = True
                elif context.version >= FIRST_VERSION_WITH_LEADERS:
                    hints = LeaderHints(broker) if hints is None else hints
                    name_leader(hints, key, answer)
        last.partition_responses.append(answer)
    if cut_off:
        context.exchange.end_connection(CUT_OFF)
    endpoints = None if hints is None else hints.endpoints(NodeEndpoint)
    return ProduceResponse(responses=topics, node_endpoints=endpoints)


def name_leader(hints: LeaderHints, topic: str | UUID, answer: PartitionProduceResponse) -> None:
    """Add the present leader to the response for a partition (KIP-951)."""
    found = hints.leader(topic, answer.index)
    if found is not None:
        answer.current_leader = LeaderIdAndEpoch(leader_id=found[0], leader_epoch=found[1])
