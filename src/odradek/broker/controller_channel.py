"""ControllerChannel: requests to the active controller, whichever node that is.

                        no controller known, NOT_CONTROLLER, connection lost
                      ┌───────────────────────────────────────────────────────┐
                      ▼                                                       │
    send ─► waiting (until another controller, at most `RETRY_MS`) ─► in flight ─► answered
                      │                                                       │
                      │    this node is the controller now: `is_here`         ├─► UnsupportedVersion
                      └─── the deadline has passed: RequestTimeout ───────────┘

A call ends once, by calling `ended`, never from within `send`. It has a deadline over all its
attempts, as Kafka's NodeToControllerChannelManager. An attempt whose connection was lost is
repeated: the controller may have done what it asked, so a repeated one may get TOPIC_ALREADY_EXISTS
or the like, as with Kafka. At most `CALLS_MAX` calls are open.

`active` says who the active controller is, as far as this node knows; whoever learns of another one
calls `controller_changed`, so that nothing waits longer than it must.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek.controller.quorum_controller import ActiveController, FindController
from odradek.model.errors import ErrorCode
from odradek.network_client.alarm import Alarm
from odradek.network_client.errors import (
    ClientClosed,
    Disconnected,
    KafkaError,
    RequestTimeout,
)
from odradek.network_client.in_flight_requests import ClientRequest
from odradek.network_client.network_client import NetworkClient
from odradek.timing.timer import SystemTimer

RETRY_MS = 100
"""The wait before the next attempt, if no other controller becomes known before; Kafka's."""
CALLS_MAX = 1000


class ControllerCall:
    """A request to the active controller. When `ended` is called, exactly one of `response`,
    `error` and `is_here` is set."""

    __slots__ = (
        "deadline_ms",
        "done",
        "ended",
        "error",
        "is_here",
        "request",
        "response",
        "retry_ms",
    )

    def __init__(
        self, request: Any, ended: Callable[[ControllerCall], None], deadline_ms: int
    ) -> None:
        self.request = request
        """The request, or its `RequestBuilder`."""
        self.ended = ended
        self.deadline_ms = deadline_ms
        self.response: Any = None
        """The answer; its `error_code` is any other than NOT_CONTROLLER."""
        self.error: KafkaError | None = None
        self.is_here = False
        """This node is the active controller: nothing was done, the caller decides here."""
        self.done = False
        self.retry_ms = 0
        """Not sent before this time, unless another controller becomes known."""

    def cancel(self) -> None:
        """Forget the call: `ended` will not be called. What is in flight may still be done."""
        self.done = True


class ControllerChannel:
    """Sends the calls of one purpose. Owner thread only."""

    def __init__(
        self,
        timer: SystemTimer,
        client: NetworkClient,
        active: FindController,
        own_id: int,
    ) -> None:
        self._timer = timer
        self._client = client
        self._active = active
        self._own_id = own_id
        self._waiting: list[ControllerCall] = []
        self._open = 0
        self._alarm = Alarm(timer, self._try_waiting)
        self._closed = False
        self._scheduled = False

    @property
    def open_calls(self) -> int:
        """The number of calls that wait or are in flight."""
        return self._open

    def send(
        self, request: Any, ended: Callable[[ControllerCall], None], timeout_ms: int
    ) -> ControllerCall:
        """Send a request as soon as a controller is known; `timeout_ms` is for all attempts."""
        call = ControllerCall(request, ended, self._timer.now_ms + timeout_ms)
        self._open += 1
        if self._closed:
            call.error = ClientClosed("the broker stops")
            self._client.env.call_soon(lambda: self._end(call))
        elif self._open > CALLS_MAX:
            text = f"{CALLS_MAX} requests already wait for the active controller"
            call.error = Disconnected(text)
            self._client.env.call_soon(lambda: self._end(call))
        else:
            self._waiting.append(call)
            self._try_soon()
        return call

    def controller_changed(self) -> None:
        """Send what waits: another node is the active controller, or another epoch has begun."""
        for call in self._waiting:
            call.retry_ms = 0
        self._try_soon()

    def close(self) -> None:
        """End all calls that wait, with `ClientClosed`; those in flight end with the client."""
        self._closed = True
        self._alarm.cancel()
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call.error = ClientClosed("the broker stops")
            self._end(call)

    def _try_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._client.env.call_soon(self._try_waiting)

    def _try_waiting(self) -> None:
        """Send the calls that are due, in order, and end those whose time is over."""
        self._scheduled = False
        now_ms = self._timer.now_ms
        waiting, self._waiting = self._waiting, []
        controller = self._active()
        for call in waiting:
            if call.done:
                self._open -= 1
            elif controller is not None and controller.node_id == self._own_id:
                call.is_here = True
                self._end(call)
            elif call.deadline_ms <= now_ms:
                call.error = RequestTimeout("no active controller has answered in time")
                self._end(call)
            elif controller is None:
                self._wait(call, now_ms + RETRY_MS)
            elif call.retry_ms > now_ms:
                self._wait(call, call.retry_ms)
            else:
                self._transmit(call, controller, now_ms)

    def _wait(self, call: ControllerCall, retry_ms: int) -> None:
        """Let a call wait for another controller, or for its next attempt."""
        self._waiting.append(call)
        call.retry_ms = retry_ms
        self._alarm.set_for(min(call.deadline_ms, retry_ms))

    def _transmit(self, call: ControllerCall, controller: ActiveController, now_ms: int) -> None:
        self._client.send(
            controller.node_id,
            call.request,
            lambda request: self._answered(call, controller, request),
            timeout_ms=min(self._client.request_timeout_ms, call.deadline_ms - now_ms),
        )

    def _answered(
        self, call: ControllerCall, controller: ActiveController, request: ClientRequest
    ) -> None:
        error = request.error
        refused = error is None and request.response.error_code == ErrorCode.NOT_CONTROLLER
        lost = isinstance(error, (Disconnected, RequestTimeout))
        if call.done:
            self._open -= 1
        elif (refused or lost) and not self._closed:
            moved = self._active() != controller
            self._wait(call, self._timer.now_ms + (0 if moved else RETRY_MS))
        else:
            call.response, call.error = request.response, error
            self._end(call)

    def _end(self, call: ControllerCall) -> None:
        self._open -= 1
        if not call.done:
            call.done = True
            call.ended(call)
