"""Each state of a transaction with each fault: what it wrote takes effect as a whole or not at all.

The states are held by construction, and two clients of one coordinator, of `transaction.version` 1
and 2, are in them when the fault comes. The clients go on to a commit, all heals, and after another
transaction, which is aborted, readers, offsets and last stable offsets are checked.
`test_transaction_worlds` has the same by chance.

| fault                            | what happens in the state                                   |
|----------------------------------|-------------------------------------------------------------|
| coordinator-lost                 | killed, another one loads what it had                       |
| coordinator-lost-in-a-step       | the same, as the record of the next state is appended       |
| coordinator-lost-with-its-record | the same without power; the record has reached nobody       |
| coordinator-paused               | replaced; then it goes on, and sends the markers it held    |
| leader-lost                      | a leader of the topic is killed                             |
| leader-lost-in-a-step            | the same, as it has appended a record, or the marker        |
| client-lost                      | the client ends for ever in its next step                   |
| client-and-coordinator-lost      | the same, and another coordinator has to end what is open   |
| client-replaced                  | another one takes the id over; the first is a zombie        |
| request-held-back                | the next request arrives late, after its repetition         |
| request-arrives-again            | the request that led to the state arrives a second time     |
| timeout-races-commit             | the timeout passes; then a commit comes with a timeout      |
| last-epoch                       | the epochs of the producer id are used up                   |
| last-epoch-coordinator-lost      | the same, and the coordinator is killed                     |
| clock-jumps-ahead                | the wall clocks jump by more than an id is kept             |
| clock-jumps-back                 | the coordinator's wall clock goes back by as much           |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import pytest

from odradek.coordinator.transaction.transaction_metadata import LAST_EPOCH
from odradek.coordinator.transaction.transaction_state import KEPT, TransactionState
from odradek.model.errors import ErrorCode
from odradek.testing.machine import SimMachine
from odradek.testing.probes import open_transactions
from odradek.testing.scheduler import MS, SECOND
from sim.broken_transactions import begins_with_epoch
from sim.live_cluster import LiveCluster
from sim.live_transactions import Producer, live_cluster
from sim.transactions_in_states import (
    AFTER,
    PARTITIONS,
    HeldMarkers,
    State,
    TransactionalClient,
    check_whole,
    same_coordinator,
    until_in,
)

NONE = ErrorCode.NONE
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
TOO_LATE = {1: ErrorCode.PRODUCER_FENCED, 2: ErrorCode.INVALID_TXN_STATE}
"""What a commit gets after the timeout, by the producer's version."""
STATES: tuple[TransactionState | None, ...] = (None, *KEPT)
"""None: the transactional id does not exist."""
STEP_NS = SECOND
"""The longest time from a request to what it changes."""
WAITING_NS = 20 * MS
"""After which a request has arrived, and still waits for the end of a transaction."""
BRIEF_NS = 3 * SECOND
PAUSE_NS = 20 * SECOND
EARLY_MS = (1, 1, 0, 0)
"""How long before its timeout each client of a race sends its commit."""
DAY_MS = 24 * 3_600_000
JUMP_MS = 8 * DAY_MS
"""More than `transactional.id.expiration.ms`."""
SETTINGS = {
    "transaction_remove_expired_transaction_cleanup_interval_ms": "1000",
    "log_retention_ms": "-1",
}


@dataclass(slots=True)
class Scene:
    """Clients of one coordinator whose ids are in a state; the markers of an end are held."""

    cluster: LiveCluster
    topic: str
    state: TransactionState | None
    clients: list[TransactionalClient]
    held: HeldMarkers | None

    @property
    def coordinator(self) -> SimMachine:
        return self.cluster.machine(self.clients[0].producer.coordinator)

    @property
    def index_led_elsewhere(self) -> int:
        """A partition of the topic whose leader does not coordinate the clients."""
        producer = self.clients[0].producer
        indexes = range(PARTITIONS)
        return next(each for each in indexes if producer.leader(each) != producer.coordinator)

    def release(self) -> None:
        """Let the markers go that are held."""
        if self.held is not None:
            self.held.release_if_it_runs(self.cluster)
            self.held = None

    def run(self, ns: int, stop: Callable[[], bool] | None = None) -> None:
        """Run for this time, or until something has happened."""
        scheduler = self.cluster.scheduler
        scheduler.run(scheduler.now_ns + ns, stop)

    def send_next(self) -> list[list[ErrorCode]]:
        """Send each client's next request; the lists get the errors of the answers."""
        return [client.send(client.next_request(self.state)) for client in self.clients]

    def run_until_changed(self) -> None:
        """Run until a request has changed one of the ids, or waits for the end of a transaction."""
        before = [client.producer.metadata for client in self.clients]

        def is_changed() -> bool:
            return [client.producer.metadata for client in self.clients] != before

        self.run(WAITING_NS if self.state in AFTER else STEP_NS, is_changed)
        assert is_changed() or self.state in AFTER

    def until_answered(self, answers: Sequence[Sequence[ErrorCode]]) -> None:
        """Run until each list has an answer."""
        self.cluster.until(lambda: all(answers))

    def take(self, answers: Sequence[Sequence[ErrorCode]]) -> None:
        """Wait for the answers of requests that `send_next` sent; a client that knows its outcome
        goes on from there.
        """
        self.until_answered(answers)
        if self.state is State.ONGOING:
            for client, (answer,) in zip(self.clients, answers, strict=True):
                if answer is NONE:
                    client.ended(True)
                    # An open transaction would be aborted now, and not be continued and committed.
                    assert client.producer.init() is NONE

    def check_unchanged(self) -> None:
        """All ids are still in the state."""
        assert {client.producer.state for client in self.clients} == {self.state}

    def lose(self, machine: SimMachine) -> None:
        """Kill a machine, and run until the others serve without it."""
        machine.kill()
        self.cluster.await_healed_without(machine.number)

    def heal(self) -> None:
        """Start what was killed, and run until all is whole."""
        for machine in self.cluster.world.machines:
            machine.boot()
        self.cluster.connect_anew()
        self.cluster.await_healed()

    def go_on(self) -> None:
        """Let each client take its next step and make a whole transaction."""
        self.release()
        for client in self.clients:
            client.go_on(self.state)
            client.commit_whole()


def coordinator_lost(scene: Scene) -> None:
    scene.lose(scene.coordinator)
    scene.go_on()


def coordinator_lost_in_a_step(scene: Scene) -> None:
    """The new record is not committed yet: who leads next decides its fate."""
    lost = scene.coordinator
    answers = scene.send_next()
    scene.run_until_changed()
    scene.lose(lost)
    scene.take(answers)
    scene.go_on()


def coordinator_lost_with_its_record(scene: Scene) -> None:
    """No client may have been told of a state that no other replica knows."""
    if scene.state is None:  # A producer id must be there: none can be asked for in a moment.
        others = islice(same_coordinator(scene.cluster, scene.topic), len(scene.clients), None)
        assert next(others).init() is NONE
    lost, ways = scene.coordinator, scene.cluster.world.fabric.ways
    cut = [
        ways.between(lost.host, each.host)
        for each in scene.cluster.world.machines
        if each is not lost
    ]
    ways.cut(cut)
    answers = scene.send_next()
    scene.run_until_changed()
    scene.run(WAITING_NS)
    lost.power_loss()
    ways.mend(cut)
    scene.cluster.await_healed_without(lost.number)
    scene.take(answers)
    scene.go_on()


def coordinator_paused(scene: Scene) -> None:
    """It does not know that there is another one when it goes on."""
    process = scene.coordinator.process
    assert process is not None
    process.paused_until_ns = scene.cluster.scheduler.now_ns + PAUSE_NS
    scene.cluster.await_healed_without(scene.coordinator.number)
    held, scene.held = scene.held, None
    scene.go_on()
    scene.run(PAUSE_NS)
    scene.cluster.await_healed()
    for client in scene.clients:
        client.begin()
    scene.held = held
    scene.release()
    scene.run(SECOND)
    for client in scene.clients:
        client.commit_whole()


def leader_lost(scene: Scene) -> None:
    producer = scene.clients[0].producer
    scene.lose(scene.cluster.machine(producer.leader(scene.index_led_elsewhere)))
    scene.go_on()


def leader_lost_in_a_step(scene: Scene) -> None:
    """What it has appended, and no other replica may have, is sent again to the next leader."""
    index = scene.index_led_elsewhere
    leader = scene.clients[0].producer.leader(index)
    partition = scene.cluster.partition(leader, scene.topic, index)
    end = partition.log.log_end_offset
    answers: list[list[ErrorCode]] = []
    if scene.state is State.ONGOING:
        answers = scene.send_next()
    elif scene.state not in AFTER:
        for client in scene.clients:
            client.go_on(scene.state)
            producer, value = client.producer, client.transaction.values[index]
            if producer.version == 1:
                assert client.ask(producer.add_request(index)) is NONE
            answers.append(client.send(producer.produce_request(index, value)))
    scene.release()
    scene.run(STEP_NS, lambda: partition.log.log_end_offset > end)
    assert partition.log.log_end_offset > end
    scene.lose(scene.cluster.machine(leader))
    scene.take(answers)
    scene.go_on()


def client_lost(scene: Scene) -> None:
    """Nobody comes: the timeout ends what is open, whether the last request arrived or not."""
    crash_in_a_step(scene)
    scene.release()
    check_that_all_ends(scene)


def client_and_coordinator_lost(scene: Scene) -> None:
    crash_in_a_step(scene)
    scene.lose(scene.coordinator)
    check_that_all_ends(scene)


def crash_in_a_step(scene: Scene) -> None:
    """End the clients for ever as they send their next requests."""
    scene.send_next()
    scene.run_until_changed()
    for client in scene.clients:
        client.producer.crash()
        if scene.state is State.ONGOING:
            client.ended(None)


def check_that_all_ends(scene: Scene) -> None:
    """The timeouts end what is open; then others take over the ids."""
    scene.run(BRIEF_NS + 2 * SECOND)
    left = (State.ONGOING, *AFTER)
    assert not [each for each in scene.clients if each.producer.state in left]
    assert not open_transactions(scene.cluster.world.machines)
    scene.clients = [client.rival("next") for client in scene.clients]
    for client in scene.clients:
        assert client.producer.init() is NONE
        client.commit_whole()


def client_replaced(scene: Scene) -> None:
    """The first one's next request arrives when the other one's transaction is open; an
    InitProducerId that does is one more takeover.
    """
    rivals = []
    for client in scene.clients:
        request = client.next_request(scene.state)
        connection = client.producer.client(request[0])
        connection.hold()
        answers = connection.send(request)
        rival = client.rival("rival")
        if scene.held is not None:
            assert rival.ask(rival.producer.init_request()) is CONCURRENT
        rivals.append((client, connection, answers, rival))
    scene.release()
    newest = []
    for client, connection, answers, rival in rivals:
        assert rival.producer.init() is NONE
        rival.begin()
        connection.release()
        scene.until_answered([answers])
        if scene.state is None:
            assert answers[0] in (NONE, CONCURRENT)
            assert answers[0] is NONE or client.producer.init() is NONE
            winner, zombie = client, rival.producer
        else:
            assert answers[0] in FENCED
            winner, zombie = rival, client.producer
        check_fenced(zombie, FENCED)
        winner.commit_whole()
        check_fenced(zombie, FENCED)
        newest.append(winner)
    scene.clients = newest


def check_fenced(zombie: Producer, errors: Sequence[ErrorCode]) -> None:
    """The requests of a producer that was replaced are refused."""
    assert zombie.write(1, b"zombie") in errors
    assert zombie.end(commit=True) in errors


def request_held_back(scene: Scene) -> None:
    """The client gives the connection up, repeats the request over another one, and has taken its
    next step when the first one arrives.
    """
    late = [client.send_held(client.next_request(scene.state)) for client in scene.clients]
    scene.release()
    for client, arrive in zip(scene.clients, late, strict=True):
        client.go_on(scene.state)
        if scene.state is None:
            client.begin()
            assert arrive() in (NONE, CONCURRENT)
            assert client.write(1) in FENCED
            client.ended(False)
            assert client.producer.init() is NONE
        elif scene.state is State.ONGOING:
            client.begin()
            before = client.producer.metadata
            assert arrive() in (*FENCED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            assert client.producer.metadata == before
        else:
            client.commit_whole()
            until_in(client.producer, State.COMPLETE_COMMIT)
            # Nothing tells a late AddPartitionsToTxn of version 1 from one of the next transaction.
            assert arrive() in ((NONE,) if client.producer.version == 1 else FENCED)
        client.commit_whole()


def request_arrives_again(scene: Scene) -> None:
    """It changes nothing, except an InitProducerId, which is one more takeover."""
    for client in scene.clients:
        producer, before = client.producer, client.producer.metadata
        if scene.state is None:
            assert client.ask(producer.end_request(commit=True)) is MAPPING
        elif scene.state is State.EMPTY:
            assert client.send_held(producer.init_request())() is NONE
            assert client.write(0) in FENCED
            assert producer.init() is NONE
            before = producer.metadata
        elif scene.state is State.ONGOING:
            if producer.version == 1:
                assert client.ask(producer.add_request(0)) is NONE
            producer._sequences[0] -= 1
            assert producer.write(0, client.transaction.values[0]) is NONE
        else:
            committed = client.transactions[-1].committed
            assert committed is not None
            of_now = producer.epoch
            for commit, after in ((committed, NONE), (not committed, ErrorCode.INVALID_TXN_STATE)):
                producer.epoch = of_now - (producer.version == 2)
                answer = client.ask(producer.end_request(commit=commit))
                assert answer is (CONCURRENT if scene.state in AFTER else after)
            producer.epoch = of_now
        assert producer.metadata == before
    scene.go_on()


def timeout_races_commit(scene: Scene) -> None:
    """Exactly one of them wins; a transaction that is decided, or ended, has no timeout."""
    if scene.state is not State.ONGOING:
        scene.run(BRIEF_NS + SECOND)
        scene.check_unchanged()
        scene.release()
        for client in scene.clients:
            client.go_on(scene.state)
            client.write_rest()
    clock, answers = scene.coordinator.clock, []
    for early_ms, client in zip(EARLY_MS, scene.clients, strict=True):
        known = client.producer.metadata
        assert known is not None
        left_ms = known.start_ms + known.timeout_ms - early_ms - clock.wall_ms()
        assert left_ms > 0, "the race was over before it began"
        scene.run(left_ms * MS)
        answers.append(client.send(client.next_request(State.ONGOING)))
    scene.until_answered(answers)
    for client, (answer,) in zip(scene.clients, answers, strict=True):
        error = client.producer.end(commit=True) if answer.retriable else answer
        assert error in (NONE, TOO_LATE[client.producer.version])
        client.ended(error is NONE)
        assert client.producer.init() is NONE
        client.commit_whole()


def last_epoch(scene: Scene) -> None:
    """The producer gets another id, and whoever has the one before is shut out."""
    if scene.state is None:
        for client in scene.clients:
            assert client.producer.init() is NONE
    zombies = [client.zombie() for client in scene.clients]
    scene.go_on()
    for client, zombie in zip(scene.clients, zombies, strict=True):
        producer = client.producer
        if producer.version == 1:
            assert producer.epoch == LAST_EPOCH
            assert producer.init() is NONE
        assert producer.epoch < LAST_EPOCH
        client.begin()
        check_fenced(zombie, (*FENCED, MAPPING))
        client.commit_whole()


def last_epoch_coordinator_lost(scene: Scene) -> None:
    scene.lose(scene.coordinator)
    last_epoch(scene)


def clock_jumps_ahead(scene: Scene) -> None:
    """Nobody notices: an id that rests does not expire by a clock that is set forward."""
    for machine in scene.cluster.world.machines:
        machine.clock.wall_skew_ms += JUMP_MS
    scene.run(3 * SECOND)
    scene.check_unchanged()
    scene.go_on()


def clock_jumps_back(scene: Scene) -> None:
    """Nobody notices, though the transaction seems to begin in the future."""
    scene.coordinator.clock.wall_skew_ms -= JUMP_MS
    scene.run(3 * SECOND)
    scene.check_unchanged()
    scene.go_on()


Fault = Callable[[Scene], None]
FAULTS: Sequence[Fault] = (
    coordinator_lost,
    coordinator_lost_in_a_step,
    coordinator_lost_with_its_record,
    coordinator_paused,
    leader_lost,
    leader_lost_in_a_step,
    client_lost,
    client_and_coordinator_lost,
    client_replaced,
    request_held_back,
    request_arrives_again,
    timeout_races_commit,
    last_epoch,
    last_epoch_coordinator_lost,
    clock_jumps_ahead,
    clock_jumps_back,
)
AT_THE_LAST_EPOCH = (last_epoch, last_epoch_coordinator_lost)
BRIEF = (client_lost, client_and_coordinator_lost, timeout_races_commit)
"""Faults in which transactions have a short timeout."""
CLIENTS = 2


def name_of(fault: Fault) -> str:
    return fault.__name__.replace("_", "-")


def text_of(state: TransactionState | None) -> str:
    return "NoId" if state is None else state.text


class Clusters:
    """A cluster for the tests of each fault, one after another."""

    def __init__(self) -> None:
        self._fault: Fault | None = None
        self._cluster: LiveCluster | None = None

    def of(self, fault: Fault) -> LiveCluster:
        """Return the cluster of a fault; the last one is forgotten."""
        if self._cluster is None or fault is not self._fault:
            self._fault, self._cluster = fault, live_cluster(**SETTINGS)
        return self._cluster


@pytest.fixture(scope="module")
def clusters() -> Clusters:
    return Clusters()


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        pytest.param(state, fault, id=f"{text_of(state)}-{name_of(fault)}")
        for fault in FAULTS
        for state in STATES
    ],
)
def test_a_transaction_is_whole_or_absent_after_a_fault_in_any_state(
    clusters: Clusters,
    monkeypatch: pytest.MonkeyPatch,
    state: TransactionState | None,
    fault: Fault,
) -> None:
    cluster = clusters.of(fault)
    if fault in AT_THE_LAST_EPOCH:
        begins_with_epoch(monkeypatch, LAST_EPOCH)
    topic = f"{text_of(state)}-{name_of(fault)}"
    cluster.create(topic, partitions=PARTITIONS)
    number = len(EARLY_MS) if fault is timeout_races_commit else CLIENTS
    clients = [
        TransactionalClient(producer)
        for producer in islice(same_coordinator(cluster, topic), number)
    ]
    held = None
    if state in AFTER:
        held = HeldMarkers(cluster.node(clients[0].producer.coordinator))
    for client in clients:
        if fault in BRIEF:
            client.producer.timeout_ms = BRIEF_NS // MS
        client.bring_to(state)
    scene = Scene(cluster, topic, state, clients, held)
    fault(scene)
    scene.heal()
    for client in scene.clients:
        client.abort_whole()
    check_whole(cluster, topic, scene.clients)
