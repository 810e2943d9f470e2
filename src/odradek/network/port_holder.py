"""Who listens on a port: for the message that a port is taken. Linux only; elsewhere nobody is
found.

`/proc/net/tcp` and `tcp6` have one line per socket: its local address as `HEX:PORT`, its state
(`0A` is listening) and its inode. The process that holds the socket has a link `socket:[inode]`
among its descriptors. Those of other users cannot be read; then the holder stays unknown.
"""

from __future__ import annotations

import os
from pathlib import Path

LISTENING = "0A"


def port_holder(port: int, proc: Path = Path("/proc")) -> str | None:
    """`name (pid n)` of a process listening on the port, None if it cannot be found."""
    inodes = {f"socket:[{inode}]" for inode in _listening_inodes(port, proc)}
    if not inodes:
        return None
    for process in sorted(proc.glob("[0-9]*"), key=lambda path: int(path.name)):
        if _holds(process / "fd", inodes):
            return f"{_name(process)} (pid {process.name})"
    return None


def _listening_inodes(port: int, proc: Path) -> list[str]:
    rows = _rows(proc / "net" / "tcp") + _rows(proc / "net" / "tcp6")
    return [
        fields[9]
        for fields in rows
        if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port
    ]


def _rows(table: Path) -> list[list[str]]:
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:  # Not Linux, or no IPv6: nobody is found there.
        return []
    return [fields for line in lines if len(fields := line.split()) > 9]


def _holds(descriptors: Path, sockets: set[str]) -> bool:
    try:
        links = list(descriptors.iterdir())
    except OSError:  # Another user's process, or one that just ended.
        return False
    return any(_target(link) in sockets for link in links)


def _target(link: Path) -> str | None:
    try:
        return os.readlink(link)
    except OSError:  # Closed since it was listed.
        return None


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:  # It ended just now.
        return "a process"
