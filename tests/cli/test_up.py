"""`odradek up`: the ready line, clean stops, and error messages."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

import odradek
from cli.processes import ODRADEK, Up, data_dir, run
from odradek.cli.main import main
from odradek.cli.up import other_port_lines

NEVER_STOPS = """
import os
import signal
from odradek.cli.up import stop_on_signals

class Server:
    def request_stop(self, progress):
        os.write(1, b"asked to stop\\n")

stop_on_signals(Server())
print("ready", flush=True)
while True:
    signal.pause()
"""


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None]


def read(bootstrap: str, topic: str) -> bytes | None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(20)
    consumer.close()
    return None if message is None else message.value()


def test_the_json_ready_line_has_address_directory_and_pid(tmp_path: Path) -> None:
    with Up("--port", "0", "--data-dir", data_dir(tmp_path)) as up:
        assert up.ready == {
            "bootstrap": up.bootstrap,
            "data_dir": data_dir(tmp_path),
            "http": up.ready["http"],
            "pid": up.process.pid,
            "version": odradek.__version__,
        }
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", up.ready["http"])
        produce(up.bootstrap, "t", b"x")


def test_two_brokers_serve_http_on_ports_of_their_own() -> None:
    with (
        Up("--port", "0", "--memory") as first,
        Up("--port", "0", "--memory") as second,
        Up("--port", "0", "--memory", "--http", "none") as third,
    ):
        assert first.ready["http"] != second.ready["http"]
        assert third.ready["http"] is None
        for up in (first, second):
            with urllib.request.urlopen(f"{up.ready['http']}/readyz", timeout=60) as answer:
                assert answer.read() == b"ok\n"


@pytest.mark.parametrize("how", ["option", "file", "variable"])
def test_the_token_for_http_comes_from_an_option_a_file_or_the_environment(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "0123456789abcdef"
    (tmp_path / "token").write_text(f"{token}\n")
    if how == "variable":
        monkeypatch.setenv("ODRADEK_HTTP_TOKEN", token)
    given = {
        "option": ("--http-token", token),
        "file": ("--http-token-file", str(tmp_path / "token")),
        "variable": (),
    }[how]
    with Up("--port", "0", "--memory", "--http", "0.0.0.0:0", *given) as up:
        port = up.ready["http"].rpartition(":")[2]
        request = urllib.request.Request(f"http://127.0.0.1:{port}/readyz")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, timeout=60)
        request.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.read() == b"ok\n"


def test_a_broker_where_other_commands_look_says_no_more_of_its_address() -> None:
    assert other_port_lines("127.0.0.1:9092") == []


def test_the_ready_line_has_the_address_and_the_next_step(tmp_path: Path) -> None:
    command = [*ODRADEK, "up", "--port", "0", "--data-dir", data_dir(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            ready, following = up.stdout.readline(), up.stdout.readline()
            found = re.fullmatch(
                rf"Odradek {odradek.__version__} is ready: "
                rf"bootstrap\.servers=(127\.0\.0\.1:\d+)"
                rf"  metrics: http://127\.0\.0\.1:\d+/metrics  data: {data_dir(tmp_path)}\n",
                ready,
            )
            assert found, ready
            assert f"kcat -b {found[1]} -L" in following and "Ctrl-C" in following
            assert up.stdout.readline() == (
                f"Other odradek commands look at localhost:9092: give them  -b {found[1]}  or set  "
                f"ODRADEK_BROKERS={found[1]}\n"
            )
            produce(found[1], "t", b"x")
            up.send_signal(signal.SIGINT)
            assert up.stdout.read() == "", "nothing else is said there"
            assert up.wait(60) == 0
        finally:
            up.kill()


def test_a_setting_holds_and_is_shown_as_given() -> None:
    with Up("--port", "0", "--memory", "--set", "num.partitions=3") as up:
        admin = AdminClient({"bootstrap.servers": up.bootstrap})
        broker = ConfigResource(ResourceType.BROKER, "1")
        shown = admin.describe_configs([broker])[broker].result(60)["num.partitions"]
        assert (shown.value, shown.source) == ("3", ConfigSource.STATIC_BROKER_CONFIG.value)
        produce(up.bootstrap, "t", b"x")
        assert len(admin.list_topics("t", timeout=60).topics["t"].partitions) == 3


def test_a_second_signal_does_not_wait_for_the_stop() -> None:
    """For a broker whose disk does not answer; here the stop never ends."""
    with subprocess.Popen(
        [sys.executable, "-c", NEVER_STOPS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
            assert "stopping (again to stop at once)" in process.stderr.readline()
            assert process.stdout.readline() == "asked to stop\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_cleanly_and_nothing_is_lost(tmp_path: Path, number: int) -> None:
    arguments = ("--port", "0", "--data-dir", data_dir(tmp_path))
    with Up(*arguments) as up:
        produce(up.bootstrap, "t", b"before")
        assert up.stop(number) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    with Up(*arguments) as up:
        assert read(up.bootstrap, "t") == b"before"


def test_after_a_kill_all_acknowledged_records_are_there(tmp_path: Path) -> None:
    arguments = ("--port", "0", "--data-dir", data_dir(tmp_path))
    with Up(*arguments) as up:
        produce(up.bootstrap, "t", b"acknowledged")
        up.process.kill()
        up.process.wait()
    with Up(*arguments) as up:
        assert read(up.bootstrap, "t") == b"acknowledged"


def test_in_memory_it_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Up("--port", "0", "--memory") as up:
        assert up.ready["data_dir"] is None
        produce(up.bootstrap, "t", b"x")
        assert up.stop() == 0
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_reported_with_its_owner_and_leaves_no_directory(tmp_path: Path) -> None:
    with Up("--port", "0", "--memory") as up:
        port = up.bootstrap.rpartition(":")[2]
        failed = run("up", "--port", port, "--data-dir", f"{tmp_path}/new/data")
    assert failed.returncode == 1
    assert list(tmp_path.iterdir()) == []
    assert f"{port}" in failed.stderr and str(up.process.pid) in failed.stderr
    assert "--port 0" in failed.stderr and failed.stdout == ""


def test_on_every_interface_clients_are_told_an_address_they_can_connect_to() -> None:
    with Up("--host", "0.0.0.0", "--port", "0", "--memory") as up:
        assert not up.bootstrap.startswith("0.0.0.0")
        produce(up.bootstrap, "t", b"x")
        assert up.stop() == 0
        assert up.process.stderr is not None
        said = up.process.stderr.read()
    assert f"clients are told {up.bootstrap}" in said and "advertised.listeners" in said


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    with Up("--port", "0", "--data-dir", data_dir(tmp_path)) as up:
        failed = run("up", "--port", "0", "--data-dir", data_dir(tmp_path))
    assert failed.returncode == 1
    assert str(up.process.pid) in failed.stderr and "Traceback" not in failed.stderr
    assert failed.stderr.count("another") == 1, "what to do is said once"
    assert "Errno" not in failed.stderr and ".lock" not in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--set", "num.partitons=3"), "did you mean num.partitions?"),
        (("--set", "num.partitions=many"), "many"),
        (("--set", "num.partitions"), "NAME=VALUE"),
        (("--memory", "--data-dir", "x"), "--memory"),
        (("--port", "70000"), "70000"),
        (("--host", "not a name"), "PLAINTEXT://HOST:PORT"),
        (("--http", "9404x"), "ADDRESS:PORT"),
        (("--http", ":9404"), "0.0.0.0:9404"),
        (("--http", "::1:9404"), "ADDRESS:PORT"),
        (("--http", "0.0.0.0:0"), "--http-token-file"),
        (("--http-token", "not a token"), "letters, digits"),
        (("--http-token-file", "/nowhere"), "does not exist"),
        (("--http-token", "x", "--http-token-file", "/dev/null"), "not both"),
        (("--http-token-file", "/dev/null"), "at least one"),
        (("--set", "advertised.listeners=PLAINTEXT://0.0.0.0:9092"), "reach this machine"),
    ],
)
def test_invalid_arguments_are_refused_with_what_to_do(
    arguments: tuple[str, ...], said: str
) -> None:
    refused = CliRunner().invoke(main, ["up", "--port", "0", *arguments])
    assert refused.exit_code == 2
    assert said in refused.stderr and isinstance(refused.exception, SystemExit)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--host", "192.0.2.254"), "--host"), (("--http", "192.0.2.254:9404"), "--http none")],
)
def test_an_address_of_another_machine_is_refused_with_what_to_do(
    arguments: tuple[str, ...], said: str
) -> None:
    failed = run("up", "--port", "0", *arguments)
    assert failed.returncode == 1
    assert said in failed.stderr and "Traceback" not in failed.stderr


def test_the_version_says_how_the_leaves_run() -> None:
    shown = run("--version").stdout
    assert odradek.__version__ in shown and odradek.leaves.mode() in shown


def test_a_log_can_be_printed(tmp_path: Path) -> None:
    with Up("--port", "0", "--data-dir", data_dir(tmp_path)) as up:
        produce(up.bootstrap, "t", b"printed")
        up.stop()
    (log,) = [p for p in (tmp_path / "data").glob("*-0/*.log") if "__" not in str(p.parent)]
    shown = run("dump-log", "--records", str(log))
    assert shown.returncode == 0
    assert "isvalid: true" in shown.stdout and "b'printed'" in shown.stdout
