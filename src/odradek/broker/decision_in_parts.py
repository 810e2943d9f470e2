"""Decisions in parts at work: each part is submitted in a turn of the loop of its own.

    part ─► submit ─► [next turn] part ─► submit ─► ... ─► the response, when all is committed

A run ends early if this node is not the active controller of the epoch in which the decision began:
parts look at the pending image of that epoch, and another controller has another one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from odradek.controller.decision import ApiError, Parts
from odradek.controller.quorum_controller import NotController, QuorumController, RecordsTooLarge
from odradek.model.errors import ErrorCode

logger = logging.getLogger(__name__)

T = TypeVar("T")


class DecisionInParts(Generic[T]):
    """One decision. Owner thread."""

    def __init__(
        self,
        controller: QuorumController,
        call_soon: Callable[[Callable[[], None]], None],
        parts: Parts[T],
        decided: Callable[[T], None],
        failed: Callable[[ErrorCode, str | None], None],
    ) -> None:
        """`decided`: gets the response when all parts are submitted, not yet committed. `failed`:
        gets why not all of them were; those before are. One of the two is called, once.
        """
        self._controller = controller
        self._call_soon = call_soon
        self._parts = parts
        self._decided = decided
        self._failed = failed
        self._epoch = controller.epoch

    def go_on(self) -> None:
        """Submit the next part, and go on in another turn. The first call begins."""
        controller = self._controller
        try:
            if not controller.is_active or controller.epoch != self._epoch:
                raise NotController
            controller.submit(next(self._parts))
        except StopIteration as ended:
            self._decided(ended.value)
        except ApiError as refused:
            self._failed(refused.error, refused.message)
        except NotController as error:
            logger.debug("a decision ended with its controller: %s", error)
            self._end(ErrorCode.NOT_CONTROLLER)
        except RecordsTooLarge:
            self._end(ErrorCode.POLICY_VIOLATION)
        except OSError as error:
            logger.error("writing metadata records failed: %s", error)
            self._end(ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            self._call_soon(self.go_on)

    def _end(self, error: ErrorCode) -> None:
        self._parts.close()
        self._failed(error, None)
