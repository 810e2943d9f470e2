"""The program that Spark starts in place of Python: it has the fork server start the process.

    python -IS launch.py SOCKET -m MODULE [ARGUMENT ...]

It passes arguments, environment, working directory and the three standard streams to the fork
server (`odradek.spark.fork_server`), waits for the end of the process and exits as that did. If
this program is killed, the server ends the process. If the server refuses, is gone, or these are
other arguments, this process becomes a plain Python with them.

It runs once for every process that Spark starts, so it imports as little as possible: nothing of
Odradek, and no module that imports `enum`, which would take as long as all of the rest.
"""

import os
import sys
from _signal import SIG_IGN, SIGINT, signal  # type: ignore[import-not-found]  # It has no stubs.
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket
from array import array

STREAMS = (0, 1, 2)
LENGTH_BYTES = 4
REFUSED = -1
"""The answer instead of an exit code."""


def message(arguments: list[str]) -> bytes:
    """Return the working directory, the number of arguments, the arguments and the environment,
    separated by zero bytes, behind their length."""
    settings = [name + b"=" + value for name, value in os.environb.items()]
    fields = [os.getcwdb(), b"%d" % len(arguments), *map(os.fsencode, arguments), *settings]
    text = b"\0".join(fields)
    return len(text).to_bytes(LENGTH_BYTES, "big") + text


def exit_code(address: str, arguments: list[str]) -> int:
    """Have the server start the process; return its exit code, or `REFUSED`. Raises `OSError` if
    there is no server."""
    server = socket(AF_UNIX, SOCK_STREAM)
    server.connect(address)
    sent = message(arguments)
    rights = [(SOL_SOCKET, SCM_RIGHTS, array("i", STREAMS))]
    server.sendall(sent[server.sendmsg([sent], rights) :])
    answer = server.recv(LENGTH_BYTES)
    # Without an answer the server was killed, and the process may run: Spark starts another.
    return int.from_bytes(answer, "big", signed=True) if answer else 1


def main() -> None:
    address, arguments = sys.argv[1], sys.argv[2:]
    if arguments[:1] == ["-m"]:
        # Ctrl-C is the driver's: it ends its session.
        before = signal(SIGINT, SIG_IGN)
        try:
            code = exit_code(address, arguments)
        except OSError:
            code = REFUSED
        if code != REFUSED:
            os._exit(code)
        signal(SIGINT, before)
    os.execv(sys.executable, [sys.executable, *arguments])


if __name__ == "__main__":
    main()
