"""A broker as a process of its own, whose disk fails at a line of standard input.

    python -m chaos.broker_process DATA_DIR SETTINGS

SETTINGS are its broker settings as a JSON object. It prints a line when it is ready. The lines
`append ERRNO`, `sync ERRNO` and `works` change what the disk does from then on. At the end of its
input it ends at once, so that it does not outlive whoever started it; at SIGTERM it stops cleanly.
"""

from __future__ import annotations

import json
import logging
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
    data_dir, settings = sys.argv[1:]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    logging.info("started")
    disk = FailingDisk()
    threading.Thread(target=obey, args=(disk,), daemon=True).start()
    server = Server(json.loads(settings), host="127.0.0.1", port=0, data_dir=data_dir, disk=disk)
    stop_on_signals(server)
    server.start()
    logging.info("ready")
    print("ready", flush=True)
    server.run(signals=True)


if __name__ == "__main__":
    main()
