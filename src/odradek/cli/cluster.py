"""The cluster of a command: its options, its settings and its clients.

    -b HOST:PORT,...      else  -X bootstrap.servers=...  else  --command-config FILE
                          else  ODRADEK_BROKERS  else  KAFKA_BOOTSTRAP_SERVERS
                          else  localhost:9092
    -X NAME=VALUE         any client setting, by Kafka's or librdkafka's name; `-X list` prints them
    --command-config FILE settings as lines of NAME=VALUE, as Kafka's own tools read them

All names of a setting mean the same setting. If several sources give it, the first of these wins: a
flag of the command (`-b`, `produce --acks`), `-X`, the file, the command's own default. Within one
source the last value wins.

The long names of Kafka's tools (`--bootstrap-server`, `--broker-list`, `--command-property`) are
accepted and hidden from the help.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli.failures import report_errors
from odradek.cli.raw_text import check_utf8
from odradek.config.addresses import DEFAULT_BROKER, BROKER_VARIABLES
from odradek.config.client import AdminConfig, all_client_arguments, all_client_settings
from odradek.config.client_names import alias_of

if TYPE_CHECKING:
    from odradek import Admin, Consumer, Producer


SERVERS = "bootstrap.servers"
OTHER_NAMES = ("--bootstrap-server", "--bootstrap-servers", "--broker-list")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """`settings` are for a client's constructor, by the names they were given, `bootstrap.servers`
    among them."""

    settings: dict[str, str]

    @property
    def address(self) -> str:
        return next(
            value for name, value in self.settings.items() if alias_of(name).name == SERVERS
        )


def broker_options(command: F) -> F:
    """Adds `-b`, `-X`, `--command-config` to a command; it takes them as one `Brokers`."""

    options = [
        cluster_option(
            "brokers",
            "-b",
            "--brokers",
            metavar="HOST:PORT,...",
            help=f"Where to connect.  [default: ${BROKER_VARIABLES[0]}, ${BROKER_VARIABLES[1]}, {DEFAULT_BROKER}]",
        ),
        cluster_option(
            "properties",
            "-X",
            "--client-property",
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
        *(cluster_option("brokers", name, hidden=True) for name in OTHER_NAMES),
        cluster_option("properties", "--command-property", is_eager=True, hidden=True),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def cluster_option(kind: str, *names: str, **more: Any) -> Callable[[F], F]:
    """An option whose values `brokers` finds under `kind`, whichever name it was given by. If it is
    eager, it is looked at before a topic is missed that nobody needs for `-X list`."""

    def taken(ctx: click.Context, _: click.Parameter, values: tuple[str, ...]) -> None:
        if kind == "properties" and "list" in values and not ctx.resilient_parsing:
            list_settings()
            ctx.exit()
        ctx.ensure_object(dict)
        ctx.obj.setdefault(kind, []).extend(values)

    return click.option(*names, callback=taken, expose_value=False, multiple=True, **more)


def cluster_settings(ctx: click.Context) -> ClusterSettings:
    """What the options of this call, the files and the environment say together."""
    given: dict[str, Sequence[str]] = ctx.obj or {}
    found = (os.environ.get(name) for name in BROKER_VARIABLES)
    layers = [
        {SERVERS: next(filter(None, found), DEFAULT_BROKER)},
        *(read_properties(Path(path)) for path in given.get("files", ())),
        *(parse_property(pair) for pair in given.get("properties", ())),
    ]
    if named := given.get("brokers"):
        layers.append({SERVERS: ",".join(named)})
    settings = merge_layers(*layers)
    check_utf8(*settings, *settings.values())
    check_settings(settings)
    return ClusterSettings(settings)


def merge_layers(*layers: Mapping[str, str]) -> dict[str, str]:
    """The settings of all layers. Where several mean the same setting, by whatever names, the last
    counts, as it was written."""
    meant = {
        alias_of(name).name: (name, value) for layer in layers for name, value in layer.items()
    }
    return dict(meant.values())


def check_settings(names: Iterable[str]) -> None:
    """Raises `UsageError` for what clients are given in Python beside settings: serializers and the
    like. Keys and values are bytes to commands."""
    arguments = all_client_arguments() - all_client_settings()
    for name in names:
        if alias_of(name).name in arguments:
            raise click.UsageError(
                f"{name} is no setting, but an argument of clients in Python: leave it out. "
                "Commands take keys and values as the bytes they are"
            )


def parse_property(pair: str) -> dict[str, str]:
    """What one `-X` says."""
    name, equals, value = pair.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"-X {pair!r}: write NAME=VALUE, as in -X client.id=me")
    return {name.strip(): value.strip()}


def read_properties(path: Path) -> dict[str, str]:
    """Lines of NAME=VALUE; blank ones and those that begin with # or ! say nothing."""
    settings = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        line = line.strip()
        if not line or line[:1] in b"#!":
            continue
        place = f"{click.format_filename(path)}, line {number}"
        try:
            name, equals, value = line.decode().partition("=")
        except UnicodeDecodeError:
            raise click.UsageError(f"{place}: {line[:60]!r} is not UTF-8: settings are") from None
        if not equals:
            raise click.UsageError(f"{place}: {name[:60]!r} is not NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


def list_settings() -> None:
    """Every setting of producer, consumer and admin client, with its default and meaning."""
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
def admin(cluster: ClusterSettings, *, beside_consumer: bool = False) -> Iterator[Admin]:
    """An admin client for one command. It gives up sooner than a program's would. Beside a consumer
    it is not given what only that one may have use for: which of it has none, the consumer tells.
    """
    from odradek import Admin

    settings = merge_layers({"default.api.timeout.ms": API_TIMEOUT_MS}, cluster.settings)
    with report_errors(cluster):
        if beside_consumer:
            settings = {n: value for n, value in settings.items() if AdminConfig.resolve(n, value)}
        with Admin(settings) as client:
            yield client


@contextmanager
def producer(
    cluster: ClusterSettings, flags: Mapping[str, str]
) -> Iterator[Producer[bytes | str, bytes | str]]:
    """A producer for one command; `flags` come before what `-X` says."""
    from odradek import Producer

    given = merge_layers({"max.block.ms": API_TIMEOUT_MS}, cluster.settings, flags)
    with report_errors(cluster), Producer(given) as client:
        yield client


@contextmanager
def consumer(
    cluster: ClusterSettings, defaults: Mapping[str, str], flags: Mapping[str, str]
) -> Iterator[Consumer[bytes, bytes]]:
    """A consumer for one command; `flags` come before what `-X` says, `defaults` after it."""
    from odradek import Consumer

    with report_errors(cluster), Consumer(merge_layers(defaults, cluster.settings, flags)) as client:
        yield client
