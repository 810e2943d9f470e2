"""Errors of clients, printed on stderr with a hint, and their exit codes.

A command that takes several names handles every name that exists, and reports the errors of the
others afterwards (`for_each`).

A client that tries again logs a warning, which is printed at once. If that was in vain, the error
at the end does not repeat what the warning said.

2  an invalid setting or argument                  4  no such topic, partition, group
3  no broker answers at that address               5  not allowed, or refused by the cluster
1  any other error                                 130  interrupted
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from odradek.cli import exits
from odradek.client import errors
from odradek.config.addresses import BROKER_VARIABLES
from odradek.config.setting import ConfigError

if TYPE_CHECKING:
    from odradek.cli.clients import ClientFileSettings

NOT_FOUND = (
    errors.UnknownTopicOrPartition,
    errors.GroupNotFound,
    errors.TransactionalIdNotFound,
)
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
    errors.TopicAlreadyExists: "`--if-not-exists` accepts an existing topic; `odradek topic "
    "describe` shows it.",
    errors.GroupNotFound: "`odradek group ls` lists the groups.",
    errors.TransactionalIdNotFound: "`odradek txn ls` lists the transactional ids.",
    errors.UnknownMember: "Only a group without members can be moved: stop the members first.",
    errors.GroupNotEmpty: "`odradek group describe` shows the members.",
    errors.InvalidConfig: "`odradek topic config TOPIC --all` lists the settings of a topic.",
    errors.InvalidReplicationFactor: "`-r 1` works with a single broker.",
    ConfigError: "`-X list` prints all settings.",
}
"""The next step, printed after the error."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of a client's error."""
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
    """The errors of some of a command's names or records; the others are done. `outcome` is a
    sentence with the counts."""

    def __init__(self, errors: list[errors.KafkaError], outcome: str = "") -> None:
        super().__init__(errors)
        self.errors = errors
        self.outcome = outcome


def for_each(names: Iterable[str], act: Callable[[str], None]) -> None:
    """Call `act` for each name once. Raises `SomeFailed` at the end if some are missing or
    refused; raises any other error at once."""
    failed = collect_errors(names, act)
    if failed:
        raise SomeFailed(failed)


def collect_errors(names: Iterable[str], act: Callable[[str], None]) -> list[errors.KafkaError]:
    """Call `act` for each name once; return the errors of names that are missing or refused.
    Raises those of clients, such as a lost connection, at once."""
    failed: list[errors.KafkaError] = []
    for name in dict.fromkeys(names):
        try:
            act(name)
        except errors.BrokerError as error:
            failed.append(error)
    return failed


ADVICE = ". What to do:"
"""Ends what an error says; one that names it as its reason may give advice of its own."""


class PrintedWarnings(logging.Handler):
    """Prints the warnings of clients on stderr, and keeps the errors that they were about."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.errors: dict[str, None] = {}
        """The texts of these errors."""

    def emit(self, record: logging.LogRecord) -> None:
        args = record.args if isinstance(record.args, tuple) else ()
        given = (*args, getattr(record, "about", None))
        self.errors |= {str(each): None for each in given if isinstance(each, errors.KafkaError)}
        click.echo(f"odradek: {self.format(record)}", err=True)

    def without_repetition(self, text: str) -> str:
        """Return the text without an error that was printed before."""
        for printed in self.errors:
            for known in (printed, printed.partition(ADVICE)[0]):
                for before in ("; last error: ", ": "):
                    text = text.replace(before + known, "")
                text = text.replace(known, "as above")
        return text


@contextmanager
def report_errors(cluster: ClientFileSettings) -> Iterator[None]:
    """Print a client's warnings and its error, and exit with the error's code; of several errors,
    with the first one's."""
    warnings = PrintedWarnings()
    logger = logging.getLogger("odradek")
    logger.addHandler(warnings)
    try:
        yield
    except SomeFailed as some:
        print_errors(some.errors, cluster, warnings, some.outcome)
        sys.exit(exit_code(some.errors[0]))
    except (errors.KafkaError, ConfigError) as error:
        print_errors([error], cluster, warnings)
        sys.exit(exit_code(error))
    finally:
        logger.removeHandler(warnings)


def unreachable_hint(cluster: ClientFileSettings) -> str:
    """Return what to do if no broker answers."""
    if cluster.is_address_given:
        return (
            f"Is there a broker at {cluster.address}? `odradek up` starts one. Give another "
            f"address with -b or {BROKER_VARIABLES[0]}."
        )
    return (
        f"No address was given, so {cluster.address} was asked. `odradek up` starts a broker "
        "there, unless it is told another port; its ready line has the address. Give that with "
        f"-b HOST:PORT, or set {BROKER_VARIABLES[0]}=HOST:PORT."
    )


def print_errors(
    failed: Sequence[errors.KafkaError | ConfigError],
    cluster: ClientFileSettings,
    warnings: PrintedWarnings,
    outcome: str = "",
) -> None:
    """Print each error, the outcome, and each hint once."""
    hints: dict[str, None] = {}
    for error in failed:
        click.echo(f"odradek: {warnings.without_repetition(str(error))}", err=True)
        if isinstance(error, UNREACHABLE):
            hints[unreachable_hint(cluster)] = None
        hints |= {hint: None for kind, hint in HINTS.items() if isinstance(error, kind)}
    if outcome:
        click.echo(outcome, err=True)
    for hint in hints:
        click.echo(hint, err=True)
