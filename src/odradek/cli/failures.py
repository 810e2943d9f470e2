"""What went wrong, said on stderr, with an exit code that a script can tell apart.

A command that takes several names does what it is asked for each that can be found, in any order,
and says afterwards what was wrong with the others (`each_of`).

2  a setting or argument that means nothing        4  no such topic, partition, group
3  nobody answers at that address                  5  not allowed, or refused by the cluster
1  anything else                                   130  interrupted
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from odradek.cli import exits
from odradek.client import errors
from odradek.config.setting import ConfigError

if TYPE_CHECKING:
    from odradek.cli.cluster import ClusterSettings

NOT_FOUND = (errors.UnknownTopicOrPartition, errors.GroupNotFound)
REFUSED = (
    errors.AuthenticationError,
    errors.AuthorizationError,
    errors.PolicyViolation,
    errors.TopicAlreadyExists,
    errors.InvalidTopic,
    errors.InvalidPartitions,
    errors.InvalidReplicationFactor,
    errors.InvalidConfig,
    errors.GroupNotEmpty,
    errors.UnknownMember,
)
UNREACHABLE = (errors.Disconnected, errors.KafkaTimeout)
HINTS: dict[type[BaseException], str] = {
    errors.UnknownTopicOrPartition: "`odradek topic ls` lists the topics, `odradek topic "
    "describe` their partitions.",
    errors.TopicAlreadyExists: "`--if-not-exists` takes it as it is; `odradek topic describe` "
    "shows how that is.",
    errors.GroupNotFound: "`odradek group ls` lists the groups there are.",
    errors.UnknownMember: "A group is moved when it has no members: stop them first.",
    errors.GroupNotEmpty: "`odradek group describe` shows the members.",
    errors.InvalidConfig: "`odradek topic config TOPIC --all` lists the settings of a topic.",
    errors.InvalidReplicationFactor: "`-r 1` works with a single broker.",
    ConfigError: "`-X list` prints the settings there are.",
}
"""What to try next, after the error itself."""


def exit_code(error: BaseException) -> int:
    """The code of what a client raised."""
    for kinds, code in (
        ((ConfigError,), exits.USAGE),
        (NOT_FOUND, exits.NOT_FOUND),
        (REFUSED, exits.REFUSED),
        (UNREACHABLE, exits.UNREACHABLE),
    ):
        if isinstance(error, kinds):
            return code
    return exits.FAILED


class SomeFailed(Exception):
    """What is wrong with some of the names or records that a command was given; the others are
    done. `outcome` says how many."""

    def __init__(self, errors: list[errors.KafkaError], outcome: str = "") -> None:
        super().__init__(errors)
        self.errors = errors
        self.outcome = outcome


def for_each(names: Iterable[str], act: Callable[[str], None]) -> None:
    """Do it for all names, each once. Raises `SomeFailed` at the end if some are not there or are
    refused; any other error at once."""
    failed = collect_errors(names, act)
    if failed:
        raise SomeFailed(failed)


def collect_errors(names: Iterable[str], act: Callable[[str], None]) -> list[errors.KafkaError]:
    """As `each_of`, but what is wrong with some is the answer."""
    failed: list[errors.KafkaError] = []
    for name in dict.fromkeys(names):
        try:
            act(name)
        except (*NOT_FOUND, *REFUSED) as error:
            failed.append(error)
    return failed


@contextmanager
def report_errors(cluster: ClusterSettings) -> Iterator[None]:
    """Ends the process with a sentence and a code where a client's error comes through: of several,
    with the first one's code."""
    try:
        yield
    except SomeFailed as some:
        print_errors(some.errors, cluster, some.outcome)
        sys.exit(exit_code(some.errors[0]))
    except (errors.KafkaError, ConfigError) as error:
        print_errors([error], cluster)
        sys.exit(exit_code(error))


def print_errors(
    failed: Sequence[errors.KafkaError | ConfigError], cluster: ClusterSettings, outcome: str = ""
) -> None:
    """A sentence for each, and for all of them; then what to try next, once."""
    hints: dict[str, None] = {}
    for error in failed:
        click.echo(f"odradek: {error}", err=True)
        if isinstance(error, UNREACHABLE):
            hints[
                f"Is there a broker at {cluster.address}? `odradek up` starts one; -b, or "
                "KAFKA_BOOTSTRAP_SERVERS, says where another is."
            ] = None
        hints |= {hint: None for kind, hint in HINTS.items() if isinstance(error, kind)}
    if outcome:
        click.echo(outcome, err=True)
    for hint in hints:
        click.echo(hint, err=True)
