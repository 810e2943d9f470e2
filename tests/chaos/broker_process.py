"""A broker as a process of its own, whose disk fails at a line of standard input.

    python -m chaos.broker_process DATA_DIR PORT ADVERTISED_PORT

It prints a line when it is ready. The lines `append ERRNO`, `sync ERRNO` and `works` change what
the disk does from then on. At the end of its input it ends at once, so that it does not outlive
whoever started it; at SIGTERM it stops cleanly.
"""

from __future__ import annotations

import os
import sys
import threading

from clients.failing_disk import FailingDisk
from odradek.broker.server import Server
from odradek.cli.up import stop_on_signals


def obey(disk: FailingDisk) -> None:
    """Change what the disk does, line by line; end the process with the input."""
    for line in sys.stdin:
        match line.split():
            case ["append", number]:
                disk.append_error = int(number)
            case ["sync", number]:
                disk.sync_error = int(number)
            case ["works"]:
                disk.append_error = disk.sync_error = 0
    os._exit(1)


def main() -> None:
    data_dir, port, advertised = sys.argv[1:]
    disk = FailingDisk()
    settings = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{advertised}"}
    server = Server(settings, host="127.0.0.1", port=int(port), data_dir=data_dir, disk=disk)
    server.start()
    stop_on_signals(server)
    threading.Thread(target=obey, args=(disk,), daemon=True).start()
    print("ready", flush=True)
    server.run(signals=True)


if __name__ == "__main__":
    main()
