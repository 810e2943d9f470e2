"""PRODUCER_FENCED for clients that send a version of a request which does not have that error.

They get INVALID_PRODUCER_EPOCH, which a fenced producer got in every version before KIP-588.
"""

from __future__ import annotations

from typing import Final

from odradek.model.errors import ErrorCode

FIRST_VERSION: Final = 2
"""The first version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn with PRODUCER_FENCED."""
FIRST_INIT_PRODUCER_ID: Final = 4
"""The first version of InitProducerId with PRODUCER_FENCED."""


def error_for_version(error: int, version: int, first_version: int = FIRST_VERSION) -> int:
    """The error as this version of a request has it, if PRODUCER_FENCED came with
    `first_version`.
    """
    if error == ErrorCode.PRODUCER_FENCED and version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
