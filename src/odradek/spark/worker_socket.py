"""Gives the socket from a Python worker to Spark room for whole Arrow batches.

A Unix socket takes some 200 KB by default, a tenth of a batch: the worker and Spark's thread would
wait for each other several times in each batch, while the other has work of its own. TCP sockets
need no help: the kernel lets their buffers grow.
"""

from __future__ import annotations

import os
import socket

SEND_BUFFER_BYTES = 4 * 1024 * 1024
"""The kernel gives no more than its own limit, on Linux that of wmem_max in sysctl."""
DESCRIPTORS = "/dev/fd"

_enlarged: int | None = None
"""The process that has done it."""


def enlarge_send_buffer() -> None:
    """Enlarge the send buffer of a worker's connection to Spark, once in a process.

    Does nothing in other processes, and where Spark's workers have TCP sockets. The connection is
    one that the worker's daemon accepted, in the directory that Spark made for its socket.
    """
    global _enlarged
    if _enlarged == os.getpid():
        return
    _enlarged = os.getpid()
    directory = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_DIR")
    if directory is None or os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower() != "true":
        return
    for connection in unix_sockets():
        with connection:
            if str(connection.getsockname()).startswith(directory):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)


def unix_sockets() -> list[socket.socket]:
    """Return duplicates of the Unix sockets of this process."""
    found: list[socket.socket] = []
    for name in os.listdir(DESCRIPTORS):
        try:
            copy = os.dup(int(name))
        except OSError:  # That of the listing itself, closed by now.
            continue
        try:
            one = socket.socket(fileno=copy)
        except OSError:  # No socket.
            os.close(copy)
            continue
        if one.family == socket.AF_UNIX:
            found.append(one)
        else:
            one.close()
    return found
