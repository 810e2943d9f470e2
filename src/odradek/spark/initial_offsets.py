"""Where a stream began, kept so that it stays the same.

Spark asks a source for its initial offsets twice when a query starts, and again when the first
micro-batch is run again after a crash. It does not write them down: for sources of its own it
leaves that to the source, which Python sources cannot do as they are not told the checkpoint's
place. With `startingOffsets=latest` each answer would be another one, and what arrived between two
answers would be skipped without a word.

So the first answer is kept in memory and, when the reader was given the query's
`checkpointLocation` as an option of its own, in a file there:

    <checkpointLocation>/odradek-initial-offsets/<digest>.json
        {"version": 1, "subscription": "subscribe flights", "offsets": {"flights": {"0": 17}}}

The digest is of the subscription and the starting options: two sources of one query that want the
same share a file, and agree. The first writer wins (a hard link cannot replace a file); it is never
changed afterwards. Without `checkpointLocation` a moving start is only noticed: a start beyond the
end of the batch that was logged is reported as data loss.

Only local directories (a path or a `file:` URI) can be written from here.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

from odradek.spark.offsets import Offsets, from_json_dict, to_json_dict
from odradek.spark.options import ReadOptions

DIRECTORY = "odradek-initial-offsets"
VERSION = 1


class InitialOffsets:
    """The initial offsets of one source of one query."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.known: Offsets | None = None

    def get(self, resolve: Callable[[], Offsets]) -> Offsets:
        """What was answered before, in this process or another; `resolve()` if never."""
        if self.known is None:
            path = self.path()
            self.known = resolve() if path is None else self.load_or_store(path, resolve)
        return self.known

    def path(self) -> Path | None:
        """The file; None without a `checkpointLocation`. Raises `ValueError` if that is not
        local."""
        location = self.options.checkpoint_location
        if location is None:
            return None
        starting = self.options.starting
        identity = repr((self.options.subscription, starting.option, starting))
        digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
        return local_path(location) / DIRECTORY / f"{digest}.json"

    def load_or_store(self, path: Path, resolve: Callable[[], Offsets]) -> Offsets:
        if not path.exists():
            self.store(path, resolve())
        content = json.loads(path.read_text())
        if content.get("version") != VERSION:
            raise ValueError(f"{path} has version {content.get('version')}, not {VERSION}")
        return from_json_dict(content["offsets"], str(path))

    def store(self, path: Path, offsets: Offsets) -> None:
        """Write the file, unless another was first."""
        content = {
            "version": VERSION,
            "subscription": self.options.subscription.describe(),
            "offsets": to_json_dict(offsets),
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".draft-")
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, path)
            except FileExistsError:
                return
        finally:
            os.unlink(draft)


def local_path(location: str) -> Path:
    """The directory that a path or `file:` URI names."""
    parts = urlsplit(location)
    if parts.scheme == "":
        return Path(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    raise ValueError(
        f"checkpointLocation {location!r}: the source can keep its initial offsets in a local "
        "directory only. Leave the option away on the reader and start from earliest, or from "
        "offsets or timestamps given per partition, which stay the same"
    )
