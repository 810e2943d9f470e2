"""A server in a process that has too few descriptors; prints what happened as JSON.

limit = what is open now + 15      so that 40 clients cannot all be accepted
one client connects early and is served throughout
40 more connect from a second process: some are accepted, the others rejected
they leave: a new client is accepted after at most the longest pause
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys

from unit.network.memory_network import Recorder, framed
from unit.network.reactor_thread import read_frame, serving

CROWD = """
import socket, sys
address = ("127.0.0.1", int(sys.argv[1]))
clients = [socket.create_connection(address) for _ in range(40)]
rejected = 0
for client in clients:
    client.sendall(b"\\0\\0\\0\\1x")
    try:
        rejected += client.recv(5) == b""
    except ConnectionResetError:
        rejected += 1
print(rejected, flush=True)
sys.stdin.read()
"""


def main() -> None:
    with serving(Recorder(echo=True)) as thread:
        early = thread.connect()
        command = [sys.executable, "-c", CROWD, str(thread.address[1])]
        crowd = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert crowd.stdin is not None
        assert crowd.stdout is not None
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        few = len(os.listdir("/proc/self/fd")) + 15
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
        rejected = int(crowd.stdout.readline())
        before = thread.on_owner(lambda: thread.reactor.wakeups)
        served = all(serve_one(early) for _ in range(10))
        wakeups = thread.on_owner(lambda: thread.reactor.wakeups) - before
        crowd.stdin.close()
        crowd.wait()
        thread.until(lambda: len(thread.server.connections) == 1)
        with thread.connect() as late:
            served_after = serve_one(late)
        early.close()
    print(
        json.dumps(
            {
                "rejected": rejected,
                "served_while_full": served,
                "wakeups_while_full": wakeups,
                "served_after": served_after,
            }
        )
    )


def serve_one(client: socket.socket) -> bool:
    client.sendall(framed(b"hello"))
    return read_frame(client) == b"hello"


if __name__ == "__main__":
    main()
