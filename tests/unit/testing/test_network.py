"""Simulated connections: order, no loss while they are open, delays and faults."""

import pytest

from odradek.testing.network import Fabric, SimNetwork
from odradek.testing.process import SimProcess
from odradek.testing.scheduler import SECOND, Scheduler, SimClock
from odradek.testing.transport import Link, SimTransport


class Peer:
    """One end of a connection: reads everything into `got`, and writes as fast as possible."""

    def __init__(self, network: SimNetwork, transport: SimTransport) -> None:
        self.network, self.transport = network, transport
        self.got, self.pieces, self.rest = bytearray(), 0, b""
        self.ended, self.error = False, None
        network.register(transport, self.readable, self.writable)

    def write(self, data: bytes) -> None:
        self.rest += data
        self.writable()

    def writable(self) -> None:
        try:
            self.rest = self.rest[self.transport.send([self.rest[:10], self.rest[10:]]) :]
        except OSError as error:
            self.stop(error)
        else:
            self.network.set_interest(self.transport, read=True, write=bool(self.rest))

    def readable(self) -> None:
        try:
            data = self.transport.receive(1000)
        except OSError as error:
            self.stop(error)
            return
        if data:
            self.got += data
            self.pieces += 1
        elif data == b"":
            self.ended = True
            self.network.unregister(self.transport)

    def stop(self, error: OSError) -> None:
        self.error = error  # type: ignore[assignment]
        self.network.unregister(self.transport)


class ConnectedPair:
    """A server and a client process with a connection."""

    def __init__(self, seed: int = 1, link: Link | None = None, connections: int = 1) -> None:
        self.scheduler = Scheduler(seed)
        self.fabric = Fabric(self.scheduler, link or Link())
        self.server, self.client = self.boot("server"), self.boot("client")
        self.accepted: list[Peer] = []
        self.connected: list[Peer] = []
        self.refused: list[OSError] = []
        self.listening = self.server.listen("127.0.0.1", 9092, self.accept)  # type: ignore[arg-type]
        for _ in range(connections):
            self.connect()
        self.run()

    def boot(self, name: str) -> SimNetwork:
        process = SimProcess(self.scheduler, name, SimClock(self.scheduler))
        return self.fabric.network(process, name)

    def accept(self, transport: SimTransport) -> None:
        self.accepted.append(Peer(self.server, transport))

    def connect(self) -> None:
        self.client.connect(
            "server",
            9092,
            lambda end: self.connected.append(Peer(self.client, end)),
            self.refused.append,
        )

    def run(self) -> None:
        self.scheduler.run(self.scheduler.now_ns + SECOND)


@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_once_in_order_however_they_are_cut(seed: int) -> None:
    pair = ConnectedPair(seed, Link(capacity=700, chop_rate=500))
    data = bytes(range(256)) * 40
    pair.connected[0].write(data)
    pair.accepted[0].write(data[::-1])
    pair.run()
    assert pair.accepted[0].got == data
    assert pair.connected[0].got == data[::-1]
    assert pair.accepted[0].pieces > 15


def test_a_peer_that_does_not_read_is_not_sent_more_than_the_buffer_holds() -> None:
    pair = ConnectedPair(link=Link(capacity=5000))
    pair.server.set_interest(pair.accepted[0].transport, read=False, write=False)
    pair.connected[0].write(bytes(9000))
    pair.run()
    assert len(pair.accepted[0].transport.inbox) == 5000
    assert pair.connected[0].transport.send([b"more"]) == 0
    pair.server.set_interest(pair.accepted[0].transport, read=True, write=False)
    pair.run()
    assert len(pair.accepted[0].got) == 9000


def test_two_connections_overtake_each_other() -> None:
    orders = []
    for seed in range(20):
        pair = ConnectedPair(seed, connections=2)
        pair.connected[0].write(b"1")
        pair.connected[1].write(b"2")
        peers = pair.accepted
        pair.scheduler.run(2 * SECOND, lambda peers=peers: any(peer.got for peer in peers))  # type: ignore[misc]
        orders += [bytes(peer.got) for peer in peers if peer.got]
    assert sorted(dict.fromkeys(orders)) == [b"1", b"2"]


def test_connecting_is_refused_without_a_listener_and_unanswered_by_a_silent_host() -> None:
    pair = ConnectedPair()
    pair.listening.close()
    pair.connect()
    pair.run()
    assert [type(error) for error in pair.refused] == [ConnectionRefusedError]
    pair.server.host.up = False
    pair.connect()
    pair.run()
    assert len(pair.refused) == 1
    assert len(pair.connected) == 1


def test_a_port_in_use_is_an_error() -> None:
    with pytest.raises(OSError, match="in use"):
        ConnectedPair().server.listen("0.0.0.0", 9092, lambda _: None)


def test_close_delivers_sent_bytes_then_the_end_of_the_stream() -> None:
    pair = ConnectedPair()
    pair.connected[0].write(b"last words")
    pair.connected[0].transport.close()
    pair.run()
    assert pair.accepted[0].got == b"last words"
    assert pair.accepted[0].ended


def test_sending_to_a_closed_connection_brings_a_reset() -> None:
    pair = ConnectedPair()
    pair.accepted[0].transport.close()
    pair.scheduler.run(pair.scheduler.now_ns)
    pair.connected[0].write(b"too late")
    pair.run()
    assert isinstance(pair.connected[0].transport.error, ConnectionResetError)


def test_a_killed_process_closes_its_connections() -> None:
    pair = ConnectedPair()
    pair.server.process.kill()
    pair.server.process_ended()
    pair.run()
    assert pair.connected[0].ended
    pair.connect()
    pair.run()
    assert len(pair.refused) == 1


def test_after_a_power_failure_peers_hear_nothing_until_the_host_is_back() -> None:
    pair = ConnectedPair()
    pair.accepted[0].write(b"sent before")
    pair.server.process.kill()
    pair.server.power_failed()
    pair.connected[0].write(b"anybody there?")
    pair.run()
    peer = pair.connected[0]
    assert bytes(peer.got) == b"sent before"
    assert (peer.ended, peer.error) == (False, None)
    pair.boot("server")
    peer.write(b"and now?")
    pair.run()
    assert isinstance(peer.error, ConnectionResetError)


def test_a_reset_fails_both_ends_and_loses_bytes_in_flight() -> None:
    pair = ConnectedPair()
    pair.connected[0].write(b"lost")
    pair.fabric.connections()[0].reset()
    pair.run()
    assert isinstance(pair.connected[0].error, ConnectionResetError)
    assert isinstance(pair.accepted[0].error, ConnectionResetError)
    assert pair.accepted[0].got == b""
    assert pair.fabric.connections() == []


def test_a_half_open_connection_swallows_one_direction_only() -> None:
    pair = ConnectedPair()
    pair.fabric.connections()[0].blackhole(to_server=False, to_client=True)
    pair.connected[0].write(b"heard")
    pair.accepted[0].write(b"unheard")
    pair.run()
    assert pair.accepted[0].got == b"heard"
    assert pair.connected[0].got == b""


def test_a_stalled_connection_delivers_later_in_order() -> None:
    pair = ConnectedPair()
    pair.fabric.connections()[0].stall(pair.scheduler.now_ns + 5 * SECOND)
    pair.connected[0].write(b"first ")
    pair.run()
    assert pair.accepted[0].got == b""
    pair.connected[0].write(b"second")
    pair.scheduler.run(pair.scheduler.now_ns + 6 * SECOND)
    assert pair.accepted[0].got == b"first second"
