"""Offsets that arrive over a connection that their producer has given up."""

from __future__ import annotations

from odradek.coordinator.answered_connection import ANSWER_READ_MS
from odradek.coordinator.group.late_offset_commits import ProducerConnections

PRODUCER, EPOCH, KEEP_MS = 7, 3, 1_000


def test_only_an_older_connection_than_the_newest_of_the_producer_is_late() -> None:
    connections = ProducerConnections(KEEP_MS)
    assert not connections.is_late(PRODUCER, EPOCH, 5, 0)
    assert not connections.is_late(PRODUCER, EPOCH, 5, 0)
    assert connections.is_late(PRODUCER, EPOCH, 4, 0)
    assert not connections.is_late(PRODUCER, EPOCH, 6, 0)
    assert connections.is_late(PRODUCER, EPOCH, 5, 0)
    assert not connections.is_late(PRODUCER + 1, EPOCH, 4, 0)


def test_an_older_connection_whose_client_reads_the_answer_is_not_late() -> None:
    connections = ProducerConnections(KEEP_MS)
    assert not connections.is_late(PRODUCER, EPOCH, 5, 0)
    assert connections.is_late(PRODUCER, EPOCH, 3, 0)
    assert connections.is_late(PRODUCER, EPOCH, 3, ANSWER_READ_MS - 1), "sent with the first one"
    assert not connections.is_late(PRODUCER, EPOCH, 3, ANSWER_READ_MS)
    assert not connections.is_late(PRODUCER, EPOCH, 3, ANSWER_READ_MS)
    assert connections.is_late(PRODUCER, EPOCH, 4, 100), "another one"
    assert connections.is_late(PRODUCER, EPOCH, 3, 100), "it may have been given up since then"


def test_the_newest_connection_makes_older_ones_late_again() -> None:
    connections = ProducerConnections(KEEP_MS)
    assert not connections.is_late(PRODUCER, EPOCH, 5, 0)
    assert connections.is_late(PRODUCER, EPOCH, 3, 0)
    assert not connections.is_late(PRODUCER, EPOCH, 5, 1)
    assert connections.is_late(PRODUCER, EPOCH, 3, 100)


def test_the_next_epoch_may_be_of_a_client_that_connected_earlier() -> None:
    connections = ProducerConnections(KEEP_MS)
    assert not connections.is_late(PRODUCER, EPOCH, 5, 0)
    assert not connections.is_late(PRODUCER, EPOCH + 1, 3, 0)
    assert not connections.is_late(PRODUCER, EPOCH, 6, 0), "the log refuses it, and names the epoch"
    assert not connections.is_late(PRODUCER, EPOCH + 1, 3, 0)
    assert connections.is_late(PRODUCER, EPOCH + 1, 2, 0)


def test_a_producer_is_forgotten_when_its_older_connections_are_closed() -> None:
    connections = ProducerConnections(KEEP_MS)
    assert not connections.is_late(1, EPOCH, 5, 0)
    assert not connections.is_late(2, EPOCH, 6, 600)
    assert not connections.is_late(1, EPOCH, 7, 900)
    assert connections.is_late(1, EPOCH, 5, 1_900)
    assert len(connections) == 1
    assert not connections.is_late(1, EPOCH, 5, 1_901)
