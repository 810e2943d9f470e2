"""A broker on this machine: the node in its real environment, with a reactor of its own.

`odradek up` runs one in the foreground, `odradek.testing.Broker` on a thread. All other parts of
the broker take their environment as arguments; this module provides sockets, disk, clock and
threads.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from odradek.broker.formatting import format_directory
from odradek.broker.node import IdTaken, Node, StartFailed
from odradek.broker.shutdown import Progress
from odradek.config.addresses import Listener, address_text
from odradek.config.broker import BrokerConfig
from odradek.config.http import HttpSettings
from odradek.config.setting import ConfigError
from odradek.log.directory_identity import MetaProperties, read_meta_properties
from odradek.log.files import LocalDisk, descriptor_budget
from odradek.log.memory_disk import MemoryDisk
from odradek.model.env import Disk, Env, do_nothing
from odradek.network.listener import AddressInUseError, CannotListenError, own_address
from odradek.network.process_usage import process_usage
from odradek.network.reactor import Reactor, SystemClock
from odradek.network.workers import Workers
from odradek.raft.replicas import VoterSet
from odradek.timing import SystemTimer

if TYPE_CHECKING:
    from odradek.broker.http_service import HttpService

__all__ = ["BadSettings", "IdTaken", "Server", "StartFailed", "identity_of"]

MEMORY = "/memory"
CONNECTIONS_SHARE = 0.4
"""Share of the process's descriptors for connections; the files of the log have half of them."""
HTTP_CONNECTIONS = 64
RESOLVERS = 2
"""Threads that resolve the names of other nodes; there are none until a name is resolved. They are
not those of the log: a name server that does not answer must not delay a flush."""
HTTP_SHARE = 8
"""HTTP has at most one in so many of the connections."""


def connection_quotas(descriptors: int | None = None) -> tuple[int, int]:
    """How many connections clients and HTTP may have, given the process's descriptors."""
    if descriptors is None:
        connections = descriptor_budget(CONNECTIONS_SHARE)
    else:
        connections = int(descriptors * CONNECTIONS_SHARE)
    http = min(HTTP_CONNECTIONS, connections // HTTP_SHARE)
    return connections - http, http


def identity_of(data_dir: str) -> MetaProperties | None:
    """Return the identity of a data directory, None if it has none. Raises `WrongDirectory`,
    `OSError`.
    """
    return read_meta_properties(LocalDisk(), data_dir)


class BadSettings(StartFailed):
    """A setting is invalid; nothing was started."""


class Server:
    """A broker: `start`, then `run` on the thread that owns it; `request_stop` from any thread.

    `settings` are broker settings as text, by Kafka's names. `data_dir` None keeps all in memory.
    `disk` replaces the real disk, or memory: tests give one that fails on demand. `http` None
    serves no HTTP and imports none of its modules. `id_was_free`: no node of the cluster had the id
    a moment ago, so a process that has it now is another node. Otherwise that process may be the
    previous one of this node, and the start waits for the end of its session. `many_made`: see
    `Env`. Raises `StartFailed` with the cause and the next step.
    """

    def __init__(
        self,
        settings: Mapping[str, str],
        *,
        host: str,
        port: int,
        data_dir: str | None,
        disk: Disk | None = None,
        http: HttpSettings | None = None,
        id_was_free: bool = False,
        many_made: Callable[[], object] = do_nothing,
    ) -> None:
        self._stopping = False
        self._killed = False
        self._http_settings = http
        self.http: HttpService | None = None
        """After `start`, if HTTP is served."""
        directory = MEMORY if data_dir is None else data_dir
        given = {
            "listeners": str(Listener("PLAINTEXT", host.strip("[]"), port)),
            "log.dirs": directory,
            **settings,
        }
        try:
            self.config = BrokerConfig.load(given, "the settings given")
        except ConfigError as error:
            raise BadSettings(str(error)) from error
        self.data_dir = None if data_dir is None else self.config.log_dirs[0]
        if disk is None:
            disk = MemoryDisk() if data_dir is None else LocalDisk(descriptor_budget())
        self._disk = disk
        self._clock = SystemClock()
        self._timer = SystemTimer(self._clock.monotonic_ms())
        self._reactor = Reactor(self._clock, self._timer)
        self._workers = Workers(self._reactor.call_soon_threadsafe, self.config.background_threads)
        self._resolvers = Workers(
            self._reactor.call_soon_threadsafe, RESOLVERS, name="odradek-resolver"
        )
        self._reactor.offload = self._resolvers
        env = Env(
            clock=self._clock,
            random=random.SystemRandom(),
            network=self._reactor,
            disk=self._disk,
            offload=self._workers,
            call_soon=self._reactor.call_soon,
            many_made=many_made,
        )
        # Files and connections have a share of the descriptors each: otherwise idle connections
        # could leave none for the log.
        connections, http_connections = connection_quotas()
        self._http_connections = 0 if http is None else http_connections
        if http is None:
            connections += http_connections
        self.node = Node(
            self.config,
            env,
            self._timer,
            most_connections=connections,
            own_host=self._own_host(),
            id_was_free=id_was_free,
            stopwatch=self._reactor.stopwatch,
            loop_load=self._reactor.load,
            usage=process_usage,
        )

    def _own_host(self) -> str:
        """The host to advertise if the settings leave it open; empty if they do not."""
        if not self.advertises_own_address:
            return ""
        listener = self.config.parsed_listeners()[0]
        return own_address(listener.host) if listener.is_wildcard else listener.host

    @property
    def advertises_own_address(self) -> bool:
        """True if it listens on every interface and no setting has the advertised host."""
        return any(each.is_wildcard for each in self.config.effective_advertised_listeners())

    @property
    def bootstrap(self) -> str:
        """The advertised `host:port`, after `start`; of a controller alone that for other nodes."""
        if not self.config.has_broker_role:
            return address_text(*self.node.cluster_address)
        return address_text(self.node.endpoint.host, self.node.endpoint.port)

    @property
    def bugs(self) -> int:
        """The number of exceptions that handlers, timers and callbacks must not raise, but did."""
        http_bugs = 0 if self.http is None else self.http.bugs
        return self._reactor.bugs + self.node.sockets.counters.bugs + http_bugs

    def format(self, identity: MetaProperties, voters: VoterSet) -> None:
        """Give a new directory its identity and the voters of its cluster, before `start`. Raises
        `StartFailed`.
        """
        try:
            format_directory(
                self._disk, self.config.log_dirs[0], identity, voters, self._clock.wall_ms()
            )
        except OSError as error:
            raise StartFailed(f"data directory {self.config.log_dirs[0]}: {error}") from error

    def start(self, progress: Progress | None = None) -> None:
        """Open the data directory, replay the metadata and listen. Clients can connect then.

        After a second, and every second from then on, `progress` is called with the number of logs
        that are open, and of all logs.
        """
        self.node.on_configured = lambda config: self._workers.limit(config.background_threads)
        try:
            if self._http_settings is not None:
                self.http = self._start_http(self._http_settings)
            self.node.start(progress)
            self._join_cluster()
            if self.http is not None:
                self.http.serve(self.node, self._reactor)
        except ConfigError as error:
            self._close()
            raise BadSettings(str(error)) from error
        except AddressInUseError as error:
            self._close()
            raise StartFailed(
                f"{error}. Choose another with --port, or --port 0 for any"
            ) from error
        except CannotListenError as error:
            self._close()
            raise StartFailed(
                f"{error}. Give a name or an address of this machine with --host, or 0.0.0.0 for "
                f"every interface"
            ) from error
        except OSError as error:
            self._close()
            raise StartFailed(str(error)) from error
        except BaseException:
            self._close()
            raise

    def _join_cluster(self) -> None:
        """Run the loop until a node of several is ready. Raises `StartFailed`."""
        node = self.node
        if not node.is_ready and node.start_failure is None:
            node.on_start_ended = self._reactor.stop
            self._reactor.run()
        if self._stopping:
            raise StartFailed("it was stopped before it had joined its cluster")
        if node.start_failure is not None:
            node.give_up(self._reactor.stop)
            self._reactor.run()
            raise node.start_failure

    def _start_http(self, settings: HttpSettings) -> HttpService:
        from odradek.broker.http_service import HttpService  # Only here: it imports h11.

        return HttpService(settings, self.config.main_listener().port, self._http_connections)

    def run(self, *, signals: bool = False) -> None:
        """Serve until `request_stop`, then shut down cleanly. The calling thread owns the broker.

        `signals`: it is the main thread, and signals end its sleep. Without, a signal that arrives
        just before the loop sleeps is handled when something else wakes the loop.
        """
        if isinstance(self._disk, LocalDisk):
            self._disk.own()
        if signals:
            signal.set_wakeup_fd(self._reactor.wakeup_fd, warn_on_full_buffer=False)
        try:
            self._reactor.run()
        finally:
            if signals:
                signal.set_wakeup_fd(-1)
            self._close()

    def request_stop(self, progress: Progress | None = None) -> None:
        """Stop the broker, from any thread or signal handler. May be called more than once.

        After a second, and every second from then on, `progress` is called on the owner thread with
        the number of logs flushed, and of all logs.
        """
        if not self._stopping:
            self._stopping = True
            self._reactor.call_soon_threadsafe(lambda: self.node.stop(self._reactor.stop, progress))

    def kill(self) -> None:
        """End the broker as kill -9 ends a process, from any thread: nothing is flushed, and no
        leadership is given up. For tests: what was written stays, as in a page cache.
        """
        self._stopping = self._killed = True
        self._reactor.call_soon_threadsafe(self._reactor.stop)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Run `callback` on the thread that owns the broker, from any thread."""
        self._reactor.call_soon_threadsafe(callback)

    def _close(self) -> None:
        if self.http is not None:
            self.http.close()
        self._workers.close()
        self._resolvers.close()
        if self._killed:
            self.node.vanish()
        self._reactor.close()
