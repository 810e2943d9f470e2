"""The end of a producer: with its block, with its process, by garbage collection, or in a fork."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import pytest

from clients.producer.read_back import LONG_S, read, values
from odradek import Producer
from odradek.client.errors import ClientClosed


def test_leaving_the_block_delivers(broker, topic):
    with Producer(brokers=broker.bootstrap, linger_ms=60_000) as producer:
        futures = [producer.send(topic, str(number), partition=0) for number in range(100)]
    assert [future.result(0).offset for future in futures] == list(range(100))
    assert values(read(broker, topic, 100)) == [b"%d" % number for number in range(100)]


def test_leaving_the_block_by_an_exception_delivers(broker, topic):
    sent = []

    def fail() -> None:
        with Producer(brokers=broker.bootstrap) as producer:
            sent.append(producer.send(topic, "sent before"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sent[0].result(0).offset == 0


FORKING = """
import os, sys
from odradek import Producer
from odradek.client.errors import ClientClosed

bootstrap, topic = sys.argv[1:]
with Producer(brokers=bootstrap, linger_ms=0) as producer:
    producer.send(topic, "parent", partition=0).result(60)
    child = os.fork()
    if child == 0:
        try:
            producer.send(topic, "child", partition=0)
        except ClientClosed as error:
            sys.stdout.write(str(error) + "\\n")
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
    producer.send(topic, "parent again", partition=0).result(60)
"""

FORGETTING = """
import sys
from odradek import Producer

producer = Producer(brokers=sys.argv[1], linger_ms=60_000)
producer.send(sys.argv[2], "not forgotten", partition=0)
"""


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    return done.stdout


def test_a_producer_used_in_a_forked_process_raises(broker, topic):
    assert "make a client in each process" in run(FORKING, broker.bootstrap, topic)
    assert values(read(broker, topic, 2)) == [b"parent", b"parent again"]


def test_the_end_of_the_process_delivers_queued_records(broker, topic):
    run(FORGETTING, broker.bootstrap, topic)
    assert values(read(broker, topic, 1)) == [b"not forgotten"]


def test_a_garbage_collected_producer_fails_its_futures(broker, topic):
    producer = Producer(brokers=broker.bootstrap, linger_ms=60_000)
    future = producer.send(topic, "x", partition=0)
    outcomes: list[BaseException | None] = []
    waiting = threading.Thread(target=lambda: outcomes.append(future.exception(LONG_S)))
    waiting.start()
    del producer
    gc.collect()
    waiting.join(LONG_S)
    [error] = outcomes
    assert isinstance(error, ClientClosed)
    assert "garbage collected" in str(error)
