"""Many idle connections that wait for records, many topics, many partitions.

The broker is a separate process, so that its descriptors and memory (Pss) can be measured.
"""

from __future__ import annotations

import os
import re
import resource
import selectors
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli.processes import ODRADEK, Up
from clients.asking import BATCH, create, long_poll, produce, records_in, until
from clients.wire import RawConnection, request_bytes
from odradek.protocol.api.fetch import FetchResponse
from odradek.protocol.api.metadata import MetadataRequest, MetadataResponse

CROWD = 2_000
PARTITIONS = 10_000
WRITTEN = 500
"""Each has three open files while it is written: more than there are descriptors."""
FEW_DESCRIPTORS = ("sh", "-c", 'ulimit -n 1024; exec "$@"', "sh", *ODRADEK)
KIB = 1024


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """Raise the limit of descriptors of this process and its children as far as possible."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < CROWD + 500:
        pytest.skip(f"{CROWD} connections need as many descriptors; the hard limit is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (CROWD + 500, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def pss_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * KIB


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.usefixtures("many_descriptors")
def test_2000_idle_long_polls_cost_little_and_wake_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Up("--port", "0", "--data-dir", str(tmp_path)) as up:
        pid = up.process.pid
        with ExitStack() as opened, RawConnection(up.bootstrap) as wire:
            assert create(wire, ("quiet", 1), ("awaited", 1)) == [0, 0]
            assert produce(wire, "awaited") == 0
            before, files = pss_bytes(pid), descriptors(pid)
            crowd = [opened.enter_context(RawConnection(up.bootstrap)) for _ in range(CROWD)]
            for member in crowd:
                member.send(request_bytes(long_poll("quiet"), 12))
            assert until(lambda: descriptors(pid) == files + CROWD), "accepting takes a while"
            assert wire.ask(MetadataRequest(topics=[]), 9, MetadataResponse).brokers
            each = (pss_bytes(pid) - before) / CROWD
            assert produce(wire, "awaited") == 0
            assert not readable(crowd), "no fetch waits for that topic"
            for member in crowd[::2]:
                member.socket.close()
            assert until(lambda: descriptors(pid) == files + CROWD // 2)
            assert produce(wire, "quiet") == 0
            for member in crowd[1::2]:
                answer = member.answer(long_poll("quiet"), 12, FetchResponse)
                assert records_in(answer) == len(BATCH)
                member.socket.close()
            assert until(lambda: descriptors(pid) == files + 1), "its log has a file now"
            assert produce(wire, "quiet") == 0
        with capsys.disabled():
            print(f"\n{CROWD} idle long polls: {each / KIB:.1f} KiB (Pss) each")
        assert each < 64 * KIB
        assert up.stop() == 0


def readable(wires: list[RawConnection]) -> list[RawConnection]:
    """Return the connections that have received something."""
    with selectors.DefaultSelector() as selector:
        for wire in wires:
            selector.register(wire.socket, selectors.EVENT_READ, wire)
        return [key.data for key, _ in selector.select(0)]


def test_more_partitions_than_descriptors_can_be_written_and_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--port", "0", "--data-dir", str(tmp_path))
    per_topic = PARTITIONS // 4
    topics = [(f"topic-{number}", per_topic) for number in range(4)]
    told = [f"{PARTITIONS} partitions within 1,024 descriptors"]
    with Up(*arguments, command=FEW_DESCRIPTORS) as up, RawConnection(up.bootstrap, 120) as wire:
        began = time.monotonic()
        for topic in topics:
            assert create(wire, topic) == [0]
        told.append(f"made in {time.monotonic() - began:.1f} s")
        for number in range(0, per_topic, per_topic // WRITTEN):
            assert produce(wire, "topic-1", number) == 0
        assert descriptors(up.process.pid) < 1_000
        told.append(f"{pss_bytes(up.process.pid) >> 20} MiB (Pss)")
        assert up.stop(signal.SIGTERM) == 0
    for ended in ("stopped", "killed"):
        began = time.monotonic()
        with (
            Up(*arguments, command=FEW_DESCRIPTORS) as up,
            RawConnection(up.bootstrap, 120) as wire,
        ):
            told.append(f"started in {time.monotonic() - began:.1f} s")
            answer = wire.ask(MetadataRequest(topics=None), 9, MetadataResponse)
            assert sum(len(topic.partitions) for topic in answer.topics) == PARTITIONS
            for number in range(0, per_topic, per_topic // WRITTEN):
                asked = long_poll("topic-1", 0, number)
                assert records_in(wire.ask(asked, 12, FetchResponse)) == len(BATCH), ended
            assert descriptors(up.process.pid) < 1_000
    with capsys.disabled():
        print("\n" + ", ".join(told))


def test_repeated_metadata_of_all_topics_holds_no_memory(tmp_path: Path) -> None:
    with Up("--port", "0", "--data-dir", str(tmp_path)) as up, RawConnection(up.bootstrap) as wire:
        assert set(create(wire, *((f"topic-{number}", 2) for number in range(100)))) == {0}
        ask = request_bytes(MetadataRequest(topics=None), 12)
        for _ in range(100):
            wire.send(ask)
            assert wire.frame() is not None
        before = pss_bytes(up.process.pid)
        for _ in range(15):
            wire.send(ask * 60)
            for _ in range(60):
                assert wire.frame() is not None
        assert pss_bytes(up.process.pid) - before < 4 << 20
