"""The cluster of a command: its options, its settings and its clients.

    -b HOST:PORT,...      else  -X bootstrap.servers=...  else  --command-config FILE
                          else  ODRADEK_BROKERS  else  KAFKA_BOOTSTRAP_SERVERS
                          else  localhost:9092
    -X NAME=VALUE         any client setting, by Kafka's or librdkafka's name; `-X list` prints them
    --command-config FILE settings as lines of NAME=VALUE, as Kafka's own tools read them

All names of a setting mean the same setting. If several sources give it, the first of these wins: a
flag of the command (`-b`, `produce --acks`), `-X`, the file, the command's own default. So it is in
Kafka's tools. Within one source the last value on the command line wins, by whatever name the
option was given.

The long names of Kafka's tools (`--bootstrap-server`, `--broker-list`, `--command-property`) are
further names of these options and hidden from the help.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli.failures import report_errors
from odradek.cli.raw_text import check_utf8
from odradek.config.addresses import (
    BROKER_VARIABLES,
    DEFAULT_BROKER,
    any_brokers_are_set,
    default_brokers,
)
from odradek.config.client import AdminConfig, all_client_arguments, all_client_settings
from odradek.config.client_names import alias_of

if TYPE_CHECKING:
    from odradek import Admin, Consumer, Producer


SERVERS = "bootstrap.servers"
SERVER_NAMES = ("--bootstrap-server", "--bootstrap-servers", "--broker-list")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ClientFileSettings:
    """The settings for a client's constructor, by the names they were given, with
    `bootstrap.servers`."""

    settings: dict[str, str]
    is_address_given: bool = True
    """False if nothing names brokers, so that the default address is asked."""

    @property
    def address(self) -> str:
        address = self.value_of(SERVERS)
        assert address is not None
        return address

    def value_of(self, setting: str) -> str | None:
        """Return the value of a setting by whatever name it was given; None if it was not."""
        values = (value for name, value in self.settings.items() if alias_of(name).name == setting)
        return next(values, None)


def broker_options(command: F) -> F:
    """Add `-b`, `-X` and `--command-config` to a command; see `cluster_settings`."""

    options = [
        cluster_option(
            "brokers",
            "-b",
            "--brokers",
            hidden_names=SERVER_NAMES,
            metavar="HOST:PORT,...",
            help=f"Brokers to connect to.  [default: ${BROKER_VARIABLES[0]}, "
            f"${BROKER_VARIABLES[1]}, {DEFAULT_BROKER}]",
        ),
        cluster_option(
            "properties",
            "-X",
            "--client-property",
            hidden_names=("--command-property",),
            metavar="NAME=VALUE",
            is_eager=True,
            help="A client setting, repeatable; `-X list` prints them.",
        ),
        cluster_option(
            "files",
            "--command-config",
            metavar="FILE",
            type=click.Path(exists=True, dir_okay=False),
            help="Client settings in a file of NAME=VALUE lines.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


class OptionWithHiddenNames(click.Option):
    """An option with further names that its help leaves out. Values keep the order of the command
    line, which those of several options would lose."""

    def __init__(self, names: Sequence[str], hidden_names: Sequence[str] = (), **more: Any) -> None:
        super().__init__([*names, *hidden_names], **more)
        self.hidden_names = hidden_names

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        names = self.opts
        self.opts = [name for name in names if name not in self.hidden_names]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = names


def cluster_option(kind: str, *names: str, **more: Any) -> Callable[[F], F]:
    """Return an option whose values `cluster_settings` finds under `kind`. An eager option is
    parsed before required arguments, so that `-X list` needs no topic."""

    def taken(ctx: click.Context, _: click.Parameter, values: tuple[str, ...]) -> None:
        if kind == "properties" and "list" in values and not ctx.resilient_parsing:
            list_settings()
            ctx.exit()
        ctx.ensure_object(dict)
        ctx.obj.setdefault(kind, []).extend(values)

    return click.option(
        f"cluster_{kind}",
        *names,
        cls=OptionWithHiddenNames,
        callback=taken,
        expose_value=False,
        multiple=True,
        **more,
    )


def cluster_settings(ctx: click.Context) -> ClientFileSettings:
    """Return the settings from the options of this call, the files and the environment."""
    given: dict[str, Sequence[str]] = ctx.obj or {}
    layers = [
        {SERVERS: default_brokers(os.environ)},
        *(read_properties(Path(path)) for path in given.get("files", ())),
        *(parse_property(pair) for pair in given.get("properties", ())),
    ]
    if named := given.get("brokers"):
        layers.append({SERVERS: ",".join(named)})
    settings = merge_layers(*layers)
    check_utf8(*settings, *settings.values())
    check_settings(settings)
    names = (alias_of(name).name for layer in layers[1:] for name in layer)
    return ClientFileSettings(settings, SERVERS in names or any_brokers_are_set(os.environ))


def merge_layers(*layers: Mapping[str, str]) -> dict[str, str]:
    """Merge layers of settings. If several names mean the same setting, the last one wins, under
    the name it was given."""
    meant = {
        alias_of(name).name: (name, value) for layer in layers for name, value in layer.items()
    }
    return dict(meant.values())


def check_settings(names: Iterable[str]) -> None:
    """Raise `UsageError` for arguments of the Python clients that are not settings, such as
    serializers. Commands treat keys and values as bytes."""
    arguments = all_client_arguments() - all_client_settings()
    for name in names:
        if alias_of(name).name in arguments:
            raise click.UsageError(
                f"{name} is not a setting but an argument of the Python clients: leave it out. "
                "Commands treat keys and values as bytes"
            )


def parse_property(pair: str) -> dict[str, str]:
    """Parse the value of one `-X`."""
    name, equals, value = pair.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"-X {pair!r}: write NAME=VALUE, as in -X client.id=me")
    return {name.strip(): value.strip()}


def read_properties(path: Path) -> dict[str, str]:
    """Read lines of NAME=VALUE; blank lines and lines that begin with # or ! are skipped. So is a
    byte order mark, which editors on Windows write."""
    settings = {}
    content = path.read_bytes().removeprefix(codecs.BOM_UTF8)
    for number, line in enumerate(content.splitlines(), 1):
        line = line.strip()
        if not line or line[:1] in b"#!":
            continue
        place = f"{click.format_filename(path)}, line {number}"
        try:
            name, equals, value = line.decode().partition("=")
        except UnicodeDecodeError:
            raise click.UsageError(
                f"{place}: {line[:60]!r} is not UTF-8: settings must be"
            ) from None
        if not equals:
            raise click.UsageError(f"{place}: {name[:60]!r} is not NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def list_settings() -> None:
    """Print every setting of producer, consumer and admin client, with default and meaning."""
    from odradek.cli.output import Listing, show
    from odradek.config.client import client_kinds

    listing = Listing(("setting", "of", "default", "meaning"))
    for name in sorted(all_client_settings()):
        of = [kind for kind in client_kinds() if name in kind.declared]
        setting = of[0].declared[name]
        kinds = [kind.kind for kind in of]
        listing.add(name, kinds, setting.text(setting.default), setting.doc)
    show(listing, as_json=False)


API_TIMEOUT_MS = "10000"


@contextmanager
def admin(
    cluster: ClientFileSettings,
    *,
    beside_consumer: bool = False,
    request_timeout_ms: int | None = None,
) -> Iterator[Admin]:
    """Open an admin client for one command, with a shorter timeout than the default; for requests
    if one is given, too. With `beside_consumer` it gets only the settings of admin clients; the
    consumer then warns of settings without effect.
    """
    from odradek import Admin

    defaults = {"default.api.timeout.ms": API_TIMEOUT_MS}
    if request_timeout_ms is not None:
        defaults["request.timeout.ms"] = str(request_timeout_ms)
    settings = merge_layers(defaults, cluster.settings)
    with report_errors(cluster):
        if beside_consumer:
            settings = {n: value for n, value in settings.items() if AdminConfig.resolve(n, value)}
        with Admin(settings) as client:
            yield client


@contextmanager
def producer(
    cluster: ClientFileSettings, flags: Mapping[str, str]
) -> Iterator[Producer[bytes | str, bytes | str]]:
    """Open a producer for one command; `flags` take precedence over `-X`."""
    from odradek import Producer

    given = merge_layers({"max.block.ms": API_TIMEOUT_MS}, cluster.settings, flags)
    with report_errors(cluster), Producer(given) as client:
        yield client


@contextmanager
def consumer(
    cluster: ClientFileSettings, defaults: Mapping[str, str], flags: Mapping[str, str]
) -> Iterator[Consumer[bytes, bytes]]:
    """Open a consumer for one command; `flags` take precedence over `-X`, which does over
    `defaults`."""
    from odradek import Consumer

    with (
        report_errors(cluster),
        Consumer(merge_layers(defaults, cluster.settings, flags)) as client,
    ):
        yield client
