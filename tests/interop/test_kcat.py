"""kcat with this broker: produce, consume to the end, metadata, offsets by time."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from odradek.testing.broker import Broker

KCAT = shutil.which("kcat") or shutil.which("kafkacat")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KCAT is None, reason="kcat is not installed (Debian package: kcat)"),
]


def kcat(broker: Broker, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run kcat, which must succeed; return its stdout."""
    assert KCAT is not None
    done = subprocess.run(
        [KCAT, "-b", broker.bootstrap, *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_kcat_produces_consumes_and_prints_metadata_and_offsets(ours: Broker) -> None:
    lines = b"".join(b"key-%d:value %d\n" % (number % 7, number) for number in range(1_000))
    settings = ("-X", "acks=all", "-X", "enable.idempotence=true", "-z", "lz4")
    kcat(ours, "-P", "-t", "kcat", "-K:", *settings, stdin=lines)
    read = kcat(ours, "-C", "-t", "kcat", "-p", "0", "-o", "beginning", "-e", "-q", "-K:")
    assert read == lines
    last = kcat(ours, "-C", "-t", "kcat", "-p", "0", "-o", "-3", "-e", "-q", "-f", "%o %k %s\\n")
    assert last == b"997 key-3 value 997\n998 key-4 value 998\n999 key-5 value 999\n"
    assert kcat(ours, "-Q", "-t", "kcat:0:-1") == b"kcat [0] offset 1000\n"
    assert kcat(ours, "-Q", "-t", "kcat:0:-2") == b"kcat [0] offset 0\n"
    metadata = json.loads(kcat(ours, "-L", "-J", "-t", "kcat"))
    assert [broker["id"] for broker in metadata["brokers"]] == [1]
    partition = {"partition": 0, "leader": 1, "replicas": [{"id": 1}], "isrs": [{"id": 1}]}
    assert metadata["topics"] == [{"topic": "kcat", "partitions": [partition]}]
