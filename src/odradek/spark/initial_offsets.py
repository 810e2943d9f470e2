"""Where a stream began, kept so that it stays the same.

Spark asks a source for its initial offsets when a query starts, and again when the first
micro-batch is run again after a failure. It does not write them down. With `startingOffsets=latest`
each answer would be another one, and what arrived between two answers would be skipped without a
word. They are kept in one of three ways:

- *They cannot move*: offsets given by number, or `earliest` where all logs start at 0 (a log start
  that has moved since is a loss, and found as one).
- *In a file*, when the reader was given the query's `checkpointLocation` as an option of its own,
  on any file system that `pyarrow.fs` knows (`s3a:` and `s3n:` are read as `s3:`):

      <checkpointLocation>/odradek-initial-offsets/<digest>.json
          {"version": 1, "subscription": "subscribe flights", "offsets": {"flights": {"0": 17}}}

  The digest is of the subscription and the starting options: two sources of one query that want the
  same share a file, and agree. The first writer wins; the file is never changed afterwards.
- *In Spark's own offset log* otherwise: the first micro-batch reads nothing and ends where it began
  (`StreamOffset.begins`), so that the next one begins at what the log says.

A first micro-batch that another source logged (Spark's own Kafka source) is begun where that source
kept it, if `checkpointLocation` is given:

    <checkpointLocation>/sources/<n>/0      an optional NUL, "v1", a line feed, the offsets as JSON
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from odradek.spark.offsets import EARLIEST, Offsets, from_json_dict, to_json_dict
from odradek.spark.options import OffsetLimit, ReadOptions

DIRECTORY = "odradek-initial-offsets"
VERSION = 1
S3_SCHEMES = ("s3a", "s3n")
"""Hadoop's names for what `pyarrow.fs` calls `s3`."""


class InitialOffsets:
    """The initial offsets of one source of one query."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.known: Offsets | None = None
        self.kept_in_file = False
        """True if `known` was found in a file, or is in one now."""

    def get(self, resolve: Callable[[], Offsets]) -> Offsets:
        """What was answered before, in this process or another; `resolve()` if never."""
        if self.known is None:
            location = self.options.checkpoint_location
            self.known = resolve() if location is None else self.load_or_store(location, resolve)
        return self.known

    def can_move(self) -> bool:
        """True if asking again, later, could give other offsets without a trace. False before the
        first answer."""
        if self.kept_in_file or self.known is None:
            return False
        return can_move(self.options.starting, self.known)

    def load_or_store(self, location: str, resolve: Callable[[], Offsets]) -> Offsets:
        with explained(location):
            files, root = file_system(location)
            path = f"{root}/{DIRECTORY}/{self.digest()}.json"
            found = read_text(files, path)
            offsets = begun_elsewhere(files, root, self.options) if found is None else None
        if found is None:
            offsets = offsets or resolve()
            with explained(location):
                store(files, path, self.content(offsets))
                found = read_text(files, path)
        content = json.loads(found or "{}")
        if content.get("version") != VERSION:
            raise ValueError(f"{path} has version {content.get('version')}, not {VERSION}")
        self.kept_in_file = True
        return from_json_dict(content["offsets"], path)

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
    """True if `starting`, which gave `offsets` now, could give others later while no record was
    lost that lies between."""
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
def explained(location: str) -> Iterator[None]:
    """Raise a `ValueError` that says what to do where a file system is not known, or fails."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise ValueError(
            f"checkpointLocation {location!r} on the reader: the source cannot keep its initial "
            f"offsets there: {error}. What to do: leave this option away on the reader (not on the "
            "writer); the first micro-batch then reads nothing, and Spark's own checkpoint keeps "
            "where the stream began"
        ) from error


def file_system(location: str) -> tuple[fs.FileSystem, str]:
    """The file system and the path of a directory given as a path or a URI."""
    parts = urlsplit(location)
    if parts.scheme == "":
        return fs.LocalFileSystem(), os.path.abspath(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return fs.LocalFileSystem(), unquote(parts.path).rstrip("/") or "/"
    files, path = fs.FileSystem.from_uri(arrow_uri(location))
    return files, path.rstrip("/")


def arrow_uri(location: str) -> str:
    """A URI of Hadoop's as `pyarrow.fs` writes it."""
    scheme, colon, rest = location.partition(":")
    return f"s3{colon}{rest}" if scheme in S3_SCHEMES else location


def read_text(files: fs.FileSystem, path: str) -> str | None:
    """The content of a file; None if there is none."""
    if files.get_file_info(path).type == fs.FileType.NotFound:
        return None
    with files.open_input_stream(path) as file:
        return bytes(file.read()).decode()


def store(files: fs.FileSystem, path: str, content: str) -> None:
    """Write a file whole, unless another was first. Object stores show an object only when it is
    complete; where files grow, a draft is moved into place."""
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


def begun_elsewhere(files: fs.FileSystem, root: str, options: ReadOptions) -> Offsets | None:
    """The initial offsets that Spark's own Kafka source kept in this checkpoint for the same
    topics; None if there are none."""
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
