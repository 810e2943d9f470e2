"""Public clients of other languages get from this broker what a real Apache Kafka gives them.

One program for each client calls all of its admin client that Kafka 4 has, writes with every
compression that it has, idempotently and in transactions, and reads all of it back in a group. It
prints what each call came to. Accepted differences are listed here with their reasons; an entry
that covers none any more fails the test.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from interop.apache_kafka import ApacheKafka
from interop.client_programs import ClientRun, ProgramMissing, go_program, node_program
from interop.differential.comparing import Deviation, compare, unknown, unused
from interop.differential.known_differences import NEWER, NO_TEXT, NOT_SERVED
from odradek.testing.broker import Broker

pytestmark = pytest.mark.interop

SHOWN = 30

KNOWN: dict[str, tuple[Deviation, ...]] = {
    "kafkajs": (),
    "kafkago": (),
    "sarama": (
        Deviation("sarama: describe configs with synonyms", "[[]0].ErrorMsg", NO_TEXT, kafka=""),
    ),
    "franz": (
        Deviation("franz: describe topic configs", "[[]0].ErrMessage", NO_TEXT, kafka=""),
        Deviation("franz: describe delegation tokens", "error", NOT_SERVED),
        Deviation("franz: delete groups", "franz-missing.ErrMessage", NEWER, kafka=""),
    ),
}


@pytest.fixture(scope="module")
def command(request: pytest.FixtureRequest) -> Callable[[str], list[str]]:
    """`command(client)`, which runs its program."""

    def get(client: str) -> list[str]:
        cache = request.config.cache.mkdir("client-programs")
        try:
            if client == "kafkajs":
                return node_program("kafkajs.js", cache)
            return go_program(client, cache)
        except ProgramMissing as missing:
            pytest.skip(str(missing))

    return get


@pytest.mark.parametrize("client", KNOWN)
def test_each_call_of_a_client_has_the_same_outcome_with_kafka(
    client: str,
    command: Callable[[str], list[str]],
    kafka: ApacheKafka,
    ours: Broker,
) -> None:
    program = command(client)
    runs = [ClientRun(program, bootstrap) for bootstrap in (ours.bootstrap, kafka.bootstrap)]
    of_ours, of_kafka = (run.outcomes() for run in runs)
    differences = compare(client, of_ours, of_kafka)
    strange = unknown(differences, KNOWN[client])
    shown = "\n".join(str(each)[:500] for each in strange[:SHOWN])
    assert not strange, f"{len(strange)} unknown differences in {len(of_ours)} calls:\n{shown}"
    stale = unused(differences, KNOWN[client])
    assert not stale, "\n".join(map(str, stale))
