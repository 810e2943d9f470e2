"""The errors of connections and requests, and the base of all errors that clients raise.

    KafkaError
    ├─ Disconnected             a connection could not be made, or broke
    ├─ KafkaTimeout             a TimeoutError
    │  └─ RequestTimeout        a node did not answer in time
    ├─ ClientClosed             the user of the connections closed them
    ├─ UnsupportedVersion       the node and this side have no common version of a request
    └─ BrokerError              an error that a broker returned
       └─ InvalidRequest        also: a request that cannot be written

`client.errors` adds those that only clients raise, and describes what all have in common. Public
names of all of them are in `odradek.errors`.
"""

from __future__ import annotations

from odradek.model.errors import ErrorCode

ADVICE_MARK = ". What to do: "


class KafkaError(Exception):
    """The base of the errors that clients raise."""

    fatal: bool = False
    """True if this client object cannot go on: close it."""
    requires_abort: bool = False
    """True if the open transaction has to be aborted before anything else is sent."""
    default_code: ErrorCode | None = None
    advice: str = ""
    """The advice ("What to do") in messages of `error_for`."""

    def __init__(self, message: str = "", code: ErrorCode | None = None) -> None:
        super().__init__(with_one_advice(message))
        self.code = self.default_code if code is None else code
        if code is ErrorCode.TRANSACTION_ABORTABLE:
            self.requires_abort = True

    @property
    def name(self) -> str:
        """The protocol's name of the code; without a code the name of the class."""
        return type(self).__name__ if self.code is None else self.code.name

    @property
    def retriable(self) -> bool:
        """True if the same may succeed later."""
        return self.code is not None and self.code.retriable

    @property
    def refresh_metadata(self) -> bool:
        """True if the client's metadata may be out of date."""
        return self.code is not None and self.code.refresh_metadata


def with_one_advice(message: str) -> str:
    """Return a message with its last advice only. The message of one error may contain another with
    its own advice; the outer error knows better what was attempted. Every message passes here."""
    happened, mark, rest = message.partition(ADVICE_MARK)
    return happened + mark + rest.rpartition(ADVICE_MARK)[2].lstrip()


class Disconnected(KafkaError):
    """A connection could not be made, or broke before the response: the request may or may not have
    been processed."""

    default_code = ErrorCode.NETWORK_EXCEPTION
    advice = "check bootstrap.servers, the broker's log, and its advertised.listeners"


class KafkaTimeout(KafkaError, TimeoutError):
    """An operation took longer than a setting or an argument allows."""

    default_code = ErrorCode.REQUEST_TIMED_OUT


class RequestTimeout(KafkaTimeout):
    """A broker did not answer within request.timeout.ms."""


class ClientClosed(KafkaError):
    """The client was closed before or during the call."""


class UnsupportedVersion(KafkaError):
    """Client and broker have no common version of a request, or none that supports the call."""

    default_code = ErrorCode.UNSUPPORTED_VERSION
    advice = "use a broker that supports it, or leave out what it does not support"


class BrokerError(KafkaError):
    """A broker returned an error; the code says why."""


class InvalidRequest(BrokerError):
    """A broker does not accept the request."""
