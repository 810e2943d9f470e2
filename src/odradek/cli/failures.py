"""What went wrong, said on stderr, with an exit code that a script can tell apart.

2  a setting or argument that means nothing        4  no such topic, partition, group
3  nobody answers at that address                  5  not allowed, or refused by the cluster
1  anything else                                   130  interrupted
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from odradek.cli import exits
from odradek.cli.brokers import Brokers
from odradek.client import errors
from odradek.config.setting import ConfigError

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


@contextmanager
def said(brokers: Brokers) -> Iterator[None]:
    """Ends the process with a sentence and a code where a client's error comes through."""
    try:
        yield
    except (errors.KafkaError, ConfigError) as error:
        click.echo(f"odradek: {error}", err=True)
        if isinstance(error, UNREACHABLE):
            click.echo(
                f"Is there a broker at {brokers.address}? `odradek up` starts one; -b, or "
                "KAFKA_BOOTSTRAP_SERVERS, says where another is.",
                err=True,
            )
        for kind, hint in HINTS.items():
            if isinstance(error, kind):
                click.echo(hint, err=True)
        sys.exit(exit_code(error))
