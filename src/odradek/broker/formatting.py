"""Formatting: a new data directory gets its identity and the voters of its cluster's quorum.

It is what `kafka-storage.sh format --initial-controllers` does (KIP-853). The voters are in the
snapshot of the records before the first one:

    <data directory>/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint

So each of several nodes begins with the same voters, and each voter is known by its directory. The
first leader writes them into the log, for nodes that join later. `meta.properties` comes last: a
directory without it was not formatted to the end, and is formatted again.
"""

from __future__ import annotations

from odradek.controller.image import MetadataImage
from odradek.controller.snapshots import encode
from odradek.log.directory_identity import META_FILE, MetaProperties, NewDirectory
from odradek.log.log_directory import LOCK_FILE
from odradek.model.env import Disk
from odradek.raft.raft_log import METADATA_DIRECTORY
from odradek.raft.replicas import VoterSet
from odradek.raft.snapshot_files import SnapshotId

BEFORE_ALL_RECORDS = SnapshotId(0, 0)


def format_directory(
    disk: Disk, path: str, identity: MetaProperties, voters: VoterSet, now_ms: int
) -> None:
    """Format the directory of one node. Each voter needs its directory id and an address."""
    NewDirectory(disk, path, LOCK_FILE).make(META_FILE)
    metadata = f"{path}/{METADATA_DIRECTORY}"
    disk.make_directory(metadata)
    contents = encode(MetadataImage(identity.cluster_id), now_ms, voters)
    disk.replace_file(f"{metadata}/{BEFORE_ALL_RECORDS.file_name}", contents)
    disk.replace_file(f"{path}/{META_FILE}", identity.encode())
