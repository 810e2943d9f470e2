"""Precedence of client settings: flag, `-X`, file, environment, default of the command. A setting
may be given by any of its names.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import odradek
from odradek.cli.main import main
from odradek.config.addresses import BROKER_VARIABLES
from odradek.config.client import AdminConfig, ClientSettings
from odradek.config.consumer import ConsumerConfig
from odradek.config.producer import ProducerConfig
from odradek.config.setting import ConfigError

KINDS: dict[str, type[ClientSettings]] = {
    "Admin": AdminConfig,
    "Consumer": ConsumerConfig,
    "Producer": ProducerConfig,
}
GROUP = ("consume", "-r", "t", "-g", "g")
"""A member of a group that subscribes to a pattern asks no admin client first."""


class ClientMade(ConfigError):
    """Raised by a fake client once it has its settings."""


@pytest.fixture
def client_settings_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return the parsed settings of the first client that a command creates."""
    loaded: list[ClientSettings] = []

    def fake_client(kind: type[ClientSettings]) -> Callable[..., Any]:
        def make(settings: dict[str, Any]) -> None:
            loaded.append(kind.load(settings))
            raise ClientMade("seen")

        return make

    def call(*arguments: str) -> ClientSettings:
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 2 and "seen" in done.stderr, (done.output, done.exception)
        return loaded.pop()

    for name in BROKER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, kind in KINDS.items():
        monkeypatch.setattr(odradek, name, fake_client(kind))
    return call


def refused(*arguments: str) -> Result:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2, (done.output, done.exception)
    return done


ClientSettingsOf = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "setting", "value"),
    [
        (("topic", "ls", "-X", "metadata.broker.list=h:1"), "bootstrap_servers", ("h:1",)),
        (("topic", "ls", "-X", "bootstrap_servers=h:1"), "bootstrap_servers", ("h:1",)),
        (("topic", "ls", "-X", "default_api_timeout_ms=4000"), "default_api_timeout_ms", 4000),
        (("produce", "t", "v", "-X", "compression.codec=lz4"), "compression_type", "lz4"),
        (("produce", "t", "v", "-X", "COMPRESSION_TYPE=LZ4"), "compression_type", "lz4"),
        (("produce", "t", "v", "-X", "request.required.acks=1"), "acks", "1"),
        (("produce", "t", "v", "-X", "max_block_ms=1000"), "max_block_ms", 1000),
        ((*GROUP, "-X", "auto_offset_reset=largest"), "auto_offset_reset", "latest"),
    ],
)
def test_a_setting_is_accepted_by_any_of_its_names(
    client_settings_of: ClientSettingsOf, arguments: tuple[str, ...], setting: str, value: object
) -> None:
    """Also where the command has its own default for the setting."""
    assert getattr(client_settings_of(*arguments), setting) == value


@pytest.mark.parametrize(
    ("arguments", "setting", "value"),
    [
        (("produce", "t", "v"), "compression_type", "none"),
        (("produce", "t", "v"), "acks", "all"),
        (("produce", "t", "v", "-X", "acks=0"), "acks", "0"),
        (("produce", "t", "v", "--acks", "1", "-X", "acks=0"), "acks", "1"),
        (("produce", "t", "v", "--acks", "all", "-X", "request_required_acks=0"), "acks", "all"),
        (
            ("produce", "t", "v", "-z", "gzip", "-X", "compression.type=lz4"),
            "compression_type",
            "gzip",
        ),
        (
            ("produce", "t", "v", "-z", "none", "-X", "compression.codec=lz4"),
            "compression_type",
            "none",
        ),
        (GROUP, "auto_offset_reset", "earliest"),
        ((*GROUP, "-o", "stored", "-X", "auto.offset.reset=latest"), "auto_offset_reset", "latest"),
        (
            (*GROUP, "-o", "start", "-X", "auto.offset.reset=latest"),
            "auto_offset_reset",
            "earliest",
        ),
        ((*GROUP, "-o", "end", "-X", "auto_offset_reset=earliest"), "auto_offset_reset", "latest"),
        ((*GROUP, "-X", "group.id=other"), "group_id", "g"),
        ((*GROUP, "-X", "isolation.level=read_committed"), "isolation_level", "read_committed"),
        (
            (*GROUP, "--read-committed", "-X", "isolation.level=read_uncommitted"),
            "isolation_level",
            "read_committed",
        ),
    ],
)
def test_a_flag_overrides_x_which_overrides_the_default_of_the_command(
    client_settings_of: ClientSettingsOf, arguments: tuple[str, ...], setting: str, value: object
) -> None:
    assert getattr(client_settings_of(*arguments), setting) == value


def test_the_bootstrap_servers_come_from_the_source_with_the_highest_precedence(
    client_settings_of: ClientSettingsOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the lowest precedence to the highest, each with another name of the setting."""
    file = tmp_path / "client.properties"
    file.write_text("# Where it is.\nmetadata.broker.list = file:1\n")
    arguments = ["topic", "ls"]

    def servers() -> list[str]:
        return [*client_settings_of(*arguments).bootstrap_servers]

    assert servers() == ["localhost:9092"]
    monkeypatch.setenv(BROKER_VARIABLES[1], "environment:2")
    assert servers() == ["environment:2"]
    monkeypatch.setenv(BROKER_VARIABLES[0], "environment:1")
    assert servers() == ["environment:1"]
    arguments += ["--command-config", str(file)]
    assert servers() == ["file:1"]
    arguments += ["-X", "bootstrap_servers=x:1"]
    assert servers() == ["x:1"]
    arguments += ["-X", "brokers=x:2"]
    assert servers() == ["x:2"]
    arguments += ["-b", "flag:1", "-b", "flag:2"]
    assert servers() == ["flag:1", "flag:2"]


@pytest.mark.parametrize(
    ("options", "value"),
    [
        (("-X", "client.id=1", "--command-property", "client.id=2", "-X", "client_id=3"), "3"),
        (("--command-property", "client.id=1", "-X", "client.id=2"), "2"),
        (("-X", "client.id=1", "--client-property", "client.id=2"), "2"),
        (("-X", "client.id=1", "--command-property", "client.id=2"), "2"),
    ],
)
def test_the_last_property_on_the_command_line_wins_whatever_the_option_is_called(
    client_settings_of: ClientSettingsOf, options: tuple[str, ...], value: str
) -> None:
    assert client_settings_of("topic", "ls", *options).client_id == value


def test_brokers_keep_the_order_of_the_command_line(client_settings_of: ClientSettingsOf) -> None:
    options = ("--bootstrap-server", "h:1", "-b", "h:2", "--broker-list", "h:3", "--brokers", "h:4")
    servers = client_settings_of("topic", "ls", *options).bootstrap_servers
    assert servers == ("h:1", "h:2", "h:3", "h:4")


def test_the_names_of_kafkas_tools_are_not_in_the_help() -> None:
    text = CliRunner().invoke(main, ["topic", "ls", "--help"]).stdout
    assert "-X, --client-property NAME=VALUE" in text and "-b, --brokers HOST:PORT" in text
    assert "--command-property" not in text and "--bootstrap-server" not in text


@pytest.mark.parametrize("name", ["group.id", "group_id", "GROUP.ID"])
def test_a_group_id_among_the_settings_makes_a_member(
    client_settings_of: ClientSettingsOf, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"{name}=filed\n")
    for source in (("-X", f"{name}=filed"), ("--command-config", str(file))):
        member = client_settings_of("consume", "-r", "t", *source)
        assert isinstance(member, ConsumerConfig) and member.group_id == "filed"
        member = client_settings_of("consume", "-r", "t", *source, "-g", "flag")
        assert member.group_id == "flag"


def test_a_group_id_among_the_settings_is_named_if_it_does_not_fit_the_other_options() -> None:
    error = refused("consume", "t", "-e", "-X", "group.id=billing").stderr
    assert "group.id billing: a group continues from its committed offsets" in error
    assert "group.id is empty" in refused("consume", "-r", "t", "-X", "group.id=").stderr


def test_an_unreachable_broker_is_named_whatever_setting_gave_it() -> None:
    done = CliRunner().invoke(
        main,
        [
            "topic",
            "ls",
            "-X",
            "metadata.broker.list=127.0.0.1:1",
            "-X",
            "default_api_timeout_ms=200",
        ],
    )
    assert done.exit_code == 3
    assert "Is there a broker at 127.0.0.1:1?" in done.stderr


NOBODY = "127.0.0.1:1"


@pytest.mark.parametrize("variable", [None, "ODRADEK_BROKERS", "KAFKA_BOOTSTRAP_SERVERS"])
def test_an_address_that_nobody_gave_is_said_to_be_the_default_one(
    monkeypatch: pytest.MonkeyPatch, variable: str | None
) -> None:
    for name in ("ODRADEK_BROKERS", "KAFKA_BOOTSTRAP_SERVERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("odradek.cli.clients.default_brokers", lambda _: NOBODY)
    if variable is not None:
        monkeypatch.setenv(variable, NOBODY)
    done = CliRunner().invoke(main, ["topic", "ls", "-X", "default.api.timeout.ms=200"])
    hint = done.stderr.splitlines()[-1]
    assert done.exit_code == 3 and "ODRADEK_BROKERS" in hint
    if variable is None:
        assert hint.startswith(f"No address was given, so {NOBODY} was asked. `odradek up` starts")
        assert "its ready line has the address. Give that with -b HOST:PORT" in hint
    else:
        assert hint.startswith(f"Is there a broker at {NOBODY}?")


@pytest.mark.parametrize(
    "arguments",
    [
        ("topic", "ls", "-X", "default.api.timeout.ms=300"),
        ("consume", "t", "-X", "default.api.timeout.ms=300"),
        ("consume", "t", "-g", "g", "-X", "default.api.timeout.ms=300"),
        ("produce", "t", "v", "-X", "max.block.ms=300"),
    ],
)
def test_an_error_that_a_warning_named_is_not_repeated_at_the_end(
    arguments: tuple[str, ...],
) -> None:
    done = CliRunner().invoke(main, [*arguments, "-b", NOBODY])
    assert done.exit_code == 3
    warning, error, hint = done.stderr.splitlines()
    assert warning.startswith("odradek: cannot get metadata of the cluster: ")
    assert f"({NOBODY}) cannot be used: Connection refused; retrying. What to do: " in warning
    assert "300" in error and "as above" not in error and "Connection refused" not in error
    assert hint.startswith(f"Is there a broker at {NOBODY}?")


def test_an_unknown_setting_is_named_as_it_was_written() -> None:
    assert "no client has a setting Lingr_MS; did you mean linger.ms?" in (
        refused("topic", "ls", "-X", "Lingr_MS=5").stderr
    )
    assert "no client has a setting Lingr_MS" in refused("consume", "t", "-X", "Lingr_MS=5").stderr


@pytest.mark.parametrize("command", [("produce", "t", "v"), ("consume", "t"), ("topic", "ls")])
@pytest.mark.parametrize("name", ["value", "key.deserializer", "VALUE_SERIALIZER", "on_full"])
def test_an_argument_of_a_constructor_is_refused_as_a_setting(
    command: tuple[str, ...], name: str
) -> None:
    """Commands use keys and values as bytes, so serializers cannot be set."""
    error = refused(*command, "-X", f"{name}=str").stderr
    assert f"{name} is not a setting but an argument of the Python clients" in error


@pytest.mark.parametrize(
    "command",
    [
        ("produce",),
        ("consume",),
        ("topic", "create"),
        ("topic", "describe"),
        ("group", "describe"),
        ("group", "seek"),
    ],
)
@pytest.mark.parametrize("option", ["-X", "--command-property"])
def test_settings_are_listed_without_the_required_arguments(
    command: tuple[str, ...], option: str
) -> None:
    done = CliRunner().invoke(main, [*command, option, "list"])
    assert (done.exit_code, done.stderr) == (0, "")
    assert "linger.ms" in [line.split("\t")[0] for line in done.stdout.splitlines()]


def test_settings_of_consumers_are_not_given_to_the_admin_client_of_consume(
    client_settings_of: ClientSettingsOf, caplog: pytest.LogCaptureFixture
) -> None:
    """The admin client with which `consume` lists offsets gets only the settings that all clients
    have.
    """
    settings = ("-X", "auto.offset.reset=latest", "-X", "default.api.timeout.ms=4000")
    for group in ((), ("-g", "g")):
        looking_up = client_settings_of("consume", "t", *group, *settings)
        assert isinstance(looking_up, AdminConfig)
        assert looking_up.default_api_timeout_ms == 4000
    assert caplog.records == []


def test_settings_without_effect_are_logged_once(
    client_settings_of: ClientSettingsOf, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        client_settings_of("topic", "ls", "-X", "linger.ms=5")
        assert "without effect on this admin client: linger.ms" in caplog.text
        client_settings_of(*GROUP, "-X", "linger.ms=5")
        assert "without effect on this consumer: linger.ms" in caplog.text


def test_an_invalid_line_of_a_settings_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"# caf\xe9: nobody reads this\nlinger.ms=5\nclient.id=caf\xe9\n")
    error = refused("topic", "ls", "--command-config", str(file)).stderr
    assert "client.properties, line 3: b'client.id=caf\\xe9' is not UTF-8" in error
    file.write_bytes(b"linger.ms 5\n")
    error = refused("topic", "ls", "--command-config", str(file)).stderr
    assert "client.properties, line 1: 'linger.ms 5' is not NAME=VALUE" in error


def test_a_file_of_settings_may_begin_with_a_byte_order_mark(
    client_settings_of: ClientSettingsOf, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"\xef\xbb\xbfclient.id=me\r\nbootstrap.servers=h:1\r\n")
    found = client_settings_of("topic", "ls", "--command-config", str(file))
    assert (found.client_id, found.bootstrap_servers) == ("me", ("h:1",))


def test_a_file_of_settings_may_have_comments_in_any_encoding(
    client_settings_of: ClientSettingsOf, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"# caf\xe9\n\n! caf\xe9\nclient.id = caf\xc3\xa9\n")
    assert client_settings_of("topic", "ls", "--command-config", str(file)).client_id == "caf\u00e9"
