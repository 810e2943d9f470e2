"""The transaction coordinator: each state × each request × epochs, before and with version 2.

A transaction ends some time after its end is answered. CONCURRENT_TRANSACTIONS therefore means only
"not yet" here: the request is sent again until it gets another answer. Producer ids are numbered in
the order of their appearance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from interop.differential.peer import Peer
from odradek.model.errors import ErrorCode
from odradek.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.api.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.api.describe_transactions import DescribeTransactionsRequest
from odradek.protocol.api.end_txn import EndTxnRequest
from odradek.protocol.api.find_coordinator import FindCoordinatorRequest
from odradek.protocol.api.init_producer_id import InitProducerIdRequest
from odradek.protocol.api.list_transactions import ListTransactionsRequest
from odradek.protocol.api.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from odradek.protocol.api.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.protocol.api.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from odradek.protocol.schema import declaration

RETRY = ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
FIRST_VERSION_WITH_MEMBERS = 3
TOPIC = "transacted"
NOTHING = (-1, -1)
Producer = tuple[int, int]


class TransactionalScript:
    """One transactional id of one broker."""

    def __init__(self, peer: Peer, name: str) -> None:
        self.peer = peer
        self.name = name
        self.ids: dict[int, str] = {}

    def ask_until_final(self, request: Any, version: int, error_of: Callable[[Any], int]) -> Any:
        """The response, as soon as it is no error that means: not yet."""
        found = self.peer.ask_until(
            request, version, lambda answer: ErrorCode(error_of(answer)).name not in RETRY
        )
        self.peer.answered.add((declaration(type(request)).api, version))
        return found

    def producer(self, producer_id: int) -> str:
        """The name of a producer id, which differs between the brokers."""
        if producer_id < 0:
            return "none"
        return self.ids.setdefault(producer_id, f"producer {len(self.ids)}")

    def init(self, of: Producer = NOTHING, version: int = 5, timeout_ms: int = 60_000) -> Any:
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=timeout_ms,
            producer_id=of[0] if version >= 3 else -1,
            producer_epoch=of[1] if version >= 3 else -1,
        )
        return self.ask_until_final(request, version, lambda found: found.error_code)

    def add(self, of: Producer, version: int = 3, topic: str = TOPIC, partition: int = 0) -> int:
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[partition])]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=of[0],
            v3_and_below_producer_epoch=of[1],
            v3_and_below_topics=topics,
        )

        def error_of(found: Any) -> int:
            (told,) = found.results_by_topic_v3_and_below
            return int(told.results_by_partition[0].partition_error_code)

        return error_of(self.ask_until_final(request, version, error_of))

    def add_group(self, of: Producer, version: int = 3) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=of[0], producer_epoch=of[1], group_id="g"
        )
        return int(
            self.ask_until_final(request, version, lambda found: found.error_code).error_code
        )

    def commit_offsets(self, of: Producer, version: int, **given: Any) -> Any:
        """TxnOffsetCommit for partition 0, and for 9, which does not exist."""
        partitions = [
            TxnOffsetCommitRequestPartition(
                partition_index=number, committed_offset=version, committed_metadata=""
            )
            for number in (0, 9)
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=given.pop("group_id", "g"),
            producer_id=of[0],
            producer_epoch=of[1],
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
            **given,
        )
        return self.ask_until_final(
            request, version, lambda found: found.topics[0].partitions[0].error_code
        )

    def end(self, of: Producer, committed: bool, version: int = 5) -> Any:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=of[0], producer_epoch=of[1], committed=committed
        )
        return self.ask_until_final(request, version, lambda found: found.error_code)

    def described(self) -> list[Any]:
        """The state of the id, once its transaction is not ending any more."""
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        found: list[Any] = []

        def rests() -> bool:
            (found[:],) = (self.peer.ask(request, 0).transaction_states,)
            return not found[0].transaction_state.startswith("Prepare")

        self.peer.until(rests)
        (one,) = found
        return [
            ErrorCode(one.error_code).name,
            one.transaction_state,
            one.transaction_timeout_ms,
            self.producer(one.producer_id) if not one.error_code else "none",
            one.producer_epoch,
            sorted((topic.topic, list(topic.partitions)) for topic in one.topics),
        ]

    def note(self, label: str, *outcome: object) -> None:
        """Record what a request got, and the state after it."""
        self.peer.note(f"{self.name} {label}", [*outcome, *self.described()])

    def note_response(self, label: str, found: Any) -> None:
        name = ErrorCode(found.error_code).name
        self.note(label, name, self.producer(found.producer_id), found.producer_epoch)


STATES = (
    "new",
    "Empty",
    "Ongoing",
    "CommittedV1",
    "AbortedV1",
    "CommittedV1 of the second producer",
    "AbortedV1 of the second producer",
    "CommittedV2",
    "AbortedV2",
)


def reach(peer: Peer, name: str, state: str) -> tuple[TransactionalScript, Producer]:
    """Bring a new transactional id into a state; return its producer."""
    script = TransactionalScript(peer, name)
    if state == "new":
        return script, (1, 0)
    found = script.init()
    if "second" in state:
        found = script.init()
    of = found.producer_id, found.producer_epoch
    script.producer(of[0])
    if state == "Empty":
        return script, of
    assert script.add(of) == 0
    if state != "Ongoing":
        version = 5 if "V2" in state else 4
        ended = script.end(of, state.startswith("Committed"), version)
        assert ended.error_code == 0
        if version == 5:
            of = ended.producer_id, ended.producer_epoch
    script.described()
    return script, of


def states(peer: Peer) -> None:
    """Each state × each request × the present epoch, that before, that after, and a wrong id."""
    peer.new_topic(TOPIC)
    until_ready(peer)
    number = 0
    for state in STATES:
        epochs: tuple[tuple[str, Callable[[Producer], Producer]], ...] = (
            ("present", lambda of: of),
            ("before", lambda of: (of[0], of[1] - 1 if of[1] else 0)),
            ("after", lambda of: (of[0], of[1] + 1)),
            ("other id", lambda of: (of[0] + 1_000_000, of[1])),
        )
        for kind, choose in epochs:
            for label, act in REQUESTS:
                number += 1
                script, of = reach(peer, f"id{number}", state)
                act(script, f"{state}, {label}, {kind}", choose(of))


def initialized(script: TransactionalScript, label: str, of: Producer) -> None:
    script.note_response(label, script.init(of))


def taken_over(script: TransactionalScript, label: str, of: Producer) -> None:
    script.note_response(label, script.init())


def added(script: TransactionalScript, label: str, of: Producer) -> None:
    script.note(label, ErrorCode(script.add(of)).name)


def group_added(script: TransactionalScript, label: str, of: Producer) -> None:
    script.note(label, ErrorCode(script.add_group(of)).name)


def ended(committed: bool, version: int) -> Callable[[TransactionalScript, str, Producer], None]:
    def act(script: TransactionalScript, label: str, of: Producer) -> None:
        script.note_response(label, script.end(of, committed, version))
        script.note_response(f"{label}, again", script.end(of, committed, version))

    return act


REQUESTS: tuple[tuple[str, Callable[[TransactionalScript, str, Producer], None]], ...] = (
    ("init", initialized),
    ("init without id", taken_over),
    ("add", added),
    ("add group", group_added),
    ("commit v4", ended(True, 4)),
    ("abort v4", ended(False, 4)),
    ("commit v5", ended(True, 5)),
    ("abort v5", ended(False, 5)),
)


def until_ready(peer: Peer) -> None:
    """Wait until both coordinators serve, whose topics are made now."""
    for key_type in (0, 1):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["id"])
        peer.until(lambda: peer.ask(request, 4).coordinators[0].error_code == 0)  # noqa: B023
    TransactionalScript(peer, "first").init()


def versions(peer: Peer) -> None:
    """Each request in each version, with right and wrong contents."""
    peer.new_topic(TOPIC)
    until_ready(peer)
    for version in peer.each_version(FindCoordinatorRequest, 1):
        keys = {"key": "id"} if version < 4 else {"coordinator_keys": ["id", ""]}
        peer.call(f"find v{version}", FindCoordinatorRequest(key_type=1, **keys), version)
    script = TransactionalScript(peer, "versions")
    for version in peer.each_version(InitProducerIdRequest):
        script.note_response(f"init v{version}", script.init(version=version))
        for timeout_ms in (-1, 0, 900_001, 2**31 - 1):
            found = script.init(version=version, timeout_ms=timeout_ms)
            script.note_response(f"init v{version}, {timeout_ms} ms", found)
        if version >= 3:
            for of in ((1, -1), (-1, 1), (2**62, 3)):
                found = script.init(of, version)
                script.note_response(f"init v{version}, {of}", found)
    found = script.init()
    of = found.producer_id, found.producer_epoch
    stale = of[0], of[1] - 1
    for version in range(4):
        script.note(f"add v{version}, stale", ErrorCode(script.add(stale, version)).name)
        script.note(f"add v{version}", ErrorCode(script.add(of, version)).name)
        unknown = script.add(of, version, "no-such-topic")
        script.note(f"add v{version}, unknown", ErrorCode(unknown).name)
    for version in peer.each_version(AddOffsetsToTxnRequest):
        script.note(f"offsets v{version}, stale", ErrorCode(script.add_group(stale, version)).name)
        script.note(f"offsets v{version}", ErrorCode(script.add_group(of, version)).name)
    for version in peer.each_version(EndTxnRequest):
        script.note_response(f"end v{version}, stale", script.end(stale, True, version))
        script.add(of)
        found = script.end(of, True, version)
        script.note_response(f"end v{version}", found)
    for version in peer.each_version(AddPartitionsToTxnRequest, 4):
        peer.call(f"of a broker v{version}", AddPartitionsToTxnRequest(), version, hangs=True)
        transaction = AddPartitionsToTxnTransaction(
            transactional_id="no such id",
            producer_id=1,
            producer_epoch=1,
            verify_only=True,
            topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        peer.call(f"of a broker v{version}, verify", request, version)


def offsets(peer: Peer) -> None:
    """TxnOffsetCommit in each version, before and after the group is in the transaction."""
    peer.new_topic(TOPIC)
    until_ready(peer)
    for version in peer.each_version(TxnOffsetCommitRequest):
        offsets_in(peer, version)


def offsets_in(peer: Peer, version: int) -> None:
    """The same in one version."""
    script = TransactionalScript(peer, f"offsets-{version}")
    found = script.init()
    of = found.producer_id, found.producer_epoch

    def note(label: str, of: Producer, **given: Any) -> None:
        (told,) = script.commit_offsets(of, version, **given).topics
        errors = [(e.partition_index, ErrorCode(e.error_code).name) for e in told.partitions]
        script.note(label, sorted(errors))

    note("not added", of)
    script.add_group(of)
    note("added", of)
    note("stale", (of[0], of[1] - 1))
    note("ahead", (of[0], of[1] + 1))
    note("another id", (of[0] + 1_000_000, of[1]))
    note("no group", of, group_id="")
    if version >= FIRST_VERSION_WITH_MEMBERS:
        note("a wrong member", of, member_id="nobody", generation_id=3)
        note("a member without a generation", of, member_id="nobody")
    for committed in (True, False):
        note(f"before the end {committed}", of)
        found = script.end(of, committed)
        script.note_response(f"end {committed}", found)
        of = found.producer_id, found.producer_epoch
        script.add_group(of)
    asked = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    )
    request = OffsetFetchRequest(groups=[asked], require_stable=True)
    read: list[Any] = []

    def stable() -> bool:
        (group,) = peer.ask(request, 8).groups
        read[:] = [group.topics[0].partitions[0]]
        return bool(read[0].error_code != ErrorCode.UNSTABLE_OFFSET_COMMIT)

    peer.until(stable)
    peer.note(f"offset after v{version}", [read[0].error_code, read[0].committed_offset])


def markers(peer: Peer) -> None:
    """WriteTxnMarkers as a tool sends it: of what is not open, of partitions that do not exist."""
    peer.new_topic(TOPIC)
    for version in peer.each_version(WriteTxnMarkersRequest):
        peer.call(f"v{version} none", WriteTxnMarkersRequest(markers=[]), version)
        for committed in (False, True):
            for name in (TOPIC, "no-such-topic"):
                marker = WritableTxnMarker(
                    producer_id=77,
                    producer_epoch=1,
                    transaction_result=committed,
                    topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[0, 9])],
                    coordinator_epoch=0,
                )
                request = WriteTxnMarkersRequest(markers=[marker])
                kind = "commit" if committed else "abort"
                peer.call(f"v{version} {kind} in {name}", request, version)


def descriptions(peer: Peer) -> None:
    """DescribeTransactions and ListTransactions with filters, of ids in several states."""
    peer.new_topic(TOPIC)
    until_ready(peer)
    for name, state in (("l-empty", "Empty"), ("l-open", "Ongoing"), ("l-done", "CommittedV2")):
        reach(peer, name, state)
    for ids in ([], [""], ["no such id"], ["l-open", "l-open"]):
        request = DescribeTransactionsRequest(transactional_ids=ids)
        found = peer.ask(request, 0).transaction_states
        told = [[ErrorCode(each.error_code).name, each.transaction_state] for each in found]
        peer.note(f"describe {ids}", told)
    peer.answered.add((65, 0))
    for version in peer.each_version(ListTransactionsRequest):
        for states_asked, duration, pattern in (
            ((), -1, None),
            (("Ongoing",), -1, None),
            (("Empty", "CompleteCommit"), -1, None),
            ((), 3_600_000, None),
            ((), -1, "l-.*"),
            ((), -1, "l-"),
            ((), -1, "l-(open|done)"),
        ):
            if (duration >= 0 and version < 1) or (pattern and version < 2):
                continue
            listing = ListTransactionsRequest(
                state_filters=list(states_asked),
                producer_id_filters=[],
                duration_filter=duration,
                transactional_id_pattern=pattern,
            )
            found = peer.ask(listing, version)
            told = sorted(
                [each.transactional_id, each.transaction_state]
                for each in found.transaction_states
                if each.transactional_id.startswith("l-")
            )
            label = f"list v{version} {states_asked}, {duration}, {pattern}"
            peer.note(label, [found.error_code, found.unknown_state_filters, told])
