"""A broker's life in its cluster: each test is a sequence of what it sends and what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import pytest

from odradek.broker.lifecycle import (
    BrokerLifecycle,
    BrokerState,
    CaughtUp,
    Effect,
    FenceChanged,
    LifecycleConfig,
    LifecycleRequest,
    MayShutDown,
    Registered,
    RegistrationRefused,
    SendToController,
    SessionEnded,
    SessionResumed,
)
from odradek.model.errors import ErrorCode
from odradek.network_client.backoff import ExponentialBackoff
from odradek.protocol.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from odradek.protocol.api.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

INTERVAL = 2_000
BACKOFF = 100
EPOCH = 7


class NoJitter:
    """Random bits in the middle: a back-off without jitter."""

    def getrandbits(self, bits: int) -> int:
        return 1 << (bits - 1)


CONFIG = LifecycleConfig(INTERVAL, registration_timeout_ms=60_000, controlled_shutdown_ms=5_000)


def life_with(config: LifecycleConfig) -> BrokerLifecycle:
    registration = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id="cluster",
        incarnation_id=UUID(int=9),
        listeners=[],
        features=[],
        rack=None,
    )
    return BrokerLifecycle(registration, config, ExponentialBackoff(BACKOFF, 1_000, NoJitter()))


@dataclass
class Life:
    """A lifecycle with a clock, and what it has asked for so far."""

    lifecycle: BrokerLifecycle = field(default_factory=lambda: life_with(CONFIG))
    now: int = 0
    effects: list[Effect] = field(default_factory=list)

    @property
    def state(self) -> BrokerState:
        return self.lifecycle.state

    def take(self) -> list[Effect]:
        """The effects since the last call."""
        effects, self.effects = self.effects, []
        return effects

    def sent(self) -> LifecycleRequest | None:
        """The request that was sent since the last call; at most one can be in flight."""
        requests = [each.request for each in self.take() if isinstance(each, SendToController)]
        assert len(requests) <= 1
        return requests[0] if requests else None

    def heartbeat(self) -> BrokerHeartbeatRequest:
        request = self.sent()
        assert isinstance(request, BrokerHeartbeatRequest), request
        return request

    def start(self) -> None:
        self.effects += self.lifecycle.start(self.now)

    def sleep(self, ms: int) -> None:
        """Let time pass, with the ticks that are due."""
        end = self.now + ms
        while (deadline := self.lifecycle.deadline) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.effects += self.lifecycle.tick(self.now)
        self.now = end

    def registers(self, epoch: int = EPOCH) -> None:
        response = BrokerRegistrationResponse(error_code=0, broker_epoch=epoch)
        self.effects += self.lifecycle.answered(self.now, response)

    def answers(
        self,
        *,
        caught_up: bool = True,
        fenced: bool = False,
        shut_down: bool = False,
        metadata_end: int = -1,
    ) -> None:
        response = BrokerHeartbeatResponse(
            error_code=0,
            is_caught_up=caught_up,
            is_fenced=fenced,
            should_shut_down=shut_down,
            metadata_end=metadata_end,
        )
        self.effects += self.lifecycle.answered(self.now, response)

    def refuses(self, error: ErrorCode) -> None:
        response = (
            BrokerRegistrationResponse(error_code=error, broker_epoch=-1)
            if self.lifecycle.epoch < 0
            else BrokerHeartbeatResponse(error_code=error, should_shut_down=False)
        )
        self.effects += self.lifecycle.answered(self.now, response)

    def fails(self) -> None:
        self.effects += self.lifecycle.failed(self.now)

    def applies_metadata(self, offset: int) -> None:
        self.effects += self.lifecycle.metadata_applied(self.now, offset)

    def opens_logs(self) -> None:
        self.effects += self.lifecycle.logs_opened(self.now)

    def stops(self) -> None:
        self.effects += self.lifecycle.begin_controlled_shutdown(self.now)


def running() -> Life:
    """A broker that was unfenced and has sent one heartbeat since, which was answered."""
    life = Life()
    life.start()
    life.registers()
    life.answers(caught_up=False, fenced=True)
    life.applies_metadata(EPOCH)
    life.answers(fenced=True)
    life.opens_logs()
    life.answers(fenced=False)
    assert life.state is BrokerState.RUNNING
    life.take()
    return life


def test_a_broker_registers_catches_up_opens_its_logs_and_is_unfenced() -> None:
    life = Life()
    life.start()
    assert isinstance(life.sent(), BrokerRegistrationRequest)

    life.registers()
    assert life.take()[0] == Registered(EPOCH)
    life.answers(caught_up=False, fenced=True)
    assert life.take() == []

    life.applies_metadata(EPOCH)
    heartbeat = life.heartbeat()
    assert (heartbeat.current_metadata_offset, heartbeat.want_fence) == (EPOCH, True)
    life.answers(caught_up=True, fenced=True)
    assert life.take() == [CaughtUp()]
    assert life.state is BrokerState.RECOVERY

    life.opens_logs()
    assert not life.heartbeat().want_fence
    life.answers(fenced=False)
    assert life.take() == [FenceChanged(False)]
    assert life.lifecycle.state.name == "RUNNING"


def test_logs_that_are_open_before_the_broker_is_caught_up_unfence_it_at_once() -> None:
    life = Life()
    life.start()
    life.registers()
    life.opens_logs()
    life.applies_metadata(EPOCH)
    life.answers(caught_up=True, fenced=True)
    effects = life.take()
    assert effects[-2] == CaughtUp()
    request = effects[-1].request if isinstance(effects[-1], SendToController) else None
    assert isinstance(request, BrokerHeartbeatRequest)
    assert not request.want_fence


def test_heartbeats_are_sent_at_the_interval_with_the_applied_offset() -> None:
    life = running()
    life.applies_metadata(EPOCH + 5)
    life.sleep(INTERVAL - 1)
    assert life.take() == []
    life.sleep(1)
    heartbeat = life.heartbeat()
    assert (heartbeat.broker_epoch, heartbeat.current_metadata_offset) == (EPOCH, EPOCH + 5)


def test_nothing_is_sent_while_a_request_is_in_flight() -> None:
    life = running()
    life.sleep(INTERVAL)
    life.heartbeat()
    life.sleep(10 * INTERVAL)
    life.stops()
    assert life.sent() is None


def test_a_request_without_an_answer_is_sent_again_after_growing_waits() -> None:
    life = Life()
    life.start()
    for wait in (BACKOFF, 2 * BACKOFF, 4 * BACKOFF):
        assert isinstance(life.sent(), BrokerRegistrationRequest)
        life.fails()
        life.sleep(wait - 1)
        assert life.sent() is None
        life.sleep(1)


def test_an_answer_resets_the_growing_waits() -> None:
    life = running()
    life.sleep(INTERVAL)
    for _ in range(4):
        life.fails()
        life.sleep(1_000)
    life.take()
    life.answers()
    life.sleep(INTERVAL)
    life.take()
    life.fails()
    life.sleep(BACKOFF)
    assert life.sent() is not None


def test_a_new_controller_gets_what_the_old_one_did_not_answer_at_once() -> None:
    life = running()
    life.sleep(INTERVAL)
    life.take()
    life.fails()
    assert life.sent() is None
    life.effects += life.lifecycle.controller_changed(life.now)
    life.heartbeat()


def test_a_new_controller_hears_from_the_broker_at_once() -> None:
    life = running()
    life.effects += life.lifecycle.controller_changed(life.now)
    life.heartbeat()


def test_a_request_that_the_former_controller_does_not_answer_is_sent_to_the_new_one() -> None:
    life = Life()
    life.start()
    assert life.sent() is not None
    life.effects += life.lifecycle.controller_changed(life.now)
    assert isinstance(life.sent(), BrokerRegistrationRequest)


def test_a_lost_connection_brings_the_next_heartbeat_forward() -> None:
    life = running()
    life.effects += life.lifecycle.connection_lost(life.now)
    life.heartbeat()
    life.effects += life.lifecycle.connection_lost(life.now)
    assert life.sent() is None  # One is in flight.


def test_a_lost_connection_does_not_shorten_the_wait_after_a_failure() -> None:
    life = running()
    life.sleep(INTERVAL)
    life.heartbeat()
    life.fails()
    life.effects += life.lifecycle.connection_lost(life.now)
    assert life.sent() is None


def test_a_session_ends_once_when_the_controller_is_not_heard_and_goes_on_with_its_answer() -> None:
    life = running()
    life.sleep(CONFIG.session_timeout_ms - 1)
    assert SessionEnded() not in life.take()
    assert not life.lifecycle.session_ended
    life.fails()
    life.sleep(1)
    assert life.take().count(SessionEnded()) == 1
    life.sleep(10 * CONFIG.session_timeout_ms)
    assert life.lifecycle.session_ended
    assert SessionEnded() not in life.take()
    life.answers()
    assert not life.lifecycle.session_ended


def whose_session_ended() -> Life:
    life = running()
    life.effects += life.lifecycle.metadata_applied(life.now, 19)
    life.sleep(CONFIG.session_timeout_ms)
    life.fails()
    life.sleep(BACKOFF)
    assert life.take().count(SessionEnded()) == 1
    return life


def test_a_session_goes_on_only_with_the_metadata_that_the_answer_names() -> None:
    life = whose_session_ended()
    life.answers(metadata_end=40)
    assert life.lifecycle.session_ended
    life.effects += life.lifecycle.metadata_applied(life.now, 38)
    assert life.lifecycle.session_ended
    life.sleep(INTERVAL)
    life.answers(metadata_end=50)
    life.effects += life.lifecycle.metadata_applied(life.now, 39)
    assert not life.lifecycle.session_ended, "what is decided later does not count"
    assert life.take().count(SessionResumed()) == 1


def test_a_session_does_not_go_on_with_an_answer_from_before_another_silence() -> None:
    life = whose_session_ended()
    life.answers(metadata_end=40)
    life.sleep(CONFIG.session_timeout_ms)
    life.effects += life.lifecycle.metadata_applied(life.now, 39)
    assert life.lifecycle.session_ended
    life.answers(metadata_end=60)
    assert life.lifecycle.session_ended
    life.effects += life.lifecycle.metadata_applied(life.now, 59)
    assert not life.lifecycle.session_ended


def test_an_id_that_is_in_use_is_tried_again_until_the_time_is_up() -> None:
    life = Life()
    life.start()
    while not any(isinstance(each, RegistrationRefused) for each in life.effects):
        if any(isinstance(each, SendToController) for each in life.take()):
            life.refuses(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        life.sleep(500)
        assert life.now <= 61_000
    refused = life.effects[-1]
    assert isinstance(refused, RegistrationRefused)
    assert "in 60 s: it answers DUPLICATE_BROKER_REGISTRATION" in refused.message
    assert life.now >= 60_000


def with_a_new_directory(taken_after_ms: int) -> Life:
    """A broker that has begun to register, and whose id is in use."""
    life = Life()
    life.lifecycle = life_with(LifecycleConfig(INTERVAL, taken_after_ms=taken_after_ms))
    life.start()
    life.take()
    life.refuses(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    return life


def until_refused(life: Life) -> RegistrationRefused:
    """Let the id be in use for ever; return how that ends."""
    while not any(isinstance(each, RegistrationRefused) for each in life.effects):
        if any(isinstance(each, SendToController) for each in life.take()):
            life.refuses(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        else:
            life.sleep(10)
    (refused,) = life.take()
    assert isinstance(refused, RegistrationRefused)
    return refused


def test_a_new_directory_gets_its_id_when_the_session_of_a_process_before_has_ended() -> None:
    life = with_a_new_directory(10_000)
    life.sleep(BACKOFF)
    assert isinstance(life.sent(), BrokerRegistrationRequest)
    life.registers()
    assert life.take()[0] == Registered(EPOCH)


def test_an_id_in_use_for_longer_than_a_session_is_taken_for_a_new_directory() -> None:
    life = with_a_new_directory(10_000)
    refused = until_refused(life)
    assert refused.id_is_taken
    assert "another node of the cluster has id 1" in refused.message
    assert 10_000 <= life.now <= 15_000


def test_a_new_controller_begins_the_sessions_anew_and_with_them_the_wait_for_an_id() -> None:
    life = with_a_new_directory(10_000)
    life.sleep(9_000)
    life.effects += life.lifecycle.controller_changed(life.now)
    assert until_refused(life).id_is_taken
    assert 19_000 <= life.now <= 24_000


def test_an_id_that_was_free_and_is_in_use_is_taken_at_once() -> None:
    life = with_a_new_directory(0)
    (refused,) = life.take()
    assert isinstance(refused, RegistrationRefused)
    assert refused.id_is_taken


def test_a_directory_of_another_cluster_is_refused_at_once() -> None:
    life = Life()
    life.start()
    life.take()
    life.refuses(ErrorCode.INCONSISTENT_CLUSTER_ID)
    (refused,) = life.take()
    assert isinstance(refused, RegistrationRefused)
    assert "another cluster" in refused.message
    assert life.lifecycle.deadline is None


def test_without_a_controller_the_registration_fails_when_its_time_is_up() -> None:
    life = Life()
    life.start()
    life.take()
    life.sleep(60_000)
    (refused,) = life.take()
    assert isinstance(refused, RegistrationRefused)
    assert refused.message.endswith(
        "in 60 s: no controller answered. What to do: start a majority of the voters of the "
        "cluster's quorum, and let each listen where the others reach it"
    )


def test_a_broker_that_the_controller_fenced_asks_to_be_unfenced() -> None:
    life = running()
    life.sleep(INTERVAL)
    life.take()
    life.answers(fenced=True)
    assert life.take() == [FenceChanged(True)]
    assert life.state is BrokerState.RUNNING
    life.sleep(INTERVAL)
    assert not life.heartbeat().want_fence
    life.answers(fenced=False)
    assert life.take() == [FenceChanged(False)]


def test_a_broker_that_was_removed_counts_as_fenced() -> None:
    life = running()
    life.sleep(INTERVAL)
    life.take()
    life.refuses(ErrorCode.STALE_BROKER_EPOCH)
    assert life.take() == [FenceChanged(True)]


def test_a_node_without_a_controller_logs_once_what_it_waits_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    life = Life()
    life.start()
    life.fails()
    assert caplog.messages == []
    for _ in range(50):
        life.sleep(100)
        life.fails()
    (text,) = caplog.messages
    assert text.startswith("this node is not in its cluster yet, and tries for ")
    assert "start a majority of the voters" in text


def test_a_failed_directory_is_told_at_once() -> None:
    life = running()
    life.effects += life.lifecycle.directories_failed(life.now, [UUID(int=3)])
    assert life.heartbeat().offline_log_dirs == [UUID(int=3)]


def test_a_cordoned_directory_is_told_at_once_and_so_is_its_end() -> None:
    life = running()
    life.effects += life.lifecycle.directories_cordoned(life.now, [UUID(int=3)])
    assert life.heartbeat().cordoned_log_dirs == [UUID(int=3)]
    life.answers()
    life.effects += life.lifecycle.directories_cordoned(life.now, [UUID(int=3)])
    assert life.take() == []
    life.effects += life.lifecycle.directories_cordoned(life.now, [])
    assert life.heartbeat().cordoned_log_dirs == []


def test_a_broker_that_was_never_cordoned_tells_nothing_of_it() -> None:
    life = running()
    life.effects += life.lifecycle.directories_cordoned(life.now, [])
    assert life.take() == []
    life.sleep(INTERVAL)
    assert life.heartbeat().cordoned_log_dirs is None


def test_a_stop_asks_often_until_all_leaderships_are_gone() -> None:
    life = running()
    life.stops()
    assert life.heartbeat().want_shut_down
    life.answers(shut_down=False)
    life.sleep(50)
    assert life.heartbeat().want_shut_down
    life.answers(shut_down=True)
    assert life.take() == [MayShutDown(relieved=True)]
    assert life.lifecycle.deadline is None


def test_a_stop_whose_leaderships_do_not_move_ends_when_its_patience_does() -> None:
    life = running()
    life.stops()
    until = life.now + 5_000
    while life.now < until:
        effects = life.take()
        assert not any(isinstance(each, MayShutDown) for each in effects)
        life.answers(shut_down=False)
        life.sleep(50)
    assert MayShutDown(relieved=False) in life.take()


def test_a_stop_that_nobody_can_take_over_from_ends_at_once() -> None:
    life = running()
    life.effects += life.lifecycle.nobody_can_take_over(life.now)
    assert life.take() == []  # It does not stop.
    life.stops()
    life.take()
    life.effects += life.lifecycle.nobody_can_take_over(life.now)
    assert life.take() == [MayShutDown(relieved=True)]


def test_a_stop_without_a_controller_ends_soon() -> None:
    life = running()
    life.stops()
    life.take()
    life.sleep(1_499)
    assert life.take() == []
    life.sleep(1)
    assert life.take() == [MayShutDown(relieved=False)]


def test_news_while_a_heartbeat_is_in_flight_is_sent_after_its_answer() -> None:
    life = running()
    life.sleep(INTERVAL)
    assert not life.heartbeat().want_shut_down
    life.stops()
    life.answers()
    assert life.heartbeat().want_shut_down


def test_a_broker_that_was_never_unfenced_stops_at_once() -> None:
    life = Life()
    life.start()
    life.registers()
    life.take()
    life.stops()
    assert life.take() == [MayShutDown(relieved=True)]


def test_a_late_answer_changes_nothing_after_the_end() -> None:
    life = Life()
    life.start()
    life.stops()
    life.take()
    life.registers()
    assert life.take() == []
    assert life.state is BrokerState.SHUTTING_DOWN
