"""The initial offsets of a stream, kept so that they stay the same.

Spark asks a source for its initial offsets when a query starts, and again when the first
micro-batch is run again after a failure. Spark does not store them. With `startingOffsets=latest`
each answer would differ, and records that arrived between two answers would be skipped silently.
They are kept in one of three ways:

- *They cannot move*: offsets given by number, or `earliest` if all logs start at 0 (a log start
  that has moved since is reported as data loss).
- *In a file*, when the reader was given the query's `checkpointLocation` as an option of its own,
  on any file system that `pyarrow.fs` knows (`s3a:` and `s3n:` are read as `s3:`):

      <checkpointLocation>/odradek-initial-offsets/<digest>.offered.json    Spark asked for them
      <checkpointLocation>/odradek-initial-offsets/<digest>.json            a micro-batch may use it
          {"version": 1, "subscription": "subscribe flights", "offsets": {"flights": {"0": 17}}}

  The digest is of the subscription and the starting options: two sources of one query with the same
  ones share the files. The first writer wins; a file is never changed afterwards. The second is
  written before the end of the first micro-batch is answered, thus before Spark logs it: if it is
  missing when that micro-batch is run again, the offered offsets are not those where it began
  (other options, another directory).
- *In Spark's own offset log* otherwise: the first micro-batch reads nothing and ends where it began
  (`StreamOffset.begins`), so that the next one begins at the logged offsets.

If another source logged the first micro-batch (Spark's own Kafka source), it begins at the offsets
that this source kept, if `checkpointLocation` is given:

    <checkpointLocation>/sources/<n>/0      an optional NUL, "v1", a line feed, the offsets as JSON
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from odradek.spark.offsets import EARLIEST, Offsets, from_json_dict, to_json_dict
from odradek.spark.options import OffsetLimit, ReadOptions
from odradek.spark.topics import WAY_OUT

DIRECTORY = "odradek-initial-offsets"
VERSION = 1
S3_SCHEMES = ("s3a", "s3n")
"""Hadoop's names for what `pyarrow.fs` calls `s3`."""
KEPT = re.compile(r".*/[0-9a-f]+\.json")
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


NOT_IN_LOG = (
    "It would have been kept by a first micro-batch that reads nothing, as this source begins "
    "queries with, or with the option checkpointLocation on the reader; so the micro-batch was "
    "logged by another source or another version of this one"
)


class InitialOffsets:
    """The initial offsets of one source of one query."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.known: Offsets | None = None
        self.kept_in_file = False
        """True if `known` was kept in a file before, or is since `keep`."""

    def get(self, resolve: Callable[[], Offsets]) -> Offsets:
        """Return the offsets given before, in this process or another; else `resolve()`."""
        if self.known is None:
            location = self.options.checkpoint_location
            self.known = resolve() if location is None else self.load_or_offer(location, resolve)
        return self.known

    def keep(self) -> None:
        """Keep the offsets in the file, if there can be one. To call before a micro-batch that
        begins there can be logged."""
        location = self.options.checkpoint_location
        if location is None or self.known is None or self.kept_in_file:
            return
        with explain_storage_errors(location):
            files, root = file_system(location)
            path = self.path(root)
            if self.load(files, path) is None:
                store(files, path, self.content(self.known))
        self.kept_in_file = True

    def can_move(self) -> bool:
        """True if asking again later could give other offsets without an error. False before the
        first answer."""
        if self.kept_in_file or self.known is None:
            return False
        return can_move(self.options.starting, self.known)

    def may_skip(self) -> bool:
        """True if a micro-batch that is run again may have begun earlier: the offsets can move, or
        those kept for other options are lower."""
        location = self.options.checkpoint_location
        if self.can_move():
            return True
        if location is None or self.known is None or self.kept_in_file:
            return False
        with explain_storage_errors(location):
            files, root = file_system(location)
            directory = fs.FileSelector(f"{root}/{DIRECTORY}", allow_not_found=True)
            paths = [info.path for info in files.get_file_info(directory)]
            kept = [self.load(files, path) for path in paths if KEPT.fullmatch(path)]
        return any(
            (offsets or {}).get(partition, offset) < offset
            for offsets in kept
            for partition, offset in self.known.items()
        )

    def not_kept(self) -> tuple[str, str]:
        """Say why offsets that are needed again were not kept, and what to do."""
        location = self.options.checkpoint_location
        if location is None:
            return NOT_IN_LOG, WAY_OUT
        return (
            f"{location}/{DIRECTORY} has no file for {self.options.subscription.describe()} and "
            f"{self.options.starting.option} as they are now. Either what to read or where to "
            "start was changed, or the files were removed, or they are elsewhere (a path without "
            "a scheme is on the machine of the driver)",
            "start the query once with the options and the directory that it had, and change them "
            f"when a micro-batch is finished; or {WAY_OUT}",
        )

    def load_or_offer(self, location: str, resolve: Callable[[], Offsets]) -> Offsets:
        """Return the kept offsets, or those that were offered before, or offer new ones."""
        with explain_storage_errors(location):
            files, root = file_system(location)
            kept = self.load(files, self.path(root))
            if kept is None:
                kept = kafka_source_offsets(files, root, self.options)
        if kept is not None:
            self.kept_in_file = True
            return kept
        path = self.path(root, "offered.json")
        with explain_storage_errors(location):
            offered = self.load(files, path)
        if offered is not None:
            return offered
        offsets = resolve()
        with explain_storage_errors(location):
            store(files, path, self.content(offsets))
            return self.load(files, path) or offsets

    def load(self, files: fs.FileSystem, path: str) -> Offsets | None:
        """Return the offsets in a file; None if it does not exist."""
        found = read_text(files, path)
        if found is None:
            return None
        content = json.loads(found)
        if content.get("version") != VERSION:
            raise ValueError(f"{path} has version {content.get('version')}, not {VERSION}")
        return from_json_dict(content["offsets"], path)

    def path(self, root: str, ending: str = "json") -> str:
        return f"{root}/{DIRECTORY}/{self.digest()}.{ending}"

    def digest(self) -> str:
        starting = self.options.starting
        identity = repr((self.options.subscription, starting.option, starting))
        return hashlib.sha256(identity.encode()).hexdigest()[:16]

    def content(self, offsets: Offsets) -> str:
        content = {
            "version": VERSION,
            "subscription": self.options.subscription.describe(),
            "offsets": to_json_dict(offsets),
        }
        return json.dumps(content, indent=1)


def can_move(starting: OffsetLimit, offsets: Offsets) -> bool:
    """True if `starting`, which gave `offsets` now, could give other offsets later although no
    record in between was lost."""
    if starting.timestamp is not None or starting.timestamps is not None:
        return True
    if starting.offsets is None:
        asked = dict.fromkeys(offsets, starting.all_at)
    else:
        asked = {partition: starting.offsets.get(partition) for partition in offsets}
    return any(
        how is None or (how < 0 and not (how == EARLIEST and offsets[partition] == 0))
        for partition, how in asked.items()
    )


@contextlib.contextmanager
def explain_storage_errors(location: str) -> Iterator[None]:
    """Turn errors of a file system into a `ValueError` that says what to do."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        way_out = (
            "leave this option out on the reader (not on the writer); the first micro-batch then "
            "reads nothing, and Spark's own checkpoint keeps where the stream began"
        )
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            way_out = "the disk is full: make room there, and start the query again"
        raise ValueError(
            f"checkpointLocation {location!r} on the reader: the source cannot keep its initial "
            f"offsets there: {error}. What to do: {way_out}"
        ) from error


def file_system(location: str) -> tuple[fs.FileSystem, str]:
    """Return the file system and the path of a directory given as a path or a URI."""
    parts = urlsplit(location)
    if parts.scheme == "":
        return fs.LocalFileSystem(), os.path.abspath(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return fs.LocalFileSystem(), unquote(parts.path).rstrip("/") or "/"
    files, path = fs.FileSystem.from_uri(arrow_uri(location))
    return files, path.rstrip("/")


def arrow_uri(location: str) -> str:
    """Return a URI of Hadoop's as `pyarrow.fs` writes it."""
    scheme, colon, rest = location.partition(":")
    return f"s3{colon}{rest}" if scheme in S3_SCHEMES else location


def read_text(files: fs.FileSystem, path: str) -> str | None:
    """Return the content of a file; None if it does not exist."""
    if files.get_file_info(path).type == fs.FileType.NotFound:
        return None
    with files.open_input_stream(path) as file:
        return bytes(file.read()).decode()


def store(files: fs.FileSystem, path: str, content: str) -> None:
    """Write a file atomically, unless it exists. Object stores show an object only when it is
    complete; on other file systems a draft is moved into place."""
    if isinstance(files, fs.LocalFileSystem):
        store_on_disk(Path(path), content)
        return
    files.create_dir(os.path.dirname(path), recursive=True)
    if files.type_name == "hdfs":
        draft = f"{path}.{os.getpid()}.draft"
        with files.open_output_stream(draft) as out:
            out.write(content.encode())
        files.move(draft, path)
        return
    with files.open_output_stream(path) as out:
        out.write(content.encode())


def store_on_disk(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".draft-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # A hard link cannot replace a file.
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)


def kafka_source_offsets(files: fs.FileSystem, root: str, options: ReadOptions) -> Offsets | None:
    """Return the initial offsets that Spark's own Kafka source kept in this checkpoint for the
    same topics; None if there are none."""
    chosen = fs.FileSelector(f"{root}/sources", allow_not_found=True)
    for source in sorted(files.get_file_info(chosen), key=lambda info: info.path):
        text = read_text(files, f"{source.path}/0")
        version, _, shaped = (text or "").lstrip("\0").partition("\n")
        if version != "v1":
            continue
        offsets = from_json_dict(json.loads(shaped), f"{source.path}/0")
        if options.subscription.may_have({partition.topic for partition in offsets}):
            return offsets
    return None
