"""What a client finds itself: time is over, a connection broke, there is no room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.client.errors.base import KafkaError
from odradek.model.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.client.consumer.record import Record


class Disconnected(KafkaError):
    """A connection could not be made, or broke before the answer came: the request may have been
    carried out, or not."""

    default_code = ErrorCode.NETWORK_EXCEPTION
    advice = "check bootstrap.servers, the broker's log, and its advertised.listeners"


class KafkaTimeout(KafkaError, TimeoutError):
    """Something took longer than a setting or an argument allows."""

    default_code = ErrorCode.REQUEST_TIMED_OUT


class RequestTimeout(KafkaTimeout):
    """A broker did not answer within request.timeout.ms."""


class ApiTimeout(KafkaTimeout):
    """A call did not succeed within its time, however often it was tried."""


class MaxBlockTimeout(KafkaTimeout):
    """Metadata or buffer space did not come within max.block.ms."""


class DeliveryTimeout(KafkaTimeout):
    """A record was not acknowledged within delivery.timeout.ms. The message says whether it may
    have been written all the same; if it was not, it can be sent again without a second thought."""


class BufferFull(KafkaError, BufferError):
    """There is no room in buffer.memory, and nobody wanted to wait."""

    advice = "wait for earlier records, send more slowly, or raise buffer.memory"


class ClientClosed(KafkaError):
    """The client was closed before, or while, it was used."""


class WrongCluster(KafkaError):
    """The nodes that answer belong to another cluster than the one first met."""

    fatal = True
    default_code = ErrorCode.INCONSISTENT_CLUSTER_ID
    advice = "make bootstrap.servers name the brokers of one cluster"


class UnsupportedVersion(KafkaError):
    """This client and a broker have no version of a request in common, or one that can say this."""

    default_code = ErrorCode.UNSUPPORTED_VERSION
    advice = "use a broker that supports it, or leave out what it does not support"


class SerializationError(KafkaError, ValueError):
    """A key or value cannot be turned into bytes."""


class DecodeError(KafkaError, ValueError):
    """The bytes of a record cannot be turned into a key or value."""

    record: Record[bytes, bytes] | None = None
    """As it came; None where what cannot be decoded is no single record."""
    field: str = "value"
    """"key" or "value": which of them."""


class DeadLetterFailed(KafkaError):
    """A record that cannot be decoded could not be written to the dead letter topic either. The
    consumer stands before it, and its next poll tries again."""

    record: Record[bytes, bytes] | None = None
    """As it came."""
    advice = (
        "see to the dead letter topic and poll again; or look at the error's `record` and seek "
        "behind it"
    )


class CommitFailed(KafkaError):
    """Offsets were not committed, for the partitions belong to another member by now."""

    advice = "poll more often, or raise max.poll.interval.ms or lower max.poll.records"


class NoOffsetForPartition(KafkaError):
    """There is no committed offset, and auto.offset.reset=none forbids to choose one."""

    advice = "commit or seek first, or set auto.offset.reset"


class IllegalState(KafkaError):
    """The consumer is not in a state for this: what would have to come first is in the message."""
