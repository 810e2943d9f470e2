"""What all errors of the clients have in common."""

from __future__ import annotations

from odradek.model.errors import ErrorCode

ADVICE = ". What to do: "


class KafkaError(Exception):
    """The base of what clients raise."""

    fatal: bool = False
    """This client instance cannot go on; close it."""
    default_code: ErrorCode | None = None
    advice: str = ""
    """What to do, for the messages of `error_for`."""

    def __init__(self, message: str = "", code: ErrorCode | None = None) -> None:
        super().__init__(with_one_advice(message))
        self.code = self.default_code if code is None else code

    @property
    def name(self) -> str:
        """The protocol's name of the code, or the kind's own."""
        return type(self).__name__ if self.code is None else self.code.name

    @property
    def retriable(self) -> bool:
        """Whether the same may succeed later."""
        return self.code is not None and self.code.retriable

    @property
    def requires_abort(self) -> bool:
        """Whether the transaction that is open has to be aborted before anything else is sent."""
        return self.code is ErrorCode.TRANSACTION_ABORTABLE

    @property
    def refresh_metadata(self) -> bool:
        """Whether what is known of the cluster may be out of date."""
        return self.code is not None and self.code.refresh_metadata


def with_one_advice(message: str) -> str:
    """What happened, and of all advice the last: an error that tells of another brings that one's
    along, and knows better what was wanted. Every message comes through here, however it was made.
    """
    happened, mark, rest = message.partition(ADVICE)
    return happened + mark + rest.rpartition(ADVICE)[2].lstrip()
