"""`odradek top`: a live screen of any Kafka cluster: topics by rate, groups by lag.

Of Odradek's brokers it also shows what waits in them and the levels of their timing wheels. Samples
are taken by a thread of their own (`top_samples`), so that keys work while a broker is silent;
`top_figures` and `top_screen` make the lines of them, `top_terminal` draws. While the cluster does
not answer the last figures stay, with a line that says so.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import click

from odradek import Admin
from odradek.cli.clients import admin, broker_options, cluster_settings
from odradek.cli.options import json_option, seconds_of
from odradek.cli.output import Listing, show
from odradek.cli.top_figures import (
    COLUMNS,
    FIRST_SORT,
    Figures,
    Row,
    Sample,
    View,
    figures,
    sorted_rows,
)
from odradek.cli.top_samples import Sampling
from odradek.cli.top_screen import ScreenState, page_rows, press, screen_lines
from odradek.client.errors import KafkaError

EVERY = "2s"
SHORTEST_S = 0.2
LATE_S = 3.0
"""A sample is late when it takes so much longer than the interval."""
REDRAW_S = 1.0
REQUEST_TIMEOUT_MS = 3_000
"""A broker that is frozen must not hold what others can answer."""


@click.command("top")
@click.option(
    "--interval", metavar="DURATION", default=EVERY, show_default=True, help="Time between samples."
)
@click.option(
    "--once", is_flag=True, help="Print one set of figures, over one interval, instead of a screen."
)
@json_option
@broker_options
@click.pass_context
def top(ctx: click.Context, interval: str, once: bool, as_json: bool) -> None:
    """Show what a cluster does: topics by rate, groups by lag.

    Of Odradek's brokers also the requests that wait, with the time they have left, and the timers.
    The last line of the screen lists the keys. With --json, or if it is not on a terminal, it
    prints once: views cluster, topics, groups, waiting, timers.
    """
    interval_s = max(SHORTEST_S, seconds_of(interval))
    settings = cluster_settings(ctx)
    with admin(settings, request_timeout_ms=REQUEST_TIMEOUT_MS) as cluster:
        if once or as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            print_once(cluster, interval_s, as_json=as_json)
        else:
            watch(cluster, interval_s, f"{settings.address}  every {interval}")


def print_once(cluster: Admin, interval_s: float, *, as_json: bool) -> None:
    """Print the figures of two samples."""
    sampling = Sampling(cluster)
    before = sampling.take()
    time.sleep(interval_s)
    now = sampling.take()
    # A broker that was silent before may be fenced by now, and no longer be listed.
    found = figures(replace(now, silent=tuple(sorted({*before.silent, *now.silent}))), before)
    if found.sample.silent:
        click.echo(f"warning: {silence(found.sample)}", err=True)
    for listing in listings(found, with_view=as_json or not sys.stdout.isatty()):
        show(listing, as_json=as_json)


def silence(sample: Sample) -> str:
    """Say which brokers did not answer, and what is missing therefore."""
    several = len(sample.silent) > 1
    names = ", ".join(map(str, sample.silent))
    return (
        f"{'brokers' if several else 'broker'} {names} {'do' if several else 'does'} not answer: "
        f"{'their' if several else 'its'} groups, requests and partitions are missing"
    )


def listings(found: Figures, *, with_view: bool) -> list[Listing]:
    """Return a table of the cluster and one of each view. `with_view`: its name is a column, so
    that lines of different tables can be told apart."""
    lag_ms = None if found.loop_lag_s is None else found.loop_lag_s * 1000
    names = ("brokers", "messages_s", "loop_lag_ms", "silent")
    silent = ", ".join(map(str, found.sample.silent)) or None
    cluster: Row = (found.sample.brokers, found.messages_s, lag_ms, silent)
    tables: list[tuple[str, tuple[str, ...], list[Row]]] = [("cluster", names, [cluster])]
    for view in View:
        rows = sorted_rows(found.rows[view], view, FIRST_SORT[view], turned=False)
        tables.append((view.value, tuple(each.name for each in COLUMNS[view]), rows))
    made = []
    for title, columns, rows in tables:
        listing = Listing(("view", *columns) if with_view else columns, title=title)
        listing.empty = f"{title}: none"
        for row in rows:
            cells = [round(cell, 1) if isinstance(cell, float) else cell for cell in row]
            listing.add(*((title, *cells) if with_view else cells))
        made.append(listing)
    return made


# -- the live screen -------------------------------------------------------------------------------


class Sampler:
    """Takes samples on a thread of its own. A byte in the pipe announces each outcome."""

    def __init__(self, cluster: Admin, interval_s: float, wake_fd: int) -> None:
        self.outcomes: queue.SimpleQueue[Sample | Exception] = queue.SimpleQueue()
        self._cluster = cluster
        self._sampling = Sampling(cluster)
        self._interval_s = interval_s
        self._wake_fd = wake_fd
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="odradek-top", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            begun = time.monotonic()
            try:
                self.outcomes.put(self._sampling.take())
            except Exception as error:  # A bug is raised where the screen is left.
                self.outcomes.put(error)
            os.write(self._wake_fd, b"s")
            self._stopped.wait(max(0.0, begun + self._interval_s - time.monotonic()))

    def stop(self) -> None:
        """End the thread: requests that are open fail, because the client is closed."""
        self._stopped.set()
        self._cluster.close()
        self._thread.join()


@dataclass(slots=True)
class Watched:
    """The figures on the screen, and why they are old if they are."""

    interval_s: float
    started_s: float
    found: Figures | None = None
    last: Sample | None = None
    error: KafkaError | None = None
    answered_s: float = field(default=0.0)

    def take(self, outcome: Sample | Exception, now_s: float, *, paused: bool) -> None:
        """Take the outcome of a sample. Raises the error if none has succeeded yet, and a bug."""
        if isinstance(outcome, Exception):
            if self.last is None or not isinstance(outcome, KafkaError):
                raise outcome
            self.error = outcome
            return
        if not paused:
            self.found = figures(outcome, self.last)
        self.last, self.error, self.answered_s = outcome, None, now_s

    def problem(self, now_s: float) -> str:
        """Return why the figures are old; "" if they are not."""
        if self.last is None:
            return ""
        age_s = now_s - self.answered_s
        if self.error is None and age_s < self.interval_s + LATE_S:
            return silence(self.last) if self.last.silent else ""
        reason = "" if self.error is None else f": {self.error}"
        return f"no answer for {age_s:.0f} s, these figures are old{reason}"


@contextmanager
def no_warnings() -> Iterator[None]:
    """Print no warnings of the client, which would break the screen; its third line has them."""
    logger = logging.getLogger("odradek")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def watch(cluster: Admin, interval_s: float, title: str) -> None:
    """Show the screen until it is left."""
    from odradek.cli.top_terminal import open_terminal

    state = ScreenState()
    wake_read, wake_write = os.pipe()
    watched = Watched(interval_s, time.monotonic())
    sampler = Sampler(cluster, interval_s, wake_write)
    try:
        with no_warnings(), open_terminal(wake_read, wake_write) as terminal:
            while not state.quit:
                while not sampler.outcomes.empty():
                    outcome = sampler.outcomes.get()
                    watched.take(outcome, time.monotonic(), paused=state.paused)
                width, height = terminal.size
                problem = watched.problem(time.monotonic())
                clock = time.strftime("%H:%M:%S")
                terminal.draw(
                    screen_lines(
                        state,
                        watched.found,
                        width,
                        height,
                        title=f"{title}  {clock}",
                        problem=problem,
                    )
                )
                keys = terminal.wait(REDRAW_S)
                if keys is None:
                    return
                for key in keys:
                    state = press(state, key, page_rows(height))
    except KeyboardInterrupt:
        return  # Ctrl-C leaves the screen as `q` does.
    finally:
        sampler.stop()
        os.close(wake_read)
        os.close(wake_write)
