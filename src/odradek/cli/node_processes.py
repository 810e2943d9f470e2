"""The processes of `odradek up -n N`: one parent, and a child for each node.

    fork ─► each child starts its node ─► all ready: one ready line ─► serve ─► stop

A child tells the parent through a pipe when its node is ready; the end of the pipe is the end of
the child. A second pipe holds each child: when the parent closes it, or ends in any way, the child
stops cleanly. Ctrl-C at a terminal reaches all processes, so children ignore SIGINT and leave it to
the parent; SIGTERM stops a child, too, since a service manager may send it to all.

A node that ends by itself is named and not started again: why it ended is to be seen first. The
children are forked after everything is imported, so they share that memory.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import selectors
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import click

# The parent imports these for its children, which would import them at their start.
import odradek.broker.cluster_member
import odradek.broker.http_service  # noqa: F401
from odradek.broker.server import BadSettings, Server, StartFailed
from odradek.cli import exits
from odradek.cli.nodes_plan import NodeStart
from odradek.cli.up import freeze_loaded, tune_garbage_collector
from odradek.config.addresses import address_text

STOP_LIMIT_S = 60.0
"""How long a stop may take. What is not flushed then is recovered at the next start."""
STOPPING = b"odradek: stopping all nodes (again to stop at once)\n"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(slots=True)
class NodeProcess:
    """One child, as the parent sees it."""

    start: NodeStart
    pid: int
    status: int
    """Where the child tells that it is ready."""
    lifeline: int
    """Closed to stop the child; -1 then."""
    told: bytes = b""
    ready: dict[str, Any] | None = None
    exit_code: int | None = None
    """After its end; negative: the signal that killed it."""

    @property
    def name(self) -> str:
        where = "" if self.start.data_dir is None else f", {self.start.data_dir}"
        return f"node {self.start.node_id} (pid {self.pid}{where})"

    def let_go(self) -> None:
        """Let the child stop cleanly."""
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1


@dataclass(slots=True)
class NodeProcesses:
    """Starts the nodes and waits for their end; `run` returns the exit code."""

    nodes: Sequence[NodeStart]
    log_level: str
    all_ready: Callable[[list[dict[str, Any]]], None]
    """Called once, with what each node told."""
    failed_to_start: Callable[[], None]
    """Called if the start fails before any node was ready."""
    processes: list[NodeProcess] = field(default_factory=list)
    _stopping: bool = False
    _unexpected: int = 0
    _deadline: float | None = None

    def run(self) -> int:
        """Run all nodes until they have stopped."""
        gc.collect()
        gc.freeze()  # Else each child would copy the pages of what they share.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        for node in self.nodes:
            self._fork(node)
        for number in SIGNALS:
            signal.signal(number, self._on_signal)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        self._watch()
        return self._exit_code()

    def _fork(self, node: NodeStart) -> None:
        status, tell = os.pipe()
        held, lifeline = os.pipe()
        pid = os.fork()
        if pid == 0:
            for other in (status, lifeline):
                os.close(other)
            for process in self.processes:
                os.close(process.status)
                os.close(process.lifeline)
            run_child(node, tell, held, self.log_level)
        os.close(tell)
        os.close(held)
        self.processes.append(NodeProcess(node, pid, status, lifeline))

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._stopping:
            self._kill()
            os._exit(exits.INTERRUPTED)
        with contextlib.suppress(OSError):
            os.write(2, STOPPING)
        self._stop()

    def _stop(self) -> None:
        self._stopping = True
        self._deadline = time.monotonic() + STOP_LIMIT_S
        for process in self.processes:
            process.let_go()

    def _kill(self) -> None:
        for process in self.processes:
            if process.exit_code is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)

    def _watch(self) -> None:
        """Read what the children tell, until the last one has ended."""
        with selectors.DefaultSelector() as selector:
            for process in self.processes:
                selector.register(process.status, selectors.EVENT_READ, process)
            while selector.get_map():
                for key, _ in selector.select(1.0 if self._stopping else 3600.0):
                    process = key.data
                    told = os.read(process.status, 65536)
                    if told:
                        process.told += told
                        self._heard(process)
                    else:
                        selector.unregister(process.status)
                        os.close(process.status)
                        self._ended(process)
                if self._deadline is not None and time.monotonic() > self._deadline:
                    self._out_of_patience()

    def _heard(self, process: NodeProcess) -> None:
        if process.ready is None and process.told.endswith(b"\n"):
            process.ready = json.loads(process.told)
            ready = [each.ready for each in self.processes if each.ready is not None]
            if len(ready) == len(self.processes) and not self._stopping:
                self.all_ready(ready)

    def _ended(self, process: NodeProcess) -> None:
        _, status = os.waitpid(process.pid, 0)
        process.exit_code = code = os.waitstatus_to_exitcode(status)
        process.let_go()
        if self._stopping:
            if code != 0 and not self._unexpected:
                click.echo(f"odradek: {process.name} {how(code)} while it stopped", err=True)
                self._unexpected = exits.FAILED
            return
        starting = any(each.ready is None for each in self.processes)
        if starting:
            self._unexpected = code if code > 0 else exits.FAILED
            if code < 0:
                click.echo(f"odradek: {process.name} {how(code)} as it started", err=True)
            if all(each.ready is None for each in self.processes):
                self._kill()  # No client was served: nothing is to be flushed.
            self._stop()
            return
        self._unexpected = exits.FAILED
        left = sum(each.exit_code is None for each in self.processes)
        click.echo(
            f"odradek: {process.name} {how(code)}, and is not started again; {left} of "
            f"{len(self.processes)} nodes run. {self._way_out(process)}",
            err=True,
        )

    def _way_out(self, process: NodeProcess) -> str:
        again = "stop the others (Ctrl-C) and start all again"
        if process.start.data_dir is not None:
            again = f"odradek up --data-dir {process.start.data_dir} starts it alone; or {again}"
        return f"What to do: see what it logged above. {again}"

    def _out_of_patience(self) -> None:
        for process in self.processes:
            if process.exit_code is None:
                click.echo(
                    f"odradek: {process.name} did not stop in {STOP_LIMIT_S:g} s and is killed",
                    err=True,
                )
        self._deadline = None
        self._kill()

    def _exit_code(self) -> int:
        if all(each.ready is None for each in self.processes):
            self.failed_to_start()
        return self._unexpected


def how(exit_code: int) -> str:
    """Return how a process ended, in words."""
    if exit_code < 0:
        try:
            return f"was killed by {signal.Signals(-exit_code).name}"
        except ValueError:  # A real-time signal has no name.
            return f"was killed by signal {-exit_code}"
    return f"ended with exit code {exit_code}"


# In the child


def run_child(node: NodeStart, tell: int, held: int, log_level: str) -> None:
    """Run one node to its end, and end this process, without what the parent has to clean up."""
    code = exits.FAILED
    try:
        code = NodeChild(node, tell, held).run(log_level)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


class NodeChild:
    """One node in its own process."""

    def __init__(self, node: NodeStart, tell: int, held: int) -> None:
        self._node = node
        self._tell = tell
        self._held = held
        self._server: Server | None = None
        self._asked = False

    def run(self, log_level: str) -> int:
        """Start the node and serve until it is asked to stop; return the exit code."""
        name = f"node {self._node.node_id}"
        for handler in logging.getLogger().handlers[:]:
            logging.getLogger().removeHandler(handler)
        logging.basicConfig(
            level=log_level.upper(),
            format=f"%(asctime)s %(levelname)s {name} %(name)s: %(message)s",
        )
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        threading.Thread(target=self._wait_for_the_parent, daemon=True).start()
        try:
            tune_garbage_collector()
            self._server = server = self._made()
            if self._asked:
                return exits.DONE
            server.start(self._tell_opened)
        except StartFailed as failure:
            if self._asked:
                return exits.DONE
            click.echo(f"odradek: {name}: {failure}", err=True)
            return exits.USAGE if isinstance(failure, BadSettings) else exits.FAILED
        self._tell_ready(server)
        freeze_loaded()
        server.run(signals=True)
        return exits.DONE

    def _made(self) -> Server:
        node = self._node
        directory = None if node.data_dir is None else str(node.data_dir)
        server = Server(
            node.settings,
            host=node.host,
            port=node.place.port,
            data_dir=directory,
            http=node.http,
            many_made=gc.freeze,
        )
        try:
            if node.data_dir is not None:
                node.place.write(node.data_dir)
        except OSError as error:
            raise StartFailed(f"data directory {directory}: {error}") from error
        if node.identity is not None and node.voters is not None:
            server.format(node.identity, node.voters)
        return server

    def _wait_for_the_parent(self) -> None:
        with contextlib.suppress(OSError):
            os.read(self._held, 1)
        self._stop()

    def _stop(self) -> None:
        self._asked = True
        if self._server is not None:
            self._server.request_stop(self._tell_progress)

    def _tell_opened(self, opened: int, total: int) -> None:
        name = f"node {self._node.node_id}"
        click.echo(f"odradek: {name} is starting, {opened:,} of {total:,} logs are open", err=True)

    def _tell_progress(self, flushed: int, total: int) -> None:
        click.echo(
            f"odradek: node {self._node.node_id} is stopping, {flushed:,} of {total:,} logs are "
            "flushed",
            err=True,
        )

    def _tell_ready(self, server: Server) -> None:
        host, port = server.node.cluster_address
        line = {
            "id": self._node.node_id,
            "pid": os.getpid(),
            "address": server.bootstrap,
            "cluster_address": address_text(host, port),
            "data_dir": server.data_dir,
            "http": None if server.http is None else server.http.url,
        }
        os.write(self._tell, json.dumps(line).encode() + b"\n")
