"""The transactional producer of a chaos run, of any library, as a process of its own.

    python -m chaos.transactional_writer MODULE:CLASS BOOTSTRAP ID FIRST LIMIT

It writes transactions numbered from FIRST on, with the transactional id ID, and tells on its
standard output, one line of JSON each:

    ["begun", number]        none of its records may ever be read, unless
    ["ending", number]       it is about to commit: all of them are read, or none
    ["committed", number]    all of them are
    ["refused", error]       a call failed; another producer goes on
    ["bug", error]           the process ends by an error that is none of its library

A call that takes longer than LIMIT seconds ends the process with exit code HUNG, and the stacks of
its threads go to its standard error: not every library has a timeout for every call, and a producer
that hangs cannot be closed. At the end of its standard input it ends its transaction and itself.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable

from chaos.cluster import TRANSACTIONS_TOPIC
from clients.libraries.transactional import TransactionalProducer

PARTITIONS = 3
TIMEOUT_MS = 10_000
PAUSE_S = 0.02
ABORTED = 3
"""Every transaction whose number this divides is aborted."""

HUNG = 3
"""The exit code of a process with a call that did not return."""

ended = threading.Event()


def tell(*what: object) -> None:
    print(json.dumps(what), flush=True)


class Writing:
    """The transactions of one process."""

    def __init__(
        self, library: type[TransactionalProducer], bootstrap: str, name: str, limit_s: float
    ) -> None:
        self._library = library
        self._bootstrap = bootstrap
        self._name = name
        self._limit_s = limit_s
        self._refused: tuple[type[Exception], ...] = (*library.refused, TimeoutError)
        self._called = time.monotonic()
        """When the last call began."""

    def write_all(self, first: int) -> None:
        """Write transactions until told to end."""
        numbers = itertools.count(first)
        producer: TransactionalProducer | None = None
        while not ended.wait(PAUSE_S):
            try:
                if producer is None:
                    self._watch()
                    producer = self._library(self._bootstrap, self._name, TIMEOUT_MS)
                    self._call(producer.init)
                self._write(producer, next(numbers))
            except self._refused as failure:
                tell("refused", str(failure) or repr(failure))
                self._drop(producer)
                producer = None
        self._drop(producer)

    def _write(self, producer: TransactionalProducer, number: int) -> None:
        """Write one transaction, and end it."""
        tell("begun", number)
        self._call(producer.begin)
        value = f"{self._name}:{number}".encode()
        for partition in range(PARTITIONS):
            self._call(producer.send, TRANSACTIONS_TOPIC, value, partition)
        self._call(producer.commit_offsets, self._name, {(TRANSACTIONS_TOPIC, 0): number})
        if number % ABORTED == 0:
            self._call(producer.abort)
            return
        tell("ending", number)
        self._call(producer.commit)
        tell("committed", number)

    def _drop(self, producer: TransactionalProducer | None) -> None:
        """Close a producer, whatever its state is: the next one shuts it out."""
        if producer is not None:
            with contextlib.suppress(*self._refused):
                self._call(producer.close)

    def _call(self, call: Callable[..., object], *arguments: object) -> None:
        self._watch()
        call(*arguments)

    def _watch(self) -> None:
        """Give the next call its time."""
        self._called = time.monotonic()

    def end_when_hanging(self) -> None:
        """End the process when a call takes too long. Runs on a thread of its own, as the timer of
        faulthandler crashes where other threads go on while it shows their stacks.
        """
        while (left_s := self._called + self._limit_s - time.monotonic()) > 0:
            threading.Event().wait(left_s)
        faulthandler.dump_traceback()
        os._exit(HUNG)


def await_end() -> None:
    while os.read(0, 1):
        pass
    ended.set()


def main() -> None:
    library, bootstrap, name, first, limit_s = sys.argv[1:]
    module, _, of = library.partition(":")
    threading.Thread(target=await_end, daemon=True).start()
    try:
        producer = getattr(importlib.import_module(module), of)
        writing = Writing(producer, bootstrap, name, float(limit_s))
        threading.Thread(target=writing.end_when_hanging, daemon=True).start()
        writing.write_all(int(first))
    except BaseException as error:
        tell("bug", repr(error))
        raise
    os._exit(0)  # Without what libraries do at the end: their producers are closed.


if __name__ == "__main__":
    main()
