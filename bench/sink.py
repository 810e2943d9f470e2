"""Receives on a connection and appends to a file: the least that a broker can do with a produce.

    python sink.py FILE     writes the port it listens on to stdout

A byte is sent back when the first megabyte has come, and another one at the end.
"""

import os
import socket
import sys

FIRST = 1 << 20

with socket.create_server(("127.0.0.1", 0)) as listening:
    print(listening.getsockname()[1], flush=True)
    connection, _ = listening.accept()
buffer = memoryview(bytearray(1 << 20))
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
received = 0
while count := connection.recv_into(buffer):
    if received < FIRST <= received + count:
        connection.send(b"1")
    received += count
    os.write(file, buffer[:count])
connection.send(b"2")
connection.recv(1)
