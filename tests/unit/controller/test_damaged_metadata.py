"""Random damage to the files of the metadata: a start has the committed image, or refuses."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fuzz.batches import with_true_crc
from fuzz.budget import seeds
from fuzz.damage import damaged
from odradek.controller.image import MetadataImage, ReplayError
from odradek.controller.records import version_of
from odradek.controller.snapshots import BadSnapshot, decode, encode
from odradek.log.fence import LogDamaged
from odradek.log.memory_disk import MemoryDisk
from odradek.model.errors import ProtocolError
from odradek.protocol.metadata_records import decode_record, encode_record
from odradek.protocol.record_batch import batches
from odradek.raft.quorum_state import QuorumStateDamaged
from odradek.raft.raft_log import WrongQuorum
from unit.controller.cluster_making import CLUSTER, a_topic, an_image, create
from unit.controller.metadata_node import MetadataNode

MIB = 1 << 20
BYTES_PER_BYTE = 16


@contextmanager
def bounded_memory(name: str, size: int) -> Iterator[None]:
    """Check the peak of the allocated memory against the size of the input."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= BYTES_PER_BYTE * size + 2 * MIB, f"{name}: {peak} bytes for {size}"


def an_image_with_topics() -> MetadataImage:
    image = an_image(1, 2)
    topics = (a_topic(f"t{n}", 2, 1, configs={"retention.ms": "5"}) for n in range(4))
    create(image, *topics)
    return image


def test_a_damaged_snapshot_is_unchanged_or_raises_bad_snapshot() -> None:
    image = an_image_with_topics()
    data = encode(image, 5)
    for name, random in seeds(400, "snapshots"):
        wrong = damaged(random, data)
        try:
            with bounded_memory(name, len(data)):
                found = decode(wrong, CLUSTER)
        except BadSnapshot:
            continue
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error
        assert found == image, f"{name}: accepted, but wrong"


def test_a_snapshot_with_correct_checksums_is_an_image_or_raises_bad_snapshot() -> None:
    """Another program, or a broker with a bug, may have written it."""
    whole = encode(an_image_with_topics(), 5)
    parts = [whole[header.position : header.end] for header in batches(whole)]
    for name, random in seeds(600, "written-snapshots"):
        wrong = list(parts)
        at = random.randrange(len(wrong))
        inside = wrong[at][:21] + damaged(random, wrong[at][21:])
        length = (len(inside) - 12).to_bytes(4, "big", signed=True)
        wrong[at] = with_true_crc(inside[:8] + length + inside[12:])
        try:
            with bounded_memory(name, len(whole)):
                decode(b"".join(wrong), CLUSTER)
        except BadSnapshot:
            continue
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error


def test_a_damaged_record_is_replayed_or_raises_an_error() -> None:
    image = an_image_with_topics()
    values = [encode_record(each, version_of(each)) for each in image.records()]
    for name, random in seeds(1_500, "metadata-records"):
        value = damaged(random, random.choice(values))
        try:
            with bounded_memory(name, len(value)):
                record = decode_record(value)
                image.copy().replay(record)
        except (ProtocolError, ReplayError):
            continue
        except Exception as error:
            raise AssertionError(f"{name}: {error!r}") from error


def a_life(*, clean: bool) -> tuple[MemoryDisk, MetadataImage]:
    """Make a metadata log with several segments, two snapshots and records after them."""
    node = MetadataNode(metadata_log_segment_bytes="8388608").begin()
    for number in range(12):
        assert node.create(f"t{number}") == 0
        node.steps.run_until_idle()
        if number in (3, 6, 9):
            node.log.snapshot()
            node.steps.run_until_idle()
    assert node.delete("t5") == 0
    node.steps.run_until_idle()
    if clean:
        node.log.close()
    return node.disk, node.log.committed


@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("whose", [".log", "index", "0.checkpoint", ""])
def test_a_damaged_directory_has_the_committed_image_or_is_refused(whose: str, clean: bool) -> None:
    template, committed = a_life(clean=clean)
    files = {path: bytes(file.content) for path, file in template.files.items()}
    names = [path for path in files if path.endswith(whose) and files[path]]
    for name, random in seeds(150, f"metadata-{whose}-{clean}"):
        disk = MemoryDisk()
        for path in template.directories:
            disk.make_directory(path)
        wrong = set(random.sample(names, min(len(names), random.choice((1, 1, 2, 3)))))
        if any(path.endswith("durable-ends") for path in wrong):
            # Then it is unknown which records were durable and must exist.
            wrong = {path for path in wrong if not path.endswith(".log")}
        for path, data in files.items():
            disk.replace_file(path, damaged(random, data) if path in wrong else data)
        try:
            found = MetadataNode(disk).log.committed
        except (LogDamaged, QuorumStateDamaged, WrongQuorum):
            continue
        except Exception as error:
            raise AssertionError(f"{name}: {sorted(wrong)}: {error!r}") from error
        assert found == committed, f"{name}: {sorted(wrong)}: started with something else"
