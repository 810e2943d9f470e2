"""The demo: its rules on made-up flights, and a small run including the proof."""

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import odradek
from odradek.cli.demo import demo
from odradek.demo import flights, pipeline, reference, rules, run, terminal

GOOD = {
    "year": 2013,
    "month": 7,
    "day": 4,
    "dep_time": 2350,
    "sched_dep_time": 2345,
    "dep_delay": 5,
    "arr_time": 120,
    "sched_arr_time": 110,
    "arr_delay": 10,
    "carrier": "UA",
    "flight": 1,
    "tailnum": None,
    "origin": "EWR",
    "dest": "BOS",
    "air_time": 60,
    "distance": 200,
    "hour": 23,
    "minute": 45,
    "time_hour": "2013-07-05T03:00:00Z",
}
BAD = [
    ({"carrier": None}, rules.UNREADABLE),
    ({"time_hour": "yesterday"}, rules.UNREADABLE),
    ({"time_hour": "2013-07-05T04:00:00Z"}, rules.CALENDAR),
    ({"day": 31, "month": 6}, rules.CALENDAR),
    ({"minute": 44}, rules.CALENDAR),
    ({"carrier": "??"}, rules.UNKNOWN_AIRLINE),
    ({"dep_time": None}, rules.NO_DEPARTURE),
    ({"dep_delay": None, "arr_time": None}, rules.NO_DEPARTURE),
    ({"arr_time": None}, rules.NO_ARRIVAL),
    ({"arr_delay": None}, rules.NO_ARRIVAL_DELAY),
    ({"air_time": None}, rules.NO_ARRIVAL_DELAY),
    ({"arr_time": 160, "arr_delay": 50}, rules.CLOCK),
    ({"dep_time": 0, "dep_delay": 15}, rules.CLOCK),
    ({"dep_delay": 6}, rules.TIMES),
    ({"arr_delay": 1449}, rules.TIMES),
    ({"distance": 601}, rules.SPEED),
    ({"air_time": 0}, rules.SPEED),
    ({"distance": 0}, rules.SPEED),
]


def test_every_rule_has_a_flight_that_breaks_it(spark, topics):
    given = [GOOD, {**GOOD, "distance": 600}, {**GOOD, "dep_delay": 5 + 1440}]
    given += [{**GOOD, **change} for change, _ in BAD]  # type: ignore[dict-item]
    texts = [json.dumps(flight) for flight in given] + ["no json", "[]", "null"]
    topic = topics.create()
    topic.produce(*texts, None)
    options = pipeline.flights_options(pipeline.Locations(topic.bootstrap, Path()))
    records = (
        spark.read.format("odradek")
        .options(**{**options, "columns": "offset, data"}, subscribe=topic.name)
        .load()
    )
    checked = pipeline.check(pipeline.parse(records), pipeline.airlines_table(spark))
    found = [row.reason for row in checked.orderBy("offset").collect()]
    assert found == [None] * 3 + [reason for _, reason in BAD] + [rules.UNREADABLE] * 4


def test_the_queries_leave_out_flights_of_aborted_transactions(spark, topics):
    topic = topics.create()
    with odradek.Producer(brokers=topic.bootstrap, transactional_id="flights") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic.name, b"aborted")
        producer.flush()
        producer.abort_transaction()
    topic.produce(json.dumps(GOOD))
    options = pipeline.flights_options(pipeline.Locations(topic.bootstrap, Path()))
    read = spark.read.format("odradek").options(**options, subscribe=topic.name).load()
    assert read.count() == 1


def test_the_reference_agrees_with_the_rules_on_each_flight():
    """For the flights that fit in a CSV file; the reference does not use Spark."""
    import pandas as pd

    expected = [("", GOOD)]
    expected += [(r, {**GOOD, **c}) for c, r in BAD if r != rules.UNREADABLE]  # type: ignore[dict-item]
    table = pd.DataFrame([flight for _, flight in expected])
    table["hour_ms"] = pd.to_datetime(table["time_hour"], utc=True).astype("int64") // 1_000_000
    found = reference.reasons(table, set(flights.airlines()))
    assert list(found) == [reason for reason, _ in expected]


def test_events_are_the_rows_of_the_file_by_report_time():
    events = flights.events()
    assert len(events) == flights.ROWS
    assert all(a.reported_ms <= b.reported_ms for a, b in itertools.pairwise(events))
    first = json.loads(events[0].value)
    assert (first["carrier"], first["dep_time"], first["time_hour"]) == (
        "UA",
        517,
        "2013-01-01T10:00:00Z",
    )
    cancelled = next(e for e in events if b'"dep_time":null' in e.value)
    assert json.loads(cancelled.value)["air_time"] is None


def test_a_small_run_passes_its_proof(tmp_path):
    output = tmp_path / "demo"
    command = [sys.executable, "-m", "odradek", "demo", "--limit", "3000", "--output", str(output)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("holds") == 6
    page = (output / "flights.html").read_text()
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    assert list((output / "delays").glob("batch=*/*.parquet"))


@pytest.fixture
def demo_here(spark, monkeypatch, tmp_path):
    """Run the command in this process and Spark session, with the first 2000 flights."""

    class ThisSession:
        def __init__(self, workers, log_file):
            pass

        def get(self):
            return spark

        def begin_stop(self):
            pass

        close = begin_stop

    monkeypatch.setattr(run, "BackgroundSession", ThisSession)

    def invoke(*arguments):
        output = tmp_path / "demo"
        return CliRunner().invoke(demo, ["--limit", "2000", "--output", str(output), *arguments])

    return invoke


def test_a_failed_proof_exits_with_1(demo_here, monkeypatch):
    computed = reference.compute

    def one_minute_off(keep):
        result = computed(keep)
        window = min(result.windows)
        delays = result.windows[window]
        result.windows[window] = delays._replace(arrival_delay=delays.arrival_delay + 1)
        return result

    monkeypatch.setattr(reference, "compute", one_minute_off)
    ran = demo_here()
    assert ran.exit_code == 1, ran.output
    assert ran.stdout.count("FAILS") == 2
    assert ran.stdout.count("holds") == 4


@pytest.mark.parametrize("place", ["warming up", "live"])
def test_ctrl_c_ends_the_replay_and_proves_what_was_sent(demo_here, monkeypatch, place):
    """At the first check of the queries' progress, or while the screen is drawn."""
    drawn = []
    draw, progress = terminal.draw, run.DemoRun.progress

    def draw_and_interrupt(*given):
        drawn.append(given)
        signal.raise_signal(signal.SIGINT)
        return draw(*given)

    def interrupt_and_progress(*given):
        signal.raise_signal(signal.SIGINT)
        progress(*given)

    monkeypatch.setattr(terminal, "draw", draw_and_interrupt)
    if place == "warming up":
        monkeypatch.setattr(run.DemoRun, "progress", interrupt_and_progress)
    handler = signal.getsignal(signal.SIGINT)
    ran = demo_here("--follow", "--speed", "1")
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.count("holds") == 6
    assert "stopping: finishing and proving what was sent" in ran.stderr
    assert len(drawn) == (1 if place == "live" else 0)
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_before_the_first_flight_proves_nothing(demo_here, monkeypatch):
    read = flights.events

    def interrupt_and_read(limit):
        signal.raise_signal(signal.SIGINT)
        return read(limit)

    monkeypatch.setattr(flights, "events", interrupt_and_read)
    ran = demo_here("--follow")
    assert ran.exit_code == 0, ran.output
    assert "nothing to prove" in ran.stderr
