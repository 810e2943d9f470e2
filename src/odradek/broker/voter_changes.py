"""Changes of the quorum's voters by a request, whose answer waits for the commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from odradek.broker.context import CALLBACK_RESPONSE
from odradek.model.byte_ranges import FileSlice
from odradek.model.errors import ErrorCode
from odradek.raft.effects import Event
from odradek.raft.messages import RaftError, RaftResponse, VoterChangeResponse
from odradek.raft.raft_client import ReplyTo

if TYPE_CHECKING:
    from odradek.broker.broker import Broker
    from odradek.broker.context import RequestContext

TIMEOUT_MS = 30_000


def change_voters(
    broker: Broker,
    context: RequestContext,
    cluster_id: str | None,
    change: Callable[[ReplyTo], Event],
    response: Callable[[ErrorCode, str | None], object],
) -> object:
    """Let the quorum make a change, unless the request is for another cluster."""
    if cluster_id not in (None, broker.directory.meta.cluster_id):
        return response(ErrorCode.INCONSISTENT_CLUSTER_ID, None)
    broker.metadata.raft.change_voters(change(VoterChangeRequest(broker, context, response).reply))
    return CALLBACK_RESPONSE


class VoterChangeRequest:
    """One request for a change: answered by the quorum, or when it takes too long."""

    def __init__(
        self,
        broker: Broker,
        context: RequestContext,
        response: Callable[[ErrorCode, str | None], object],
    ) -> None:
        self._context = context
        self._response = response
        self._alarm = broker.timer.call_later(TIMEOUT_MS, self._timed_out)
        self._ended = False

    def reply(self, response: RaftResponse, _: Sequence[FileSlice]) -> None:
        """Answer as the quorum does."""
        assert isinstance(response, VoterChangeResponse), "the answer to a change"
        ok = response.error is RaftError.NONE
        self._end(ErrorCode[response.error.name], None if ok else response.message)

    def _timed_out(self) -> None:
        self._end(ErrorCode.REQUEST_TIMED_OUT, "the change may still be committed")

    def _end(self, error: ErrorCode, message: str | None) -> None:
        if not self._ended:
            self._ended = True
            self._alarm.cancel()
            self._context.respond(self._response(error, message))
